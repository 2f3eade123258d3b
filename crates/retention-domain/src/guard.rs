//! Conditions on columns beside the age, as values. Never a SQL string: the adapter renders them with quoted
//! identifiers and bound values, the in-memory store evaluates them.

use std::fmt;

/// One condition; a row must pass all of a policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The column looked at.
    pub column: String,
    /// What its value must satisfy.
    pub test: Test,
}

/// What a column's value must satisfy. NULL passes [`Test::IsNull`] alone: it is neither among any values nor known to
/// be none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal to one of these. Never empty.
    In(Vec<Value>),
    /// There, and equal to none of these. Never empty.
    NotIn(Vec<Value>),
    /// Not there.
    IsNull,
    /// There, whatever it is.
    IsNotNull,
}

/// A value to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Compared as text, so that `text`, `varchar` and enum columns behave alike.
    Text(String),
    /// A whole number, for columns of any integer or numeric type.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
}

impl Condition {
    /// The condition `column IN (values)`.
    #[must_use]
    pub fn is_in<T: Into<String>>(column: &str, values: impl IntoIterator<Item = T>) -> Self {
        let values = values.into_iter().map(|value| Value::Text(value.into())).collect();
        Self { column: column.to_owned(), test: Test::In(values) }
    }

    /// Whether a value of [`Self::column`], written as text, passes; `None` is NULL.
    #[must_use]
    pub fn passes(&self, value: Option<&str>) -> bool {
        let among = |values: &[Value], value: &str| values.iter().any(|one| one.to_string() == value);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| among(values, value)),
            Test::NotIn(values) => value.is_some_and(|value| !among(values, value)),
            Test::IsNull => value.is_none(),
            Test::IsNotNull => value.is_some(),
        }
    }
}

impl Test {
    /// The values it compares with.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        match self {
            Self::In(values) | Self::NotIn(values) => values,
            Self::IsNull | Self::IsNotNull => &[],
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(truth) => truth.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(test: Test) -> Vec<Option<&'static str>> {
        let condition = Condition { column: "kind".to_owned(), test };
        [None, Some(""), Some("a"), Some("b"), Some("7"), Some("true")]
            .into_iter()
            .filter(|value| condition.passes(*value))
            .collect()
    }

    #[test]
    fn null_passes_only_the_test_for_null() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(passing(Test::IsNull), [None]);
        assert_eq!(passing(Test::IsNotNull), [Some(""), Some("a"), Some("b"), Some("7"), Some("true")]);
        assert_eq!(passing(Test::In(vec![text("a"), text("c")])), [Some("a")]);
        assert_eq!(passing(Test::NotIn(vec![text("a"), text("")])), [Some("b"), Some("7"), Some("true")]);
        assert_eq!(passing(Test::In(vec![Value::Integer(7)])), [Some("7")]);
        assert_eq!(
            passing(Test::NotIn(vec![Value::Boolean(true)])),
            [Some(""), Some("a"), Some("b"), Some("7")]
        );
    }

    #[test]
    fn a_test_for_null_has_no_values_and_the_others_have_theirs() {
        let values = vec![Value::Integer(7), Value::Boolean(false)];
        assert_eq!(Test::In(values.clone()).values(), values);
        assert_eq!(Test::NotIn(values.clone()).values(), values);
        assert!(Test::IsNull.values().is_empty() && Test::IsNotNull.values().is_empty());
    }
}
