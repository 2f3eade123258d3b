//! What is being done right now: a bar on a terminal, a line for each step elsewhere.

use std::fmt::Display;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar that knows how many steps there are; it grows when more turn up.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Nothing done yet.
    ///
    /// # Errors
    ///
    /// Never: the template is a constant.
    pub fn new() -> Result<Self> {
        let style =
            ProgressStyle::with_template("{spinner} {wide_msg} [{bar:30}] {pos}/{len} {elapsed_precise}")?;
        let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Self { bar })
    }

    /// Announces so many steps.
    pub fn expect(&self, steps: usize) {
        self.bar.inc_length(steps.try_into().unwrap_or(u64::MAX));
    }

    /// Begins a step.
    pub fn begin(&self, what: impl Display) {
        self.bar.set_message(what.to_string());
    }

    /// Ends a step and says what came of it.
    pub fn end(&self, outcome: impl Display) {
        self.bar.inc(1);
        self.say(outcome);
    }

    /// Says something that stays on the screen.
    pub fn say(&self, text: impl Display) {
        if self.bar.is_hidden() {
            eprintln!("{text}");
        } else {
            self.bar.println(text.to_string());
        }
    }

    /// A bar for the rows of a table that is filled.
    pub fn rows(&self) -> ProgressBar {
        if self.bar.is_hidden() { ProgressBar::hidden() } else { ProgressBar::new(0) }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
