//! Rules about the table itself: is it there, is it one the engine works on, may we.

use retention_domain::RetentionPolicy;
use retention_domain::policy::Disposition;

use super::{Examined, Finding, Level};
use crate::sql::ident;

const EXISTS: &str = "table-exists";
const KIND: &str = "table-kind";
const COLUMNS: &str = "column-types";
const RIGHTS: &str = "rights";
const DESTINATION: &str = "destination";

pub(super) fn missing(policy: &RetentionPolicy) -> Finding {
    Finding::bad(
        EXISTS,
        policy.name.as_str(),
        Level::Error,
        format!("{} does not exist (SQLSTATE 42P01)", policy.table),
        "create the table, or point DATABASE_URL at the database that holds it: the worker never runs DDL",
    )
}

pub(super) fn exists(examined: &Examined<'_>) -> Finding {
    examined.ok(EXISTS, format!("{} exists", examined.policy.table))
}

pub(super) fn kind(examined: &Examined<'_>) -> Finding {
    let (name, facts) = (&examined.policy.table, &examined.table);
    let refused = match facts.kind.as_str() {
        "p" if examined.policy.parent_column.is_some() => {
            Some("partitioned, and the policy follows a self-reference")
        }
        "r" | "p" => None,
        "v" => Some("a view"),
        "m" => Some("a materialized view"),
        "f" => Some("a foreign table"),
        _ => Some("no table"),
    };
    if let Some(kind) = refused {
        examined.error(
            KIND,
            format!("{name} is {kind}: the policy is refused"),
            "supported are ordinary tables, and partitioned ones for policies without a parent column",
        )
    } else if facts.persistence == "u" {
        examined.warning(
            KIND,
            format!("{name} is unlogged: a crash of the server empties it, standbys do not have its rows"),
            format!("if that is not intended: ALTER TABLE {} SET LOGGED", examined.relation()),
        )
    } else if facts.kind == "p" {
        examined.ok(KIND, format!("{name} is partitioned"))
    } else if facts.inherited {
        examined.warning(
            KIND,
            format!("other tables inherit from {name}: their rows are not deleted"),
            "a policy speaks of its own table alone; declare one for each table that inherits from it",
        )
    } else {
        examined.ok(KIND, format!("{name} is an ordinary table"))
    }
}

pub(super) fn columns(examined: &Examined<'_>) -> Finding {
    match &examined.columns {
        Ok(()) => examined.ok(COLUMNS, "all columns of the policy are there and of a type it can work with"),
        Err(what) => examined.error(
            COLUMNS,
            format!("{}: {what}", examined.policy.table),
            "the age must be timestamp with time zone, tested columns text, varchar or an enum, key and parent of one \
             type; until then the policy fails before deleting anything",
        ),
    }
}

/// The archive and the ledger, where the policy has one.
pub(super) fn destination(examined: &Examined<'_>) -> Option<Finding> {
    let policy = examined.policy;
    let archive = match &policy.disposition {
        Disposition::Delete => None,
        Disposition::Archive(archive) => Some(format!("archive {archive}")),
    };
    let ledger = policy.audit_table.as_ref().map(|ledger| format!("ledger {ledger}"));
    let both: Vec<_> = archive.into_iter().chain(ledger).collect();
    if both.is_empty() {
        return None;
    }
    Some(match &examined.destination {
        None => examined.ok(DESTINATION, format!("{} can take what comes", both.join(" and "))),
        Some(what) => examined.error(
            DESTINATION,
            what.clone(),
            "an archive has exactly the columns of its table (CREATE TABLE … (LIKE … INCLUDING ALL)); a ledger is made by \
             deploy/postgres/ledger.sql; our role needs INSERT on both",
        ),
    })
}

pub(super) fn rights(examined: &Examined<'_>) -> Finding {
    let (policy, facts) = (examined.policy, &examined.table);
    let (schema, role) = (ident(&policy.table.schema), ident(&facts.role));
    let on_table: Vec<_> = [
        (facts.may_select, "SELECT".to_owned()),
        (facts.may_delete, "DELETE".to_owned()),
        // One column is enough for the row lock.
        (facts.may_update, format!("UPDATE ({})", ident(policy.key.first().unwrap_or(&policy.age_column)))),
    ]
    .into_iter()
    .filter(|(may, _)| !may)
    .map(|(_, right)| right)
    .collect();
    let mut missing = Vec::new();
    let mut grants = Vec::new();
    if !facts.may_use_schema {
        missing.push(format!("USAGE on schema {}", policy.table.schema));
        grants.push(format!("GRANT USAGE ON SCHEMA {schema} TO {role};"));
    }
    if !on_table.is_empty() {
        let rights = on_table.join(", ");
        missing.push(format!("{rights} on {}", policy.table));
        grants.push(format!("GRANT {rights} ON {} TO {role};", examined.relation()));
    }
    if missing.is_empty() {
        return examined.ok(RIGHTS, format!("role {} may read, lock and delete rows", facts.role));
    }
    examined.error(
        RIGHTS,
        format!("role {} lacks {} (SQLSTATE 42501)", facts.role, missing.join(" and ")),
        format!("{} deploy/postgres/grants.sql holds all that the worker needs", grants.join(" ")),
    )
}
