//! The policies there are: the two built-in ones and those of the policy file, and the one that `cleanup` asks for.

use std::collections::BTreeMap;

use retention_domain::{RetentionPeriod, RetentionPolicy, TableName};

use crate::cli::Cleanup;
use crate::policy_file::{self, Declared, Origin, built_in_tables};
use crate::settings::Settings;

/// All policies of this worker.
#[derive(Clone, Debug)]
pub struct Policies {
    built_in: [RetentionPolicy; 2],
    declared: Vec<Declared>,
    /// Whether there is a policy file at all.
    file: bool,
}

impl Policies {
    /// The policies that these settings ask for.
    ///
    /// # Errors
    /// What is wrong with the policy file, one line a fault.
    pub fn load(settings: &Settings) -> Result<Self, String> {
        let declared = match &settings.policy_file {
            Some(path) => policy_file::load(path).map_err(|faults| faults.to_string())?,
            None => Vec::new(),
        };
        let audited = |policy| RetentionPolicy { audit_table: settings.audit_table.clone(), ..policy };
        let built_in = [
            audited(RetentionPolicy::sicr(settings.sicr_retention)),
            audited(RetentionPolicy::refresh(settings.refresh_retention)),
        ];
        Ok(Self { built_in, declared, file: settings.policy_file.is_some() })
    }

    /// All of them, in the order of a run: the built-in ones, then those of the file in its order.
    #[must_use]
    pub fn all(&self) -> Vec<RetentionPolicy> {
        let declared = self.declared.iter().map(|declared| declared.policy.clone());
        self.built_in.iter().cloned().chain(declared).collect()
    }

    /// Where the declared ones stand, by their names.
    #[must_use]
    pub fn origins(&self) -> BTreeMap<String, Origin> {
        let of = |declared: &Declared| (declared.policy.name.to_string(), declared.origin.clone());
        self.declared.iter().map(of).collect()
    }

    /// The one declared policy that `cleanup` asks for, with the retention it asks for.
    ///
    /// # Errors
    /// Why it is not clear which one, or why it may not have that retention; and what there is.
    pub fn selected(&self, asked: &Cleanup) -> Result<RetentionPolicy, String> {
        let keep = RetentionPeriod::in_days_or_hours(&asked.older_than)
            .map_err(|error| format!("--older-than {}: {error}", asked.older_than))?;
        let Declared { policy, minimum, .. } =
            self.one_of(&self.table(&asked.table)?, asked.policy.as_deref())?;
        if keep < *minimum {
            return Err(format!(
                "--older-than {keep}: below the minimum of the policy {}; allowed is {minimum} or more",
                policy.name
            ));
        }
        Ok(RetentionPolicy { retention: keep, ..policy.clone() })
    }

    /// The declared table that is meant.
    fn table(&self, asked: &str) -> Result<TableName, String> {
        let tables = self.tables();
        let is_meant = |table: &TableName| table.to_string() == asked || table.name == asked;
        let qualified = tables.iter().find(|table| table.to_string() == asked);
        let meant: Vec<_> = match qualified {
            Some(table) => vec![table],
            None => tables.iter().filter(|table| is_meant(table)).collect(),
        };
        if let [table] = meant[..] {
            return Ok(table.clone());
        }
        if !meant.is_empty() {
            return Err(format!("--table {asked}: several tables have this name: {}", names(meant)));
        }
        if let Some((table, policy)) = built_in_tables().iter().find(|(table, _)| is_meant(table)) {
            return Err(format!(
                "--table {asked}: {table} belongs to the built-in policy {policy}, which cleanup does not touch: use \
                 `retention-worker run`"
            ));
        }
        let known = match (self.file, tables.is_empty()) {
            (false, _) => {
                "no policies are declared: set SESSION_RETENTION_POLICY_FILE or --policy-file".to_owned()
            }
            (true, true) => "the policy file declares no policy".to_owned(),
            (true, false) => format!("known are {}", names(&tables)),
        };
        Err(format!("--table {asked}: no declared policy is about such a table; {known}"))
    }

    /// The table's only policy, or the one of this name.
    fn one_of(&self, table: &TableName, name: Option<&str>) -> Result<&Declared, String> {
        let of_table: Vec<_> =
            self.declared.iter().filter(|declared| declared.policy.table == *table).collect();
        let listed = || names(of_table.iter().map(|declared| &declared.policy.name));
        match (name, &of_table[..]) {
            (None, [only]) => Ok(only),
            (None, _) => {
                Err(format!("{table} has several policies: choose one with --policy; known are {}", listed()))
            }
            (Some(name), _) => {
                of_table.iter().find(|declared| declared.policy.name.as_str() == name).copied().ok_or_else(
                    || format!("--policy {name}: no such policy of {table}; known are {}", listed()),
                )
            }
        }
    }

    /// The declared tables, each once, in the order of the file.
    fn tables(&self) -> Vec<TableName> {
        let mut tables: Vec<TableName> = Vec::new();
        for Declared { policy, .. } in &self.declared {
            if !tables.contains(&policy.table) {
                tables.push(policy.table.clone());
            }
        }
        tables
    }
}

fn names<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use retention_domain::PolicyName;
    use rstest::rstest;

    use super::*;
    use crate::cli::{Format, Output};

    fn declared(name: &str, schema: &str, table: &str, days: [u32; 2]) -> Declared {
        let [retention, minimum] = days.map(|days| RetentionPeriod::from_days(days).unwrap());
        let policy = RetentionPolicy {
            name: PolicyName::new(name),
            table: TableName::new(schema, table),
            ..RetentionPolicy::sicr(retention)
        };
        Declared { policy, minimum, origin: Origin::default() }
    }

    fn policies() -> Policies {
        let any = RetentionPeriod::from_days(30).unwrap();
        Policies {
            built_in: [RetentionPolicy::sicr(any), RetentionPolicy::refresh(any)],
            declared: vec![
                declared("outbox", "review", "outbox", [7, 3]),
                declared("audit", "review", "audit_log", [180, 180]),
                declared("audit-security", "review", "audit_log", [365, 365]),
                declared("place-outbox", "place", "outbox", [7, 3]),
            ],
            file: true,
        }
    }

    fn select(table: &str, policy: Option<&str>, older_than: &str) -> Result<(String, String), String> {
        let asked = Cleanup {
            table: table.to_owned(),
            policy: policy.map(str::to_owned),
            older_than: older_than.to_owned(),
            dry_run: false,
            output: Output { format: Format::Json },
            metrics_file: None,
        };
        let policy = policies().selected(&asked)?;
        Ok((policy.name.to_string(), policy.retention.to_string()))
    }

    #[rstest]
    #[case("review.outbox", None, "72h", "outbox", "3d")]
    #[case("place.outbox", None, "10d", "place-outbox", "10d")]
    #[case("audit_log", Some("audit"), "180d", "audit", "180d")]
    #[case("review.audit_log", Some("audit-security"), "P365D", "audit-security", "365d")]
    fn the_policy_that_is_meant_gets_the_retention(
        #[case] table: &str,
        #[case] policy: Option<&str>,
        #[case] older_than: &str,
        #[case] name: &str,
        #[case] retention: &str,
    ) {
        assert_eq!(select(table, policy, older_than), Ok((name.to_owned(), retention.to_owned())));
    }

    #[rstest]
    #[case(
        "outbox",
        None,
        "7d",
        "--table outbox: several tables have this name: review.outbox, place.outbox"
    )]
    #[case(
        "nothing",
        None,
        "7d",
        "--table nothing: no declared policy is about such a table; known are review.outbox, review.audit_log, place.outbox"
    )]
    #[case("review.nothing", None, "7d", "--table review.nothing: no declared policy")]
    #[case("review.outbox.x", None, "7d", "--table review.outbox.x: no declared policy")]
    #[case("", None, "7d", "--table : no declared policy")]
    #[case(
        "refresh_sessions",
        None,
        "90d",
        "--table refresh_sessions: identity.refresh_sessions belongs to the built-in policy refresh, which cleanup does not touch: use `retention-worker run`"
    )]
    #[case(
        "identity.sign_in_confirmation_requests",
        None,
        "90d",
        "--table identity.sign_in_confirmation_requests: "
    )]
    #[case(
        "audit_log",
        None,
        "365d",
        "review.audit_log has several policies: choose one with --policy; known are audit, audit-security"
    )]
    #[case(
        "audit_log",
        Some("outbox"),
        "365d",
        "--policy outbox: no such policy of review.audit_log; known are"
    )]
    #[case(
        "audit_log",
        Some("audit-security"),
        "364d",
        "--older-than 364d: below the minimum of the policy audit-security; allowed is 365d or more"
    )]
    #[case("review.outbox", None, "71h", "--older-than 2d 23h: below the minimum")]
    #[case("review.outbox", None, "0d", "--older-than 0d: a retention period must be")]
    #[case("review.outbox", None, "7", "--older-than 7: not in days or hours")]
    #[case("review.outbox", None, "10080m", "--older-than 10080m: not in days or hours")]
    fn whatever_is_unclear_or_too_short_is_refused(
        #[case] table: &str,
        #[case] policy: Option<&str>,
        #[case] older_than: &str,
        #[case] says: &str,
    ) {
        let text = select(table, policy, older_than).unwrap_err();
        assert!(text.starts_with(says), "{text}");
    }

    #[test]
    fn a_run_takes_the_built_in_ones_first_and_then_the_file_s() {
        let names: Vec<_> = policies().all().iter().map(|policy| policy.name.to_string()).collect();
        assert_eq!(names, ["sicr", "refresh", "outbox", "audit", "audit-security", "place-outbox"]);
    }
}
