//! TOML values to values of ours, one function per kind. An error is the reason alone; what is allowed is said by the
//! caller.

use std::time::Duration;

use retention_domain::RetentionPeriod;
use retention_domain::guard::Value;
use retention_domain::period::parse_duration;
use toml::de::DeValue;

/// The longest name that PostgreSQL does not cut off, in bytes.
const LONGEST_NAME: usize = 63;
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

pub(super) fn text<'a>(value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| format!("{}, not a text in quotes", kind(value)))
}

/// A column as the catalogue spells it.
pub(super) fn column(value: &DeValue<'_>) -> Result<String, String> {
    identifier(text(value)?).map(str::to_owned)
}

pub(super) fn identifier(name: &str) -> Result<&str, String> {
    if name.is_empty() {
        Err("empty".to_owned())
    } else if name.len() > LONGEST_NAME {
        Err(format!("longer than {LONGEST_NAME} bytes, which no name in PostgreSQL is"))
    } else if name.contains('"') || name.contains(char::is_control) {
        Err("names are written as the catalogue spells them, without quotes".to_owned())
    } else {
        Ok(name)
    }
}

pub(super) fn columns(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let DeValue::Array(array) = value else { return Err(format!("{}, not a list", kind(value))) };
    let mut names = Vec::new();
    for item in array {
        let name = column(item.get_ref())?;
        if names.contains(&name) {
            return Err(format!("{name:?} is in it twice"));
        }
        names.push(name);
    }
    if names.is_empty() { Err("empty".to_owned()) } else { Ok(names) }
}

pub(super) fn period(value: &DeValue<'_>) -> Result<RetentionPeriod, String> {
    RetentionPeriod::in_days_or_hours(text(value)?).map_err(|error| error.to_string())
}

pub(super) fn pause(value: &DeValue<'_>) -> Result<Duration, String> {
    let pause = parse_duration(text(value)?).map_err(|error| error.to_string())?;
    if pause > LONGEST_PAUSE { Err("out of range".to_owned()) } else { Ok(pause) }
}

pub(super) fn batch_size(value: &DeValue<'_>) -> Result<u32, String> {
    let number = whole(value)?;
    u32::try_from(number).ok().filter(|size| (1..=10_000).contains(size)).ok_or("out of range".to_owned())
}

fn whole(value: &DeValue<'_>) -> Result<i64, String> {
    let DeValue::Integer(number) = value else { return Err(format!("{}, not a whole number", kind(value))) };
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| "out of the range of bigint".to_owned())
}

/// A value to compare with.
pub(super) fn compared(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) if text.eq_ignore_ascii_case("null") => {
            Err("a text would be compared, and NULL equals nothing: use op = \"is_null\" or \"is_not_null\""
                .to_owned())
        }
        DeValue::String(text) if text.contains('\0') => {
            Err("PostgreSQL has no texts with NUL in them".to_owned())
        }
        DeValue::String(text) => Ok(Value::Text(text.as_ref().to_owned())),
        DeValue::Integer(_) => whole(value).map(Value::Integer),
        DeValue::Boolean(truth) => Ok(Value::Boolean(*truth)),
        other => Err(format!("{}, which nothing is compared with", kind(other))),
    }
}

/// Values to compare with, all of one type.
pub(super) fn compared_list(value: &DeValue<'_>) -> Result<Vec<Value>, String> {
    let DeValue::Array(array) = value else { return Err(format!("{}, not a list", kind(value))) };
    let values = array.iter().map(|item| compared(item.get_ref())).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = values.first() else {
        return Err("empty: no row would pass \"in\", and every row \"not_in\"".to_owned());
    };
    match values.iter().find(|value| std::mem::discriminant(*value) != std::mem::discriminant(first)) {
        Some(other) => Err(format!("mixed types: {} and {}", type_of(first), type_of(other))),
        None => Ok(values),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "a text",
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
    }
}

/// What the value is, for people.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
