//! Rules about what keeps selected rows from going, or does more than delete them.

use super::{Examined, Finding, Level};
use crate::sql::ident;

const SECURITY: &str = "row-security";
const TRIGGERS: &str = "triggers";
const RULES: &str = "rules";
const IDENTITY: &str = "replica-identity";
const READ_ONLY: &str = "read-only";

pub(super) fn read_only((in_recovery, read_only): (bool, bool)) -> Finding {
    let error = |message, advice| Finding::bad(READ_ONLY, Finding::RUN, Level::Error, message, advice);
    if in_recovery {
        error(
            "the server is a standby: every delete fails (SQLSTATE 25006)",
            "point DATABASE_URL at the primary; with several hosts behind one name, at the one that takes writes",
        )
    } else if read_only {
        error(
            "transactions are read-only by default (default_transaction_read_only): every delete fails (SQLSTATE 25006)",
            "find who set it, for the server, the database or the role, and whether it is meant: \
             SELECT * FROM pg_db_role_setting; SHOW default_transaction_read_only;",
        )
    } else {
        Finding::ok(READ_ONLY, Finding::RUN, "the server takes writes")
    }
}

/// Row security hides rows without any error: the run would report a drained table.
pub(super) fn security(examined: &Examined<'_>) -> Finding {
    let (name, facts) = (&examined.policy.table, &examined.table);
    let role = &facts.role;
    if !facts.row_security {
        return examined.ok(SECURITY, format!("no row of {name} is hidden from role {role}"));
    }
    let advice =
        format!("CREATE POLICY retention_worker ON {} TO {} USING (true);", examined.relation(), ident(role));
    if facts.rows_permitted {
        examined.warning(
            SECURITY,
            format!("row security of {name} applies to role {role}: rows its policies hide stay, and no count shows them"),
            format!("see that the policies let the role read, update and delete every row: {advice}"),
        )
    } else {
        examined.error(
            SECURITY,
            format!(
                "row security of {name} applies to role {role} and no policy lets it read, update and delete: every row \
                 stays, without any error"
            ),
            advice,
        )
    }
}

/// Triggers that a delete fires, one finding each.
pub(super) fn triggers(examined: &Examined<'_>) -> Vec<Finding> {
    let name = &examined.policy.table;
    if examined.triggers.is_empty() {
        return vec![examined.ok(TRIGGERS, format!("deleting from {name} fires no trigger"))];
    }
    let finding = |trigger: &super::facts::Trigger| {
        let (effect, advice) = match (trigger.per_row, trigger.before) {
            (true, true) => (
                "runs before each deleted row and may keep it: such rows become failed rows, and every row costs its run",
                "see that it returns OLD for rows that are due",
            ),
            (true, false) => (
                "runs after each deleted row: every row costs its run, and an exception keeps the row",
                "see that it is fast and does not raise for rows that are due",
            ),
            (false, _) => (
                "runs with each batch: an exception keeps the whole batch",
                "see that it is fast and does not raise when due rows go",
            ),
        };
        examined.warning(TRIGGERS, format!("trigger {} of {name} {effect}", trigger.name), advice)
    };
    examined.triggers.iter().map(finding).collect()
}

pub(super) fn rules(examined: &Examined<'_>) -> Finding {
    let name = &examined.policy.table;
    match &examined.table.delete_rules {
        None => examined.ok(RULES, format!("no rule rewrites a delete from {name}")),
        Some(rules) => examined.error(
            RULES,
            format!(
                "{name} has rules on DELETE ({rules}): the worker's statement is refused (SQLSTATE 0A000)"
            ),
            "replace the rules by triggers, then drop them: DROP RULE … ON …",
        ),
    }
}

pub(super) fn replica_identity(examined: &Examined<'_>) -> Finding {
    let (name, facts) = (&examined.policy.table, &examined.table);
    match &facts.publications {
        None => examined.ok(IDENTITY, format!("no publication carries deletes from {name}")),
        Some(publications) if facts.identified => {
            examined.ok(IDENTITY, format!("{name} has the replica identity that its publications ({publications}) need"))
        }
        Some(publications) => examined.error(
            IDENTITY,
            format!(
                "{name} is published ({publications}) without a replica identity: every delete fails (SQLSTATE 55000)"
            ),
            format!(
                "ALTER TABLE {} REPLICA IDENTITY DEFAULT, which takes a primary key, or USING INDEX …",
                examined.relation()
            ),
        ),
    }
}
