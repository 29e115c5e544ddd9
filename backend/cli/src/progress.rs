//! What is shown of compiles that take longer than a second: a moving line on a terminal, elsewhere a line for each when it has ended.

use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rocfire_hal::compile::{SlowCompile, on_slow_compile};

/// Shows them from now on: as the message of a bar that is there, else on a line of its own for as long as there are any.
pub fn show_compiles(bar: Option<ProgressBar>) {
    let compiles = Mutex::new((Vec::new(), None::<ProgressBar>));
    on_slow_compile(move |compile| {
        let mut compiles = compiles.lock().expect("nobody panics while it is held");
        let (running, own) = &mut *compiles;
        note(running, compile);
        let shown = bar.as_ref().unwrap_or_else(|| own.get_or_insert_with(spinner));
        shown.set_message(words(running));
        shown.tick();
        if shown.is_hidden() && compile.done {
            eprintln!("compiled {} for {}: {:.1} s", compile.name, compile.arch, compile.elapsed.as_secs_f64());
        }
        if running.is_empty()
            && let Some(own) = own.take()
        {
            own.finish_and_clear();
        }
    });
}

fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is a constant");
    ProgressBar::new_spinner().with_style(style)
}

/// Takes a compile in: it is running, or has ended.
fn note(running: &mut Vec<(String, Duration)>, compile: &SlowCompile) {
    running.retain(|(name, _)| *name != compile.name);
    if !compile.done {
        running.push((compile.name.clone(), compile.elapsed));
    }
}

fn words(running: &[(String, Duration)]) -> String {
    let names = running.iter().map(|(name, elapsed)| format!("{name} {:.0} s", elapsed.as_secs_f64()));
    let names: Vec<String> = names.collect();
    if names.is_empty() { String::new() } else { format!("compiling {}", names.join(", ")) }
}
