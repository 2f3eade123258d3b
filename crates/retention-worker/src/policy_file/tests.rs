//! The file's grammar: what is read, and what is refused with which words at which line.

use std::time::Duration;

use retention_domain::guard::{Condition, Test, Value};
use retention_domain::policy::Disposition;
use retention_domain::{PolicyName, RetentionPolicy, TableName};
use rstest::rstest;

use super::*;

/// A policy that nothing is wrong with, seven lines long, with `more` from line 7 on.
fn file(more: &str) -> String {
    format!(
        "# comment\n\n[[policy]]\nname = \"outbox\"\ntable = \"review.outbox\"\nage_column = \"created_at\"\n{more}\nretention = \"7d\"\n"
    )
}

fn faults(text: &str) -> Vec<String> {
    parse("policies.toml", text).expect_err(text).to_string().lines().map(str::to_owned).collect()
}

fn only(text: &str) -> RetentionPolicy {
    let [declared] = &parse("policies.toml", text).unwrap()[..] else { panic!("{text}") };
    declared.policy.clone()
}

#[test]
fn every_key_reaches_its_own_field() {
    let text = "[[policy]]\nname = \"a-1\"\ntable = \"s.t\"\nkey = [\"id\"]\nage_column = \"at\"\nretention = \"7d\"\nminimum = \"72h\"\n\
        where = [{ column = \"b\", op = \"is_null\" }, { column = \"c\", op = \"ne\", value = 7 }]\nparent_column = \"up\"\n\
        archive_into = \"s.t_archive\"\naudit_table = \"r.l\"\nbatch_size = 1000\nbatch_pause = \"250ms\"\n";
    let [Declared { policy, minimum, origin }] = &parse("x", text).unwrap()[..] else { panic!() };
    let expected = RetentionPolicy {
        name: PolicyName::new("a-1"),
        table: TableName::new("s", "t"),
        key: vec!["id".to_owned()],
        age_column: "at".to_owned(),
        retention: RetentionPeriod::from_days(7).unwrap(),
        conditions: vec![
            Condition { column: "b".to_owned(), test: Test::IsNull },
            Condition { column: "c".to_owned(), test: Test::NotIn(vec![Value::Integer(7)]) },
        ],
        known_values: Vec::new(),
        parent_column: Some("up".to_owned()),
        disposition: Disposition::Archive(TableName::new("s", "t_archive")),
        audit_table: Some(TableName::new("r", "l")),
        batch_size: Some(1000),
        batch_pause: Some(Duration::from_millis(250)),
    };
    assert_eq!((policy, minimum), (&expected, &RetentionPeriod::from_days(3).unwrap()));
    let columns = [("id", 4), ("at", 5), ("b", 8), ("c", 8), ("up", 9)];
    let columns = columns.map(|(name, line)| (name.to_owned(), line)).into();
    assert_eq!(*origin, Origin { file: "x".to_owned(), table: 3, destination: 10, columns });
}

#[test]
fn the_minimum_is_the_retention_unless_said_otherwise() {
    let declared = parse("x", &file("")).unwrap();
    assert_eq!(declared[0].minimum, declared[0].policy.retention);
    assert_eq!(declared[0].policy.key, [""; 0]);
}

#[rstest]
#[case("")]
#[case("# nothing\n\n")]
#[case("policy = []")]
fn an_empty_file_has_no_policies(#[case] text: &str) {
    assert_eq!(parse("x", text), Ok(Vec::new()));
}

#[test]
fn policies_come_in_the_order_of_the_file() {
    let text = ["b", "a", "c"].map(|name| {
        format!("[[policy]]\nname = {name:?}\ntable = \"s.t\"\nage_column = \"at\"\nretention = \"1d\"\n")
    });
    let names: Vec<_> = parse("x", &text.concat())
        .unwrap()
        .into_iter()
        .map(|declared| declared.policy.name.to_string())
        .collect();
    assert_eq!(names, ["b", "a", "c"]);
}

#[rstest]
#[case("op = \"is_null\"", Test::IsNull)]
#[case("op = \"is_not_null\"", Test::IsNotNull)]
#[case("op = \"eq\", value = \"x\"", Test::In(vec![Value::Text("x".to_owned())]))]
#[case("op = \"ne\", value = true", Test::NotIn(vec![Value::Boolean(true)]))]
#[case("op = \"in\", values = [1, -2, 0x10]", Test::In([1, -2, 16].map(Value::Integer).to_vec()))]
#[case("op = \"not_in\", values = [\"\", \"b\"]", Test::NotIn(["", "b"].map(|text| Value::Text(text.to_owned())).to_vec()))]
fn operators_become_tests(#[case] entry: &str, #[case] test: Test) {
    let policy = only(&file(&format!("where = [{{ column = \"c\", {entry} }}]")));
    assert_eq!(policy.conditions, [Condition { column: "c".to_owned(), test }]);
}

/// What replaces or follows line 7, and how the one fault reads after `policies.toml:7: policy "outbox": `.
#[rstest]
#[case::unknown_key(
    "retension = \"9d\"",
    "unknown key \"retension\"; the nearest is \"retention\"; allowed is name, table,"
)]
#[case::foreign_key("colour = 1", "unknown key \"colour\"; allowed is name")]
#[case::minimum_zero(
    "minimum = \"0d\"",
    "minimum = \"0d\": a retention period must be between 1s and 36500d; allowed is whole days"
)]
#[case::minimum_minutes("minimum = \"60m\"", "minimum = \"60m\": not in days or hours")]
#[case::minimum_number("minimum = 3", "minimum = 3: a number, not a text in quotes; allowed is whole days")]
#[case::key_text("key = \"id\"", "key = \"id\": a text, not a list")]
#[case::key_empty("key = []", "key = []: empty; allowed is a list of columns")]
#[case::key_twice("key = [\"a\", \"a\"]", "key = [\"a\", \"a\"]: \"a\" is in it twice")]
#[case::parent_alone("parent_column = \"p\"", "parent_column needs to know what it refers to: add key")]
#[case::archive_unqualified(
    "archive_into = \"outbox_archive\"",
    "archive_into = \"outbox_archive\": without a schema"
)]
#[case::archive_itself("archive_into = \"review.outbox\"", "archive_into: the table itself")]
#[case::archive_built_in(
    "archive_into = \"identity.refresh_sessions\"",
    "archive_into: identity.refresh_sessions belongs to the built-in policy refresh"
)]
#[case::audit_dots(
    "audit_table = \"a.b.c\"",
    "audit_table = \"a.b.c\": more than one dot; allowed is SCHEMA.TABLE"
)]
#[case::audit_quoted(
    "audit_table = 'a.\"b\"'",
    "audit_table = 'a.\"b\"': names are written as the catalogue spells them"
)]
#[case::batch_none("batch_size = 0", "batch_size = 0: out of range; allowed is a whole number, 1 to 10000")]
#[case::batch_large("batch_size = 10001", "batch_size = 10001: out of range")]
#[case::batch_negative("batch_size = -1", "batch_size = -1: out of range")]
#[case::batch_text("batch_size = \"5\"", "batch_size = \"5\": a text, not a whole number")]
#[case::pause_long(
    "batch_pause = \"61m\"",
    "batch_pause = \"61m\": out of range; allowed is a duration, 0s to 1h"
)]
#[case::pause_number(
    "batch_pause = 0.1",
    "batch_pause = 0.1: a number with a fraction, not a text in quotes"
)]
#[case::sql("where = \"status = 'x'\"", "where: a text, not a list; allowed is a list of { column")]
#[case::sql_entry(
    "where = [\"a IS NULL\"]",
    "condition 1: a text; allowed is { column = \"…\", op = \"…\" }, never SQL"
)]
#[case::no_column("where = [{ op = \"is_null\" }]", "condition 1: no column; required is")]
#[case::no_operator(
    "where = [{ column = \"c\" }]",
    "condition 1: no op; required is is_null, is_not_null, eq, ne, in, not_in"
)]
#[case::operator(
    "where = [{ column = \"c\", op = \"isnull\" }]",
    "condition 1: op = \"isnull\": unknown operator; the nearest is \"is_null\""
)]
#[case::operator_sql(
    "where = [{ column = \"c\", op = \"=\" }]",
    "condition 1: op = \"=\": unknown operator; allowed is is_null"
)]
#[case::empty_in(
    "where = [{ column = \"c\", op = \"in\", values = [] }]",
    "condition 1: values = []: empty: no row would pass"
)]
#[case::no_values("where = [{ column = \"c\", op = \"in\" }]", "condition 1: no values; required is a list")]
#[case::value_null(
    "where = [{ column = \"c\", op = \"eq\", value = \"NULL\" }]",
    "condition 1: value = \"NULL\": a text would be compared, and NULL equals nothing"
)]
#[case::value_date(
    "where = [{ column = \"c\", op = \"eq\", value = 2026-01-01 }]",
    "condition 1: value = 2026-01-01: a date, which nothing is compared with"
)]
#[case::value_nan(
    "where = [{ column = \"c\", op = \"eq\", value = nan }]",
    "condition 1: value = nan: a number with a fraction"
)]
#[case::value_huge(
    "where = [{ column = \"c\", op = \"eq\", value = 9223372036854775808 }]",
    "condition 1: value = 9223372036854775808: out of the range"
)]
#[case::mixed(
    "where = [{ column = \"c\", op = \"in\", values = [1, \"1\"] }]",
    "condition 1: values = [1, \"1\"]: mixed types: a whole number and a text"
)]
#[case::value_of_null(
    "where = [{ column = \"c\", op = \"is_null\", value = 1 }]",
    "condition 1: is_null compares with nothing"
)]
#[case::typo_in_condition(
    "where = [{ colum = \"c\", column = \"c\", op = \"is_null\" }]",
    "condition 1: unknown key \"colum\"; the nearest is \"column\""
)]
fn a_fault_has_its_line_what_is_allowed_and_a_hint(#[case] line: &str, #[case] reads: &str) {
    let found = faults(&file(line));
    let [fault] = &found[..] else { panic!("{found:?}") };
    let rest =
        fault.strip_prefix("policies.toml:7: policy \"outbox\": ").unwrap_or_else(|| panic!("{fault}"));
    assert!(rest.starts_with(reads), "{rest}");
}

#[rstest]
#[case::name(
    "outbox",
    "Outbox",
    "policies.toml:4: policy \"Outbox\": name = \"Outbox\": a name of other characters"
)]
#[case::empty_name("outbox\"\ntable", "\"\ntable", "policies.toml:4: policy \"\": name = \"\": empty")]
#[case::sicr(
    "outbox\"\ntable",
    "sicr\"\ntable",
    "policies.toml:4: policy \"sicr\": name = \"sicr\": the name of a built-in policy"
)]
#[case::refresh(
    "outbox\"\ntable",
    "refresh\"\ntable",
    "policies.toml:4: policy \"refresh\": name = \"refresh\": the name of a built-in"
)]
#[case::run(
    "outbox\"\ntable",
    "run\"\ntable",
    "policies.toml:4: policy \"run\": name = \"run\": the name that logs"
)]
#[case::unqualified(
    "review.outbox",
    "outbox",
    "policies.toml:5: policy \"outbox\": table = \"outbox\": without a schema"
)]
#[case::built_in(
    "review.outbox",
    "identity.refresh_sessions",
    "policies.toml:5: policy \"outbox\": table: identity.refresh_sessions belongs"
)]
#[case::minutes("7d", "90m", "policies.toml:8: policy \"outbox\": retention = \"90m\": not in days or hours")]
#[case::month("7d", "P1M", "policies.toml:8: policy \"outbox\": retention = \"P1M\": not in days or hours")]
#[case::zero(
    "7d",
    "0h",
    "policies.toml:8: policy \"outbox\": retention = \"0h\": a retention period must be"
)]
#[case::missing(
    "retention = \"7d\"",
    "",
    "policies.toml:3: policy \"outbox\": no retention; required is whole days or hours"
)]
#[case::no_list("[[policy]]", "[policy]", "policies.toml:3: policy = [policy]: not a list of tables")]
#[case::other_table(
    "[[policy]]",
    "[[polices]]",
    "policies.toml:3: unknown key \"polices\"; the nearest is \"policy\""
)]
fn whatever_replaces_a_part_is_refused(#[case] part: &str, #[case] by: &str, #[case] reads: &str) {
    let found = faults(&file("").replacen(part, by, 1));
    assert!(found[0].starts_with(reads), "{found:?}");
}

#[test]
fn a_retention_below_the_minimum_is_refused_where_it_stands() {
    let found = faults(&file("minimum = \"8d\""));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("policies.toml:8: policy \"outbox\": retention: 7d is below"), "{found:?}");
}

#[test]
fn a_parent_column_needs_exactly_one_key_column() {
    for (key, refused) in [("[\"id\"]", false), ("[\"a\", \"b\"]", true), ("[\"p\"]", true)] {
        let text = file(&format!("key = {key}\nparent_column = \"p\""));
        assert_eq!(parse("x", &text).is_err(), refused, "{text}");
    }
}

fn archiving(pairs: &[(&str, &str)]) -> String {
    let one = |(index, (table, archive)): (usize, &(&str, &str))| {
        format!(
            "[[policy]]\nname = \"p{index}\"\ntable = \"s.{table}\"\nage_column = \"at\"\nretention = \"1d\"\narchive_into = \"s.{archive}\"\n"
        )
    };
    pairs.iter().enumerate().map(one).collect()
}

#[test]
fn archives_in_a_circle_are_refused_at_each_end() {
    let found = faults(&archiving(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]));
    let lines: Vec<_> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(lines, ["policies.toml:6", "policies.toml:12", "policies.toml:18"], "{found:?}");
    assert!(parse("x", &archiving(&[("a", "b"), ("b", "c"), ("d", "c")])).is_ok());
}

#[test]
fn two_policies_of_one_name_are_refused_at_the_second() {
    let found = faults(&archiving(&[("a", "b"), ("b", "c")]).replace("p1", "p0"));
    assert_eq!(
        found,
        ["policies.toml:8: policy \"p0\": another policy has this name; allowed is each name once"]
    );
}

#[test]
fn all_faults_are_reported_together_in_the_order_of_the_file() {
    let text = file("where = [{ column = \"c\", op = \"in\", values = [] }, { column = \"d\", op = \"like\" }]\nbatch_size = 0")
        .replace("\"outbox\"", "\"Out box\"")
        + "[[policy]]\nname = \"b\"\nage = \"x\"\n";
    let found = faults(&text);
    let lines: Vec<_> = found.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    let expected = [4, 7, 7, 8, 10, 10, 10, 12].map(|line| format!("policies.toml:{line}"));
    assert_eq!(lines, expected, "{found:#?}");
}

#[test]
fn files_of_other_systems_are_read_and_lines_counted_alike() {
    let text = file("batch_size = 0");
    let other = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    assert_eq!(faults(&other), faults(&text));
    assert!(parse("x", &format!("\u{feff}{}", file("").replace('\n', "\r\n"))).is_ok());
}

#[test]
fn what_is_not_toml_says_where() {
    let found = faults("[[policy]]\nname = outbox\n\n[[policy]\nname = \"b\"\n");
    assert!(found.len() >= 2, "{found:?}");
    assert!(
        found[0].starts_with("policies.toml:2: not TOML: ") && found[1].starts_with("policies.toml:4: "),
        "{found:?}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.toml");
    let text = load(&missing).unwrap_err().to_string();
    assert!(text.starts_with(&format!("{}: the policy file cannot be read: ", missing.display())), "{text}");
    assert!(load(folder.path()).is_err());
    let binary = folder.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe]).unwrap();
    assert!(load(&binary).unwrap_err().to_string().ends_with("it is not UTF-8 text"));
}
