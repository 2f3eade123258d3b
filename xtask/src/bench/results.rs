//! `bench.json`: everything a bench found out, and the verdicts in words for the terminal.

use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::figures::Measured;
use super::goals::Verdict;
use super::machine::Circumstances;
use super::page;
use crate::demo::table::numbers;

/// A bench from beginning to end.
#[derive(Serialize)]
pub struct Results {
    /// Of the form of this file; larger when a reader has to change.
    pub version: u32,
    /// What it takes to do it again.
    pub command: String,
    /// Whether only a regression of kind was looked for, by looser limits.
    pub quick: bool,
    /// Due rows of a scenario of the normal size.
    pub rows: u32,
    /// Where and with what.
    pub circumstances: Circumstances,
    /// What has to hold, and whether it does.
    pub goals: Vec<Verdict>,
    /// What was measured.
    pub scenarios: Vec<Measured>,
}

impl Results {
    /// Writes `bench.json` and `bench.html` into the folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2]> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let json = serde_json::to_string_pretty(self)? + "\n";
        let html = page::render(self)?;
        let files = [("bench.json", json), ("bench.html", html)].map(|(name, text)| {
            let file = folder.join(name);
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
            anyhow::Ok(file)
        });
        let [json, html] = files;
        Ok([json?, html?])
    }

    /// Goals that were measured and are missed.
    pub fn missed(&self) -> Vec<&Verdict> {
        self.goals.iter().filter(|verdict| verdict.met == Some(false)).collect()
    }

    /// Scenarios that could not be measured, with why.
    pub fn failed(&self) -> Vec<(&str, &str)> {
        self.scenarios
            .iter()
            .filter_map(|measured| Some((measured.name.as_str(), measured.error.as_deref()?)))
            .collect()
    }
}

impl Verdict {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        }
    }

    /// What was measured, with the unit.
    pub fn value(&self) -> String {
        self.measured.map_or("–".to_owned(), |value| format!("{} {}", short(value), self.unit))
    }
}

/// Three digits that matter.
pub fn short(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A whole number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

impl Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = self.goals.iter().filter(|verdict| verdict.met.is_some());
        let rows = measured.map(|verdict| {
            let limit = verdict.limit.text(verdict.unit);
            [verdict.goal.to_owned(), verdict.value(), limit, verdict.word().to_owned()]
        });
        f.write_str(&numbers(["goal", "measured", "limit", "verdict"], rows))?;
        for (name, error) in self.failed() {
            write!(f, "\n{name} could not be measured: {error}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!([0, 999, 1000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
    }

    #[rstest]
    #[case(1234.5, "1234")]
    #[case(12.34, "12.3")]
    #[case(1.237, "1.24")]
    #[case(0.012_34, "0.0123")]
    fn a_value_has_about_three_digits(#[case] value: f64, #[case] expected: &str) {
        assert_eq!(short(value), expected);
    }
}
