//! What is wrong with the settings: every fault at once, and never a secret.

use std::fmt;

use super::table::Setting;

/// One fault. Its text names the variable, the value unless it is or may hold a secret, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    variable: String,
    value: Option<String>,
    problem: String,
}

/// Everything that is wrong with the settings.
///
/// # Invariant
/// Outside of this module, never empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Faults(Vec<Fault>);

impl Fault {
    /// `problem` with a setting, and its value if there is one.
    pub(super) fn new(setting: &Setting, value: Option<&str>, problem: String) -> Self {
        let value = value.and_then(|value| setting.shown(value));
        Self { variable: setting.variable.to_owned(), value: value.map(str::to_owned), problem }
    }

    /// `value` is refused because of `reason`.
    pub(super) fn refused(setting: &Setting, value: &str, reason: &str) -> Self {
        Self::new(setting, Some(value), format!("{reason}; allowed is {}", setting.allowed()))
    }

    /// A variable without which nothing works.
    pub(super) fn missing(setting: &Setting) -> Self {
        Self::new(setting, None, format!("required, but not set; allowed is {}", setting.allowed()))
    }

    /// A fault that is about the variable as such. The problem must not hold values of unknown variables.
    pub(super) fn about(variable: &str, problem: String) -> Self {
        // A name may hold anything but `=`, line breaks included.
        Self { variable: variable.escape_debug().to_string(), value: None, problem }
    }

    /// The variable's full name.
    #[must_use]
    pub fn variable(&self) -> &str {
        &self.variable
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value:?}: {}", self.variable, self.problem),
            None => write!(f, "{}: {}", self.variable, self.problem),
        }
    }
}

impl Faults {
    pub(super) fn push(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.0.iter()
    }
}

impl fmt::Display for Faults {
    /// A line per fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}
