//! `rocfire aiter`: AMD's own kernels, which come with nothing of ours.
//!
//! `install` has Python's `pip` download the one version whose code objects are known to be right, and puts those into the folder of
//! compiled kernels, where devices find them. `rocfire doctor` shows them.

use std::path::PathBuf;

use rocfire_hal::Config;
use rocfire_kernels::aiter::{AITER, ObjectState, Report, install, report};

/// What a user may choose.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Download AMD's package by pip, check it, and keep the code objects that launchers use, with their licence.
    Install {
        /// The package's file, for a machine that downloads nothing.
        #[arg(long, value_name = "FILE")]
        wheel: Option<PathBuf>,
    },
}

/// Installs.
///
/// # Errors
/// Settings that cannot be used; a package that cannot be had, or is another than the one that is known.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let What::Install { wheel } = &arguments.what;
    let config = Config::from_env()?;
    let folder = install(&config, wheel.as_deref())?;
    println!("{} is in {}", AITER.requirement, folder.display());
    for line in lines(&report(&config)) {
        println!("{line}");
    }
    Ok(())
}

/// What is there, in lines: the package, then each code object with its hash.
pub fn lines(report: &Report) -> Vec<String> {
    let Some(folder) = &report.folder else {
        return vec!["no code objects; `rocfire aiter install` gets them".to_owned()];
    };
    let version = report.version.as_deref().unwrap_or("of no known version");
    let license = report.license.as_deref().unwrap_or("no licence beside it");
    let (usable, all) = (report.usable(), report.objects.len());
    let mut lines = vec![format!(
        "{version}, {license}, {}: {usable} of {all} code objects are those that are known to be right",
        folder.display()
    )];
    lines.extend(report.objects.iter().map(|(path, hash, state)| match state {
        ObjectState::Known => format!("{path}: {hash}"),
        ObjectState::Missing => format!("{path}: not used, there is no such file"),
        ObjectState::Other(found) => format!("{path}: not used, its hash is {found} and not {hash}"),
        ObjectState::Unreadable(why) => format!("{path}: not used, {why}"),
    }));
    lines
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_there_is_told_with_version_licence_and_hashes() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::default().with_aiter_dir(folder.path().to_owned());
        assert_eq!(lines(&report(&config)), ["no code objects; `rocfire aiter install` gets them"]);
        fs::create_dir_all(folder.path().join("hsa/gfx942")).unwrap();
        let text = lines(&report(&config));
        assert!(text[0].contains("of no known version, no licence beside it"), "{text:?}");
        assert!(text[1..].iter().all(|line| line.ends_with("not used, there is no such file")), "{text:?}");
        let found = report(&config).objects.len();
        assert!(text[0].ends_with(&format!("0 of {found} code objects are those that are known to be right")));
    }
}
