//! Rules about what deletes leave behind: dead rows, which autovacuum takes away, and whether it is set for a table whose
//! rows come and go. Advice alone: the worker runs no VACUUM and changes no setting.
//!
//! A table is told of when its churn is high (since the statistics begin at least 100,000 rows were deleted or superseded,
//! and at least as many as it has now) or its share of dead rows is (at least 10,000, and a tenth of all). Then the
//! handbook's settings are recommended unless they hold already; if they do, a VACUUM, as long as the share is high.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{Examined, Finding};

const AUTOVACUUM: &str = "autovacuum";

/// Fewer removed rows than this are no churn, however small the table.
const LEAST_REMOVED: i64 = 100_000;
/// Fewer dead rows than this cost nobody anything.
const LEAST_DEAD: i64 = 10_000;
/// One dead row among so many is a high share. Autovacuum's default begins at twice that.
const DEAD_ONE_IN: i64 = 10;
/// The handbook's settings for tables with a high churn.
const SCALE_FACTOR: f64 = 0.05;
const COST_LIMIT: i32 = 2000;

/// The columns of `sql::preflight_churn`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Churn {
    pub(super) name: String,
    pub(super) live: i64,
    pub(super) dead: i64,
    pub(super) removed: i64,
    pub(super) vacuumed: bool,
    pub(super) scale_factor: f64,
    pub(super) cost_limit: i32,
}

impl Churn {
    pub(super) fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            live: row.try_get("live")?,
            dead: row.try_get("dead")?,
            removed: row.try_get("removed")?,
            vacuumed: row.try_get("vacuumed")?,
            scale_factor: row.try_get("scale_factor")?,
            cost_limit: row.try_get("cost_limit")?,
        })
    }

    fn many_dead(&self) -> bool {
        self.dead >= LEAST_DEAD && self.dead * DEAD_ONE_IN >= self.live + self.dead
    }

    fn high_churn(&self) -> bool {
        self.removed >= LEAST_REMOVED && self.removed >= self.live
    }

    fn as_recommended(&self) -> bool {
        self.vacuumed && self.scale_factor <= SCALE_FACTOR && self.cost_limit >= COST_LIMIT
    }

    /// The statements that help, none where nothing needs to be done.
    fn statements(&self) -> Vec<String> {
        let Self { name, vacuumed, .. } = self;
        let mut statements = Vec::new();
        if (self.many_dead() || self.high_churn()) && !self.as_recommended() {
            let on = if *vacuumed { "" } else { "autovacuum_enabled = on, " };
            statements.push(format!(
                "ALTER TABLE {name} SET ({on}autovacuum_vacuum_scale_factor = {SCALE_FACTOR}, \
                 autovacuum_vacuum_cost_limit = {COST_LIMIT});"
            ));
        }
        if self.many_dead() {
            statements.push(format!("VACUUM (ANALYZE) {name};"));
        }
        statements
    }
}

/// One finding for the table or all of its partitions; nothing where nothing needs to be done.
pub(super) fn autovacuum(examined: &Examined<'_>) -> Option<Finding> {
    let (message, advice) = judge(&examined.churn)?;
    Some(examined.warning(AUTOVACUUM, message, advice))
}

fn judge(tables: &[Churn]) -> Option<(String, String)> {
    let told: Vec<_> = tables.iter().filter(|table| !table.statements().is_empty()).collect();
    let Churn { name, live, dead, removed, vacuumed, .. } = told.first()?;
    let others = match told.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more are like it"),
    };
    let off = if *vacuumed { "" } else { ", and autovacuum is off" };
    let message = format!(
        "{name} has about {dead} dead rows beside {live} living ones, and {removed} were deleted or superseded since the \
         statistics begin{off}{others}: until they are vacuumed, every search passes over them"
    );
    let statements: Vec<_> = told.iter().flat_map(|table| table.statements()).collect();
    Some((message, statements.join(" ")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DEFAULTS: (bool, f64, i32) = (true, 0.2, 200);
    const RECOMMENDED: (bool, f64, i32) = (true, 0.05, 2000);
    const ALTER: &str =
        "ALTER TABLE s.t SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_limit = 2000);";

    fn churn(
        [live, dead, removed]: [i64; 3],
        (vacuumed, scale_factor, cost_limit): (bool, f64, i32),
    ) -> Churn {
        Churn { name: "s.t".to_owned(), live, dead, removed, vacuumed, scale_factor, cost_limit }
    }

    #[rstest]
    #[case::empty([0, 0, 0], DEFAULTS, "")]
    #[case::small_and_all_dead([0, 9_999, 9_999], DEFAULTS, "")]
    #[case::under_a_tenth([90_001, 10_000, 0], DEFAULTS, "")]
    #[case::a_tenth([90_000, 10_000, 0], DEFAULTS, "ALTER VACUUM")]
    #[case::vacuumed_but_churning([100_000, 0, 100_000], DEFAULTS, "ALTER")]
    #[case::large_and_little_churn([100_001, 0, 100_000], DEFAULTS, "")]
    #[case::small_and_churning([10, 0, 99_999], DEFAULTS, "")]
    #[case::set_and_churning([0, 0, 1_000_000], RECOMMENDED, "")]
    #[case::set_and_still_dead([0, 50_000, 1_000_000], RECOMMENDED, "VACUUM")]
    #[case::only_the_factor([0, 0, 1_000_000], (true, 0.05, 200), "ALTER")]
    #[case::only_the_limit([0, 0, 1_000_000], (true, 0.2, 2000), "ALTER")]
    #[case::off_and_quiet([1_000_000, 0, 0], (false, 0.2, 200), "")]
    fn a_table_is_told_of_by_rule(
        #[case] counts: [i64; 3],
        #[case] set: (bool, f64, i32),
        #[case] advice: &str,
    ) {
        let expected = advice.replace("ALTER", ALTER).replace("VACUUM", "VACUUM (ANALYZE) s.t;");
        let found = judge(&[churn(counts, set)]).map(|(_, advice)| advice).unwrap_or_default();
        assert_eq!(found, expected);
    }

    #[test]
    fn autovacuum_that_is_off_is_switched_on_and_partitions_are_told_together() {
        let off = churn([0, 20_000, 0], (false, 0.05, 2000));
        let (message, advice) = judge(&[churn([0, 0, 0], DEFAULTS), off.clone(), off]).unwrap();
        assert!(message.contains("autovacuum is off, and 1 more are like it"), "{message}");
        assert_eq!(advice.matches("SET (autovacuum_enabled = on, ").count(), 2);
    }
}
