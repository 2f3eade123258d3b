//! What is wrong with a policy file: every fault at once, each with its line.

use std::fmt;

use crate::render::plain;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// The line, from 1; `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong, what is allowed and, where there is one, a hint.
    pub problem: String,
}

/// Everything that is wrong with a policy file.
///
/// # Invariant
/// Never empty, and in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PolicyFaults {
    file: String,
    faults: Vec<PolicyFault>,
}

impl PolicyFaults {
    /// The file cannot be read.
    pub(super) fn unreadable(file: &str, why: &str) -> Self {
        let problem = format!("the policy file cannot be read: {why}");
        Self { file: file.to_owned(), faults: vec![PolicyFault { line: None, problem }] }
    }

    /// The faults, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &PolicyFault> {
        self.faults.iter()
    }
}

impl fmt::Display for PolicyFaults {
    /// `file:line: problem`, a line per fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, PolicyFault { line, problem }) in self.faults.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", plain(&self.file))?;
            if let Some(line) = line {
                write!(f, ":{line}")?;
            }
            write!(f, ": {}", plain(problem))?;
        }
        Ok(())
    }
}

/// Collects faults by where they are in the text.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<(usize, String)>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new() }
    }

    /// `problem`, at this byte of the text.
    pub(super) fn push(&mut self, at: usize, problem: String) {
        self.found.push((at, problem));
    }

    pub(super) fn file(&self) -> &str {
        self.file
    }

    /// The line, from 1, of this byte.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What stands in the text there, shortened.
    pub(super) fn shown(&self, span: std::ops::Range<usize>) -> String {
        const LONGEST: usize = 60;
        let text = self.text.get(span).unwrap_or_default();
        let mut shown: String = text.chars().take(LONGEST).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        shown
    }

    pub(super) fn into_faults(mut self) -> PolicyFaults {
        self.found.sort_by_key(|(at, _)| *at);
        let faults = self
            .found
            .iter()
            .map(|(at, problem)| PolicyFault { line: Some(self.line(*at)), problem: problem.clone() })
            .collect();
        PolicyFaults { file: self.file.to_owned(), faults }
    }
}
