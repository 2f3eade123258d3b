//! Whether everything is as it should be, check by check.

use std::fmt;

use super::reference::Comparison;
use super::report::{Plan, Report};
use super::table::numbers;

/// The only table without a policy.
const USERS: &str = "identity.users";

/// What was looked at, and what was found.
pub struct Verdict {
    tables: Vec<Comparison>,
    checks: Vec<Check>,
}

struct Check {
    holds: bool,
    what: String,
}

/// Compares what the plan announced and the runs reported with what the reference found after each run.
pub fn judge(plan: &Plan, runs: [&Report; 2], found: [&[Comparison]; 2]) -> Verdict {
    let [first, second] = runs;
    let [after_first, after_second] = found;
    let sum = |count: fn(&Comparison) -> i64| after_first.iter().map(count).sum::<i64>();
    let mut checks = Vec::new();
    let mut check = |holds, what| checks.push(Check { holds, what });

    check(after_first.len() == 3, format!("{} tables were compared row by row", after_first.len()));
    check(
        after_first.iter().all(|table| table.gone == table.goes)
            && sum(|table| table.wrongly_gone + table.left_over) == 0,
        format!("{} rows had to go, and exactly these went", sum(|table| table.goes)),
    );
    check(
        sum(|table| table.altered) == 0,
        format!(
            "{} rows had to stay, and are as they were in every column",
            sum(|table| table.before - table.goes)
        ),
    );
    for Comparison { table: name, goes, blocked, gone, .. } in
        after_first.iter().filter(|table| table.table != USERS)
    {
        let planned = plan.policies.iter().find(|planned| planned.table == *name);
        let planned = planned.map(|planned| (planned.deletable, planned.blocked));
        let said = planned
            .map_or("nothing".to_owned(), |(goes, blocked)| format!("{goes} deletable, {blocked} blocked"));
        check(planned == Some((*goes, *blocked)), format!("{name}: the plan said {said}"));

        let reported = first.policies.iter().find(|reported| reported.table == *name);
        let reported =
            reported.map(|policy| (policy.deleted, policy.backlog.pending, policy.backlog.blocked));
        let said = reported.map_or("nothing".to_owned(), |(deleted, pending, blocked)| {
            let known =
                |number: Option<i64>| number.map_or("unknown".to_owned(), |number| number.to_string());
            format!("{deleted} deleted, {} pending, {} blocked", known(pending), known(blocked))
        });
        check(reported == Some((*gone, Some(0), Some(*blocked))), format!("{name}: the report said {said}"));
    }
    check(
        first.outcome == "completed" && second.outcome == "completed",
        format!("the two runs ended as {} and {}", first.outcome, second.outcome),
    );
    let again: i64 = second.policies.iter().map(|policy| policy.deleted).sum();
    check(again == 0 && after_second == after_first, format!("the second run deleted {again} rows"));
    Verdict { tables: after_first.to_vec(), checks }
}

impl Verdict {
    /// How many checks there were.
    pub fn checks(&self) -> usize {
        self.checks.len()
    }

    /// How many did not hold.
    pub fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.holds).count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.tables.iter().map(|table| {
            [
                table.table.clone(),
                table.before.to_string(),
                table.goes.to_string(),
                table.gone.to_string(),
                table.wrongly_gone.to_string(),
                table.left_over.to_string(),
                table.blocked.to_string(),
                table.altered.to_string(),
            ]
        });
        let header =
            ["table", "before", "had to go", "went", "went wrongly", "stayed wrongly", "blocked", "altered"];
        writeln!(f, "{}\n", numbers(header, rows))?;
        for check in &self.checks {
            writeln!(f, "  {} {}", if check.holds { "ok   " } else { "WRONG" }, check.what)?;
        }
        match self.failed() {
            0 => write!(f, "\nPASSED: exactly the right rows are gone, and nothing else has changed"),
            failed => write!(f, "\nFAILED: {failed} of {} checks", self.checks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::report::{Backlog, Planned, Reported};
    use super::*;

    /// A story in which everything is right: ten requests and twenty sessions went, three are blocked.
    struct Story {
        plan: Plan,
        runs: [Report; 2],
        found: [Vec<Comparison>; 2],
    }

    fn report(deleted: [i64; 2]) -> Report {
        let policy = |policy: &str, table: &str, deleted, blocked| Reported {
            policy: policy.to_owned(),
            table: table.to_owned(),
            cutoff: String::new(),
            deleted,
            batches: 1,
            skipped: 0,
            failed_rows: 0,
            stop_reason: "drained".to_owned(),
            backlog: Backlog { pending: Some(0), blocked: Some(blocked) },
        };
        Report {
            job_run_id: String::new(),
            duration_ms: 1,
            outcome: "completed".to_owned(),
            stop_reason: "drained".to_owned(),
            policies: vec![
                policy("sicr", "identity.sign_in_confirmation_requests", deleted[0], 0),
                policy("refresh", "identity.refresh_sessions", deleted[1], 3),
            ],
        }
    }

    impl Story {
        fn right() -> Self {
            let planned =
                |table: &str, deletable, blocked| Planned { table: table.to_owned(), deletable, blocked };
            let table = |table: &str, goes, blocked| Comparison {
                table: table.to_owned(),
                before: 50,
                goes,
                blocked,
                gone: goes,
                wrongly_gone: 0,
                left_over: 0,
                altered: 0,
            };
            let found = vec![
                table(USERS, 0, 0),
                table("identity.sign_in_confirmation_requests", 10, 0),
                table("identity.refresh_sessions", 20, 3),
            ];
            Self {
                plan: Plan {
                    policies: vec![
                        planned("identity.sign_in_confirmation_requests", 10, 0),
                        planned("identity.refresh_sessions", 20, 3),
                    ],
                },
                runs: [report([10, 20]), report([0, 0])],
                found: [found.clone(), found],
            }
        }

        fn verdict(&self) -> Verdict {
            judge(&self.plan, [&self.runs[0], &self.runs[1]], [&self.found[0], &self.found[1]])
        }
    }

    #[test]
    fn a_right_story_passes() {
        let verdict = Story::right().verdict();
        assert_eq!(verdict.failed(), 0, "{verdict}");
        assert_eq!(verdict.checks(), 9);
    }

    #[rstest]
    #[case::one_row_too_many_went(|story: &mut Story| { story.found[0][2].wrongly_gone = 1; })]
    #[case::one_row_stayed(|story: &mut Story| { story.found[0][1].left_over = 1; })]
    #[case::the_counts_differ(|story: &mut Story| { story.found[0][1].gone = 9; story.runs[0].policies[0].deleted = 9; })]
    #[case::a_row_was_altered(|story: &mut Story| { story.found[0][2].altered = 1; })]
    #[case::a_user_went(|story: &mut Story| { story.found[0][0].gone = 1; story.found[0][0].wrongly_gone = 1; })]
    #[case::the_plan_is_off(|story: &mut Story| { story.plan.policies[1].deletable = 21; })]
    #[case::the_plan_lacks_a_policy(|story: &mut Story| { story.plan.policies.pop(); })]
    #[case::the_report_is_off(|story: &mut Story| { story.runs[0].policies[1].deleted = 21; })]
    #[case::the_report_counts_blocked_rows_wrong(|story: &mut Story| { story.runs[0].policies[1].backlog.blocked = None; })]
    #[case::a_run_did_not_complete(|story: &mut Story| { story.runs[0].outcome = "stopped".to_owned(); })]
    #[case::the_second_run_says_it_deleted(|story: &mut Story| { story.runs[1].policies[0].deleted = 1; })]
    #[case::the_second_run_deleted(|story: &mut Story| { story.found[1][2].gone = 21; })]
    #[case::a_table_is_missing(|story: &mut Story| { story.found = [vec![], vec![]]; })]
    fn one_fault_fails(#[case] break_it: fn(&mut Story)) {
        let mut story = Story::right();
        break_it(&mut story);
        let verdict = story.verdict();
        assert!(verdict.failed() > 0);
        assert!(verdict.to_string().contains("WRONG"));
    }
}
