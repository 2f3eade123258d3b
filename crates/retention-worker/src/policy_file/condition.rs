//! One entry of `where`: a column, an operator, and the values it takes.

use std::collections::BTreeMap;

use retention_domain::guard::{Condition, Test};
use toml::Spanned;
use toml::de::DeValue;

use super::fault::Sink;
use super::keys::{Keys, hint};
use super::value;

const KEYS: [&str; 4] = ["column", "op", "value", "values"];
const OPERATORS: [&str; 6] = ["is_null", "is_not_null", "eq", "ne", "in", "not_in"];

const ONE: &str = "a text, a whole number, true or false";
const SEVERAL: &str = "a list of texts, of whole numbers or of true and false, with at least one of them";

/// The conditions of a policy; faulty ones leave their faults and are left out. Adds to `lines` where columns stand.
pub(super) fn conditions(
    value: &Spanned<DeValue<'_>>,
    subject: &str,
    faults: &mut Sink<'_>,
    lines: &mut BTreeMap<String, usize>,
) -> Vec<Condition> {
    let DeValue::Array(array) = value.get_ref() else {
        let kind = value::kind(value.get_ref());
        let allowed =
            "a list of { column = \"…\", op = \"…\" }, with value or values where the operator takes them";
        faults.push(value.span().start, format!("{subject}where: {kind}, not a list; allowed is {allowed}"));
        return Vec::new();
    };
    let one = |(index, item): (usize, &Spanned<DeValue<'_>>)| {
        let condition = condition(item, format!("{subject}condition {}: ", index + 1), faults)?;
        lines.insert(condition.column.clone(), faults.line(item.span().start));
        Some(condition)
    };
    array.iter().enumerate().filter_map(one).collect()
}

fn condition(item: &Spanned<DeValue<'_>>, subject: String, faults: &mut Sink<'_>) -> Option<Condition> {
    let at = item.span().start;
    let DeValue::Table(table) = item.get_ref() else {
        let kind = value::kind(item.get_ref());
        faults.push(at, format!("{subject}{kind}; allowed is {{ column = \"…\", op = \"…\" }}, never SQL"));
        return None;
    };
    let mut keys = Keys::new(table, at, subject, &KEYS, faults);
    let column = keys.required("column", "the name of a column of the table", value::column);
    let operator = keys.required("op", &OPERATORS.join(", "), |value| {
        let name = value::text(value)?;
        OPERATORS
            .into_iter()
            .find(|operator| *operator == name)
            .ok_or_else(|| format!("unknown operator{}", hint(name, &OPERATORS)))
    });
    let test = test(&mut keys, operator?);
    Some(Condition { column: column?, test: test? })
}

fn test(keys: &mut Keys<'_, '_, '_>, operator: &str) -> Option<Test> {
    match operator {
        "is_null" => none(keys, operator, Test::IsNull),
        "is_not_null" => none(keys, operator, Test::IsNotNull),
        "in" | "not_in" => {
            let values = several(keys, operator);
            let test = if operator == "in" { Test::In } else { Test::NotIn };
            values.map(test)
        }
        _ => {
            unexpected(keys, operator, "values", "value");
            let test = if operator == "eq" { Test::In } else { Test::NotIn };
            keys.required("value", ONE, value::compared).map(|value| test(vec![value]))
        }
    }
}

fn none(keys: &mut Keys<'_, '_, '_>, operator: &str, test: Test) -> Option<Test> {
    for key in ["value", "values"] {
        if keys.has(key) {
            keys.refuse(key, &format!("{operator} compares with nothing; allowed is no {key}"));
            return None;
        }
    }
    Some(test)
}

fn several(keys: &mut Keys<'_, '_, '_>, operator: &str) -> Option<Vec<retention_domain::guard::Value>> {
    unexpected(keys, operator, "value", "values");
    keys.required("values", SEVERAL, value::compared_list)
}

fn unexpected(keys: &mut Keys<'_, '_, '_>, operator: &str, key: &str, instead: &str) {
    if keys.has(key) {
        keys.refuse(key, &format!("{operator} takes {instead:?}, not {key:?}"));
    }
}
