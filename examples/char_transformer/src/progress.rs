//! What is shown while the model trains: a bar on a terminal, a line every tenth of the way elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A running training, shown on standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    steps: usize,
    tokens_per_step: usize,
    done: usize,
    since_shown: Duration,
    launches_since_shown: u64,
    steps_since_shown: usize,
}

impl Progress {
    /// `steps` steps of `tokens_per_step` characters.
    pub fn new(steps: usize, tokens_per_step: usize) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
        let template = "{bar:32} {pos}/{len} {elapsed}<{eta} {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        Progress {
            bar,
            steps,
            tokens_per_step,
            done: 0,
            since_shown: Duration::ZERO,
            launches_since_shown: 0,
            steps_since_shown: 0,
        }
    }

    /// One step is done: its loss, how long it took, how many kernels it launched.
    pub fn step(&mut self, loss: f32, took: Duration, launches: u64) {
        self.done += 1;
        self.since_shown += took;
        self.launches_since_shown += launches;
        self.steps_since_shown += 1;
        let hidden = self.bar.is_hidden();
        let due = if hidden {
            self.done == 1 || self.done * 10 / self.steps != (self.done - 1) * 10 / self.steps
        } else {
            self.since_shown > Duration::from_millis(500) || self.done == self.steps
        };
        self.bar.inc(1);
        if !due {
            return;
        }
        let tokens = (self.tokens_per_step * self.steps_since_shown) as f64;
        let message = format!(
            "loss {loss:.4}, {:.0} tokens/s, {} launches/step",
            tokens / self.since_shown.as_secs_f64(),
            self.launches_since_shown / self.steps_since_shown as u64
        );
        if hidden {
            eprintln!("step {}/{}: {message}", self.done, self.steps);
        } else {
            self.bar.set_message(message);
        }
        self.since_shown = Duration::ZERO;
        self.launches_since_shown = 0;
        self.steps_since_shown = 0;
    }

    /// Leaves the bar as it stands.
    pub fn finish(&self) {
        self.bar.abandon();
    }
}
