//! Rules about the indexes a run lives on.

use retention_domain::guard::{Condition, Test, Value};
use retention_domain::{PolicyName, RetentionPolicy};

use super::{Examined, Finding};
use crate::sql::ident;

const PARENT: &str = "parent-index";
const AGE: &str = "age-index";

/// The indexes in whose order this plan reads, none if it sorts: see `sql::preflight_age_index`. `None` where it reads
/// nothing, because row security leaves no row to read.
pub(super) fn serving(plan: &[&str]) -> Option<Vec<String>> {
    let nodes = || plan.iter().map(|line| line.trim_start_matches([' ', '-', '>']));
    let sorts = nodes().any(|node| node == "Sort" || node == "Incremental Sort");
    let reads = nodes().any(|node| node.contains(" Scan "));
    reads.then(|| if sorts { Vec::new() } else { nodes().filter_map(index).collect() })
}

/// The name in `Index Scan using name on …`, as the server quotes it.
fn index(node: &str) -> Option<String> {
    let (scan, rest) = node.split_once(" using ")?;
    if !scan.starts_with("Index ") {
        return None;
    }
    let mut quoted = false;
    let end = rest.find(|c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    });
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

/// The index by which the children of a row are found: by the leaf rule, and by the foreign key's own check.
pub(super) fn parent(examined: &Examined<'_>) -> Option<Finding> {
    let column = examined.policy.parent_column.as_deref()?;
    let facts = &examined.table;
    if facts.parent_indexed {
        return Some(examined.ok(PARENT, format!("an index finds rows by {column}")));
    }
    let create = format!("CREATE INDEX CONCURRENTLY ON {} ({});", examined.relation(), ident(column));
    let invalid = facts.invalid_parent_indexes.as_deref();
    Some(examined.warning(
        PARENT,
        format!(
            "no {}index finds rows by {column}: every deleted row costs a scan of the table, 1 to 10 ms for each \
             100,000 rows in it",
            if invalid.is_some() { "valid " } else { "" },
        ),
        instead_of(invalid, &create),
    ))
}

/// The index by which due rows are found.
pub(super) fn age(examined: &Examined<'_>) -> Option<Finding> {
    let (policy, facts) = (examined.policy, &examined.table);
    let column = &policy.age_column;
    match &examined.age_indexes.as_ref()?[..] {
        [] => {}
        [index] => return Some(examined.ok(AGE, format!("index {index} finds due rows by {column}"))),
        [index, others @ ..] => {
            let others = others.len();
            return Some(
                examined.ok(AGE, format!("index {index} and {others} more find due rows by {column}")),
            );
        }
    }
    let create = create_age_index(policy, &examined.relation(), facts.conditions_are_text);
    let invalid = facts.invalid_age_indexes.as_deref();
    Some(examined.warning(
        AGE,
        format!(
            "no {}index finds due rows by {column}: every search for them reads the whole table",
            if invalid.is_some() { "valid " } else { "" },
        ),
        instead_of(invalid, &create),
    ))
}

/// An interrupted build leaves an index that costs every write and serves no query.
fn instead_of(invalid: Option<&str>, create: &str) -> String {
    match invalid {
        None => create.to_owned(),
        Some(invalid) => format!(
            "{invalid} is INVALID: a build was interrupted, or is under way (pg_stat_progress_create_index). If it was \
             interrupted: DROP INDEX CONCURRENTLY {invalid}; {create}"
        ),
    }
}

/// An index that serves the policy: partial where the planner can prove that it does. That is so for text, and where
/// nothing is compared: an enum is compared as text, which an index on the enum says nothing about, and a number as a bigint.
fn create_age_index(policy: &RetentionPolicy, relation: &str, conditions_are_text: bool) -> String {
    let columns: Vec<_> =
        [&policy.age_column].into_iter().chain(&policy.key).map(|column| ident(column)).collect();
    let columns = format!("({})", columns.join(", "));
    let mut values = policy.conditions.iter().flat_map(|condition| condition.test.values());
    let provable = conditions_are_text && values.all(|value| matches!(value, Value::Text(_)));
    if policy.conditions.is_empty() || !provable {
        return format!("CREATE INDEX CONCURRENTLY ON {relation} {columns};");
    }
    let conditions: Vec<_> = policy.conditions.iter().map(literally).collect();
    let partial = format!("ON {relation} {columns} WHERE {};", conditions.join(" AND "));
    if policy.name.as_str() == PolicyName::REFRESH {
        let name = "ix_refresh_sessions_terminal_updated_at";
        return format!(
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {partial} deploy/postgres/retention-index.sql holds it"
        );
    }
    format!("CREATE INDEX CONCURRENTLY {partial}")
}

/// The condition with its values as literals: to be read, and perhaps executed, by a person.
fn literally(condition: &Condition) -> String {
    let column = ident(&condition.column);
    let list = |values: &[Value]| {
        let literal = |value: &Value| match value {
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Integer(_) | Value::Boolean(_) => value.to_string(),
        };
        values.iter().map(literal).collect::<Vec<_>>().join(", ")
    };
    match &condition.test {
        Test::In(values) => format!("{column} IN ({})", list(values)),
        Test::NotIn(values) => format!("{column} NOT IN ({})", list(values)),
        Test::IsNull => format!("{column} IS NULL"),
        Test::IsNotNull => format!("{column} IS NOT NULL"),
    }
}

#[cfg(test)]
mod tests {
    use retention_domain::RetentionPeriod;

    use super::*;

    #[test]
    fn a_plan_serves_if_it_has_an_index_and_no_sort() {
        let serving = |plan: &[&str]| serving(plan).map(|names| names.join(" "));
        let names = |names: &str| Some(names.to_owned());
        assert_eq!(serving(&["Index Scan using by_age on t due", "  Index Cond: (…)"]), names("by_age"));
        assert_eq!(
            serving(&[
                "Append",
                "  ->  Index Only Scan using \"Sort on \"\" it\" on t due",
                "  ->  Index Scan Backward using b on u"
            ]),
            names("\"Sort on \"\" it\" b")
        );
        assert_eq!(
            serving(&["Sort", "  Sort Key: age", "  ->  Index Scan using by_status on t due"]),
            names("")
        );
        assert_eq!(serving(&["Seq Scan on t due"]), names(""));
        assert_eq!(serving(&["Sort", "  ->  Result", "        One-Time Filter: false"]), None);
    }

    #[test]
    fn the_recommended_index_is_the_one_of_the_deployment() {
        let policy = RetentionPolicy::refresh(RetentionPeriod::from_days(90).unwrap());
        let advice = create_age_index(&policy, "\"identity\".\"refresh_sessions\"", true);
        let (statement, _) = advice.split_once(';').unwrap();
        let file = include_str!("../../../../deploy/postgres/retention-index.sql");
        let (_, recommended) = file.trim_end().trim_end_matches(';').rsplit_once("\n\n").unwrap();
        let words = |text: &str| text.replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(statement), words(recommended));
    }
}
