//! Names of policies and tables: spelling alone.

use retention_domain::{PolicyName, TableName};

use super::value::identifier;
use crate::observe::metric_table::RUN_PHASE;

/// A schema-qualified table, as the catalogue spells it.
///
/// # Errors
/// Why it is none.
pub fn table_name(text: &str) -> Result<TableName, String> {
    let mut parts = text.split('.');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(schema), Some(name), None) => Ok(TableName::new(identifier(schema)?, identifier(name)?)),
        (Some(_), None, _) => Err("without a schema, which table is meant depends on the session".to_owned()),
        _ => Err("more than one dot".to_owned()),
    }
}

/// The name of a declared policy.
pub(super) fn policy_name(text: &str) -> Result<PolicyName, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() {
        Err("empty".to_owned())
    } else if !text.bytes().all(fits) {
        Err("a name of other characters".to_owned())
    } else if [PolicyName::SICR, PolicyName::REFRESH].contains(&text) {
        Err("the name of a built-in policy".to_owned())
    } else if text == RUN_PHASE {
        // Logs and metrics call the run itself so.
        Err("the name that logs and metrics have for the run as a whole".to_owned())
    } else {
        Ok(PolicyName::new(text))
    }
}
