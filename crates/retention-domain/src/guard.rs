//! Conditions on columns beside the age, as values. Never a SQL string: the adapter renders them with quoted
//! identifiers and bound values, the in-memory store evaluates them.

/// One condition; a row must pass all of a policy's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The column looked at.
    pub column: String,
    /// What its value must satisfy.
    pub test: Test,
}

/// What a column's value must satisfy. Values are compared as text, so `text`, `varchar` and enum columns
/// behave alike. NULL passes none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// Equal to one of these. Never empty.
    In(Vec<String>),
}

impl Condition {
    /// The condition `column IN (values)`.
    #[must_use]
    pub fn is_in<T: Into<String>>(column: &str, values: impl IntoIterator<Item = T>) -> Self {
        Self { column: column.to_owned(), test: Test::In(values.into_iter().map(Into::into).collect()) }
    }

    /// Whether a value of [`Self::column`] passes; `None` is NULL.
    #[must_use]
    pub fn passes(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.iter().any(|v| v == value)),
        }
    }
}
