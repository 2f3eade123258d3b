//! `docs/metrics.md`, made from the table of metrics. A test keeps the committed page current; with `UPDATE_DOCS` set
//! it writes it.

use std::fmt::Write as _;

use retention_domain::Outcome;

use super::metric_table::{ALL, ERROR_KINDS, Kind, Metric, RUN_PHASE, STATES};

/// The text of `docs/metrics.md`.
#[must_use]
pub fn metrics_md() -> String {
    let mut page = INTRODUCTION.to_owned();
    for metric in ALL {
        let Metric { name, kind, unit, labels, help, note } = metric;
        let labels = if labels.is_empty() { "none".to_owned() } else { code_list(labels) };
        let _ = write!(page, "\n## `{name}`\n\n{help}");
        if !note.is_empty() {
            let _ = write!(page, " {note}");
        }
        let _ = write!(page, "\n\n- kind: {}\n- unit: {unit}\n- labels: {labels}\n", kind.as_str());
        if let Kind::Histogram(buckets) = kind {
            let bounds: Vec<_> = buckets.iter().map(ToString::to_string).collect();
            let _ = writeln!(page, "- buckets: {}", bounds.join(", "));
        }
    }
    let _ = write!(
        page,
        "\n## Label values\n\n\
         - `policy`: the policy's name: `sicr`, `refresh`, then declared ones\n\
         - `table`: the policy's table, with its schema\n\
         - `state`: {}. Pending rows can go, blocked ones are held by a descendant that stays\n\
         - `phase`: a policy's name, or `{RUN_PHASE}` for what concerns the run as a whole\n\
         - `kind`: {}\n\
         - `outcome`: {}\n",
        code_list(&STATES),
        code_list(&ERROR_KINDS),
        code_list(&Outcome::ALL.map(Outcome::as_str)),
    );
    page
}

const INTRODUCTION: &str = "\
<!-- Made from crates/retention-worker/src/observe/metric_table.rs. Change it there, then run:
     UPDATE_DOCS=1 cargo test -p retention-worker --lib observe::metric_page -->

# Metrics

`serve` exports these at `/metrics`; `--metrics-file` writes the same families once, when the command ends.

Every series exists from the first scrape, so that the first failure is an increase and not a new series: counters
start at 0, `last_success_timestamp_seconds` at 0, and a gauge that has not been measured yet is `NaN`. In PromQL
`>` and `<` never hold for `NaN`, so such a gauge raises no alert.
";

fn code_list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn the_committed_page_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, metrics_md()).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap();
        assert!(committed == metrics_md(), "docs/metrics.md is stale: run again with UPDATE_DOCS=1");
    }
}
