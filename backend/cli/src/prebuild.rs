//! `rocfire prebuild`: compiles kernels ahead and puts them into one file, a pack, with which a program needs no compiler.
//!
//! Which kernels is said in `prebuild/list.rs`. Those that fusion makes of a program's own chains of operators are in no list: a
//! run of the program leaves them in the cache, and `--from-cache` takes them from there.

mod list;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rocfire_arch::Arch;
use rocfire_hal::compile::PackMaker;
use rocfire_hal::{Config, DeviceId};

use list::Level;

/// What a user may choose.
#[derive(Debug, clap::Args)]
#[command(after_long_help = ABOUT_LISTS)]
pub struct Arguments {
    /// Architectures, with ; or , between them; that of the default device unless said.
    #[arg(long, value_name = "NAMES")]
    arch: Option<String>,
    /// 0: no kernel but those of --from-cache. 1, core: element-wise operators, casts, copies, reductions, softmax, norms, random
    /// numbers, products of matrices. 2, inference: every operator but gradients. 3: gradients too.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=3))]
    level: u8,
    /// Also every kernel in the cache: run a program once, and its own fused kernels are there.
    #[arg(long)]
    from_cache: bool,
    /// Compilers at a time; cores and memory limit it further.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// The pack. Beside a program it is found by itself, elsewhere by ROCFIRE_PACKS.
    #[arg(long, value_name = "FILE", default_value = "kernels.rocpack")]
    out: PathBuf,
}

const ABOUT_LISTS: &str = "How the list is made: every operator of the library is called on a device that launches nothing, with \
the shapes and types of its cases (tests/src/case), so that the dispatch says which kernels it takes on the architecture; to these \
come the rows of the registry (each family's `sources`), and of level 1 on one-operator kernels for every element-wise operator and \
type. A new operator is in the list once it has its sources and cases. Shapes of your own model may want other tiles, and fusion \
makes kernels of your model's chains: `--from-cache` adds all that a run of it has left in the cache.

    cargo demo --steps 1
    rocfire prebuild --level 0 --from-cache --out demo.rocpack
    ROCFIRE_PACKS=demo.rocpack cargo demo";

/// Writes the pack.
///
/// # Errors
/// For an unknown architecture, where there is no compiler, for kernels that do not compile, and for a file that cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::from_env()?;
    if let Some(jobs) = arguments.jobs {
        config = config.with_compile_jobs(usize::try_from(jobs)?);
    }
    let architectures = architectures(arguments.arch.as_deref(), &config)?;
    let begun = Instant::now();
    let mut maker = PackMaker::new(&config);
    let mut failures = Vec::new();
    for &arch in &architectures {
        if let Some(level) = Level::of(arguments.level) {
            let sources = list::sources(arch, level, &config)?;
            let progress = Progress::new(arch, sources.len());
            failures.extend(maker.compile(arch, &sources, &|name| progress.one(name))?);
            progress.finish();
        }
        if arguments.from_cache {
            println!("{arch}: {} kernels in the cache", maker.add_cached(arch)?);
        }
    }
    if maker.kernels() == 0 {
        return Err("no kernel to pack: level 0 takes none, and the cache has none for it".into());
    }
    let bytes = maker.write(&arguments.out)?;
    for failure in &failures {
        eprintln!("{failure}");
    }
    println!(
        "written: {}, {} kernels, {:.1} MiB, {:.1} s",
        arguments.out.display(),
        maker.kernels(),
        bytes as f64 / (1 << 20) as f64,
        begun.elapsed().as_secs_f64()
    );
    if failures.is_empty() { Ok(()) } else { Err(format!("{} kernels did not compile", failures.len()).into()) }
}

fn architectures(names: Option<&str>, config: &Config) -> Result<Vec<Arch>, Box<dyn std::error::Error>> {
    let Some(names) = names else { return Ok(vec![DeviceId::choose(config)?.arch()]) };
    let names = names.split([';', ',']).map(str::trim).filter(|name| !name.is_empty());
    let mut all = Vec::new();
    for name in names {
        let arch = Arch::parse(name)?;
        if !all.contains(&arch) {
            all.push(arch);
        }
    }
    if all.is_empty() { Err("--arch names no architecture".into()) } else { Ok(all) }
}

/// A bar on a terminal, a line every tenth of the way elsewhere.
struct Progress {
    arch: Arch,
    bar: ProgressBar,
    all: usize,
    done: Mutex<usize>,
}

impl Progress {
    fn new(arch: Arch, all: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(all as u64), ProgressDrawTarget::stderr());
        let template = "{prefix} {bar:32} {pos}/{len} {elapsed}<{eta} {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        bar.set_prefix(arch.name());
        Progress { arch, bar, all, done: Mutex::new(0) }
    }

    fn one(&self, name: &str) {
        let mut done = self.done.lock().expect("nobody panics while it is counted");
        *done += 1;
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
        if self.bar.is_hidden() && *done * 10 / self.all != (*done - 1) * 10 / self.all {
            eprintln!("{}: {done} of {} kernels", self.arch, self.all);
        }
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_told_apart_by_semicolons_and_commas() {
        let names = |text| {
            let all = architectures(Some(text), &Config::default());
            all.map(|all| all.iter().map(|arch| arch.name()).collect::<Vec<_>>()).map_err(|error| error.to_string())
        };
        assert_eq!(names("gfx942;gfx1100").unwrap(), ["gfx942", "gfx1100"]);
        assert_eq!(names(" gfx942, gfx942 ;gfx90a").unwrap(), ["gfx942", "gfx90a"]);
        assert!(names("gfx942;gfx1999").unwrap_err().contains("gfx1999"));
        assert!(names(";").is_err());
    }
}
