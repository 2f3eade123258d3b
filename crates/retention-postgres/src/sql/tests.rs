//! Snapshots of every generated statement: text and bound values apart. A reviewer reads these.

use std::fmt::Write as _;

use chrono::DateTime;
use retention_domain::plan::Target;
use retention_domain::{
    Cutoff, PolicyName, RetentionPeriod, RetentionPolicy, RowAddress, TableName, WindowMark,
};
use sea_orm::Statement;

use super::LeafRule;

fn days(days: u32) -> RetentionPeriod {
    RetentionPeriod::from_days(days).unwrap()
}

fn target(policy: RetentionPolicy) -> Target {
    let now = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
    Target { cutoff: Cutoff::before(now, policy.retention).unwrap(), policy }
}

fn sicr() -> Target {
    target(RetentionPolicy::sicr(days(30)))
}

fn refresh() -> Target {
    target(RetentionPolicy::refresh(days(90)))
}

/// Names that would break out of anything but a quoted identifier.
fn odd() -> Target {
    let mut policy = RetentionPolicy::refresh(days(90));
    policy.name = PolicyName::new("odd");
    policy.table = TableName::new("my \"schema", "Robert'); DROP TABLE x;--");
    policy.key_column = "the key".to_owned();
    policy.age_column = "AGE".to_owned();
    policy.parent_column = Some("\"parent\"".to_owned());
    policy.conditions[0].column = "sta tus".to_owned();
    target(policy)
}

fn rows() -> Vec<RowAddress> {
    vec![RowAddress(1), RowAddress(7 << 16 | 3)]
}

fn mark() -> WindowMark {
    WindowMark {
        age: DateTime::from_timestamp(1_700_000_000, 123_456_000).unwrap(),
        address: RowAddress(9 << 16 | 4),
    }
}

fn shown(statement: &Statement) -> String {
    let mut text = format!("{}\n", statement.sql);
    for (n, value) in statement.values.as_ref().map(|values| &values.0).into_iter().flatten().enumerate() {
        write!(text, "\n-- ${} = {value:?}", n + 1).unwrap();
    }
    text
}

macro_rules! snapshot {
    ($name:ident, $statement:expr) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), shown(&$statement));
        }
    };
}

snapshot!(sicr_window, super::window(&sicr(), None, 1_000_000));
snapshot!(sicr_window_continued, super::window(&sicr(), Some(mark()), 1_000_000));
snapshot!(sicr_delete_batch, super::delete_batch(&sicr(), &rows(), LeafRule::ForeignKey));
snapshot!(sicr_count_due, super::count_due(&sicr()));
snapshot!(sicr_backlog, super::backlog(&sicr()));
snapshot!(sicr_preview_extras, super::preview_extras(&sicr()));
snapshot!(refresh_window, super::window(&refresh(), None, 1_000_000));
snapshot!(refresh_window_continued, super::window(&refresh(), Some(mark()), 1_000_000));
snapshot!(refresh_delete_batch, super::delete_batch(&refresh(), &rows(), LeafRule::ForeignKey));
snapshot!(refresh_delete_batch_contended, super::delete_batch(&refresh(), &rows(), LeafRule::Lookup));
snapshot!(refresh_lock_kin, super::lock_kin(&refresh(), &rows()));
snapshot!(refresh_still_due, super::still_due(&refresh(), &rows(), false));
snapshot!(refresh_count_due, super::count_due(&refresh()));
snapshot!(refresh_backlog, super::backlog(&refresh()));
snapshot!(refresh_preview_extras, super::preview_extras(&refresh()));
snapshot!(refresh_columns, super::columns(&refresh().policy.table));
snapshot!(preflight_server, super::preflight_server());
snapshot!(sicr_preflight_table, super::preflight_table(&sicr().policy));
snapshot!(refresh_preflight_table, super::preflight_table(&refresh().policy));
snapshot!(refresh_preflight_foreign_keys, super::preflight_foreign_keys(&refresh().policy));
snapshot!(refresh_preflight_triggers, super::preflight_triggers(&refresh().policy));
snapshot!(refresh_preflight_age_index, super::preflight_age_index(&refresh()));
snapshot!(odd_names_preflight_age_index, super::preflight_age_index(&odd()));
snapshot!(refresh_climb, super::climb(&refresh(), &rows(), 100_000));
snapshot!(odd_names_window, super::window(&odd(), None, 10));
snapshot!(odd_names_delete_batch, super::delete_batch(&odd(), &rows(), LeafRule::ForeignKey));
snapshot!(odd_names_lock_kin, super::lock_kin(&odd(), &rows()));
snapshot!(odd_names_backlog, super::backlog(&odd()));

/// Every value of a policy is bound: the text holds none of them, whatever they are.
#[test]
fn no_value_reaches_the_text() {
    let mut target = refresh();
    target.policy.conditions[0] =
        retention_domain::guard::Condition::is_in("status", ["it's", "\"; DROP TABLE x; --", "$1"]);
    target.policy.known_values = vec!["Known'Value".to_owned()];
    for statement in [
        super::window(&target, Some(mark()), 10),
        super::delete_batch(&target, &rows(), LeafRule::ForeignKey),
        super::delete_batch(&target, &rows(), LeafRule::Lookup),
        super::lock_kin(&target, &rows()),
        super::still_due(&target, &rows(), true),
        super::climb(&target, &rows(), 10),
        super::count_due(&target),
        super::backlog(&target),
        super::preview_extras(&target),
        super::preflight_table(&target.policy),
        super::preflight_age_index(&target),
    ] {
        for value in ["it's", "DROP TABLE", "Known'Value", "2023-11-14", "(9,4)"] {
            assert!(!statement.sql.contains(value), "{value} in {}", statement.sql);
        }
    }
}
