//! `cargo xtask demo --handbook`: the delivered handbook policies on the tables of the example service. What is expected is
//! worked out in `handbook_reference.sql` from the handbook's words alone.

use std::fmt;

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, PgConnection, raw_sql};

use super::reference::{self, Comparison};
use super::report::{Plan, Report};
use super::table::numbers;

/// Where the policies are, from the workspace's root.
pub const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/policies/handbook.toml");

/// Tables of the service, and its archive once more together with the table it belongs to.
const TABLES: usize = 11;

/// Makes the example service, fills each of its tables with `rows` rows, and puts on record what must become of them.
pub async fn set_the_scene(conn: &mut PgConnection, rows: u32, seed: u64) -> Result<()> {
    let schema = include_str!("../../../deploy/policies/example-schema.sql");
    raw_sql(schema).execute(&mut *conn).await.context("making the example service")?;
    // What setseed takes lies between -1 and 1.
    let seed = format!("0.{}", seed % 1_000_000_007);
    let fill = include_str!("handbook_rows.sql").replace("$ROWS", &rows.to_string()).replace("$SEED", &seed);
    raw_sql(AssertSqlSafe(fill)).execute(&mut *conn).await.context("filling the example service")?;
    let expected = include_str!("handbook_reference.sql");
    raw_sql(expected).execute(conn).await.context("working out what must go")?;
    Ok(())
}

/// What has become of the rows, one entry a table.
pub async fn compare(conn: &mut PgConnection) -> Result<Vec<Comparison>> {
    reference::compare(conn).await
}

/// Whether everything is as it should be, check by check.
pub struct Verdict {
    tables: Vec<Comparison>,
    checks: Vec<(bool, String)>,
}

/// Compares what the plan announced and the runs reported with what the reference found after each run.
pub fn judge(plan: &Plan, runs: [&Report; 2], found: [&[Comparison]; 2]) -> Verdict {
    let [first, second] = runs;
    let [after_first, after_second] = found;
    let sum = |count: fn(&Comparison) -> i64| after_first.iter().map(count).sum::<i64>();
    let mut checks = vec![
        (after_first.len() == TABLES, format!("{} tables were compared row by row", after_first.len())),
        (
            after_first.iter().all(|table| table.gone == table.goes)
                && sum(|table| table.wrongly_gone + table.left_over) == 0,
            format!("{} rows had to go, and exactly these went", sum(|table| table.goes)),
        ),
        (
            sum(|table| table.altered) == 0,
            "every other row is as it was in every column, and each that moved is in the archive alone"
                .to_owned(),
        ),
    ];
    for Comparison { table: name, goes, gone, .. } in after_first.iter().filter(|table| table.goes > 0) {
        let planned: i64 = plan.policies.iter().filter(|of| of.table == *name).map(|of| of.deletable).sum();
        let reported: i64 = first.policies.iter().filter(|of| of.table == *name).map(|of| of.deleted).sum();
        checks.push((
            (planned, reported) == (*goes, *gone),
            format!("{name}: the plan said {planned}, the report {reported}"),
        ));
    }
    checks.push((
        checks.len() == 3 + TABLES - 1,
        "there were rows to go in every table of the handbook".to_owned(),
    ));
    checks.push((
        first.outcome == "completed" && second.outcome == "completed",
        format!("the two runs ended as {} and {}", first.outcome, second.outcome),
    ));
    let again: i64 = second.policies.iter().map(|policy| policy.deleted).sum();
    checks.push((again == 0 && after_second == after_first, format!("the second run deleted {again} rows")));
    Verdict { tables: after_first.to_vec(), checks }
}

impl Verdict {
    /// How many checks there were.
    pub fn checks(&self) -> usize {
        self.checks.len()
    }

    /// How many did not hold.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|(holds, _)| !holds).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.tables.iter().map(|of| {
            let verdict = of.gone == of.goes && of.wrongly_gone + of.left_over + of.altered == 0;
            [
                of.table.clone(),
                of.before.to_string(),
                of.goes.to_string(),
                of.gone.to_string(),
                of.wrongly_gone.to_string(),
                of.left_over.to_string(),
                of.altered.to_string(),
                if verdict { "right" } else { "WRONG" }.to_owned(),
            ]
        });
        let header =
            ["table", "before", "had to go", "went", "went wrongly", "stayed wrongly", "altered", "verdict"];
        writeln!(f, "{}\n", numbers(header, rows))?;
        for (holds, what) in &self.checks {
            writeln!(f, "  {} {what}", if *holds { "ok   " } else { "WRONG" })?;
        }
        match self.failed() {
            0 => write!(f, "\nPASSED: of every table exactly what the handbook says is gone"),
            failed => write!(f, "\nFAILED: {failed} of {} checks", self.checks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use harness::TestDatabase;
    use sqlx::Connection;

    use super::*;

    /// The reference sees a wrong row of each kind, in each table.
    #[tokio::test]
    async fn what_went_wrong_is_seen_in_the_table_where_it_did() -> Result<()> {
        let database = TestDatabase::empty().await?;
        let mut conn = PgConnection::connect(database.url()).await?;
        set_the_scene(&mut conn, 100, 7).await?;
        let untouched = compare(&mut conn).await?;
        assert_eq!(untouched.len(), TABLES);
        for table in &untouched {
            assert_eq!((table.gone, table.altered, table.left_over), (0, 0, table.goes), "{table:?}");
            assert_eq!(table.goes > 0, !table.table.ends_with("archive"), "{table:?}");
        }
        raw_sql(
            "DELETE FROM review.outbox WHERE offset_acked IS NULL;
             DELETE FROM review.audit_log WHERE action = 'delete_requested';
             UPDATE review.sessions SET device = 'another';
             INSERT INTO review.moderation_decisions_archive SELECT * FROM review.moderation_decisions WHERE id <= 5;
             DELETE FROM review.moderation_decisions WHERE id = 6",
        )
        .execute(&mut conn)
        .await?;
        for table in compare(&mut conn).await? {
            let wrong = [table.wrongly_gone > 0, table.altered > 0];
            let expected = match table.table.trim_start_matches("review.") {
                "outbox" | "audit_log" => [true, false],
                "sessions" => [false, true],
                "moderation_decisions" => [wrong[0], false],
                // One row is nowhere, five are in both.
                "moderation_decisions, with its archive" => [true, true],
                _ => [false, false],
            };
            assert_eq!(wrong, expected, "{table:?}");
        }
        Ok(())
    }
}
