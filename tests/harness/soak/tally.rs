//! What a worker's process has said about itself, worked out from its log when it has ended.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::rows::PERSONAL;

/// The sums of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Rows of all batches that were logged.
    pub deleted: u64,
    /// Runs that ended, by their reason.
    pub runs: BTreeMap<String, u64>,
    /// Runs that ended and had failed, with all that was said in them.
    pub failed: Vec<String>,
    /// Failed attempts.
    pub attempts_failed: u64,
    /// What must never be in a log.
    pub faults: Vec<String>,
}

impl Tally {
    /// Reads a log of JSON lines. A last line that was cut off by the end of the process is passed over.
    pub fn of(log: &str) -> Self {
        let mut tally = Self::default();
        let mut batches: BTreeMap<String, u64> = BTreeMap::new();
        for line in log.lines() {
            if line.contains("panicked") || PERSONAL.iter().any(|personal| line.contains(personal)) {
                tally.faults.push(format!("in a worker's log: {line}"));
            }
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let run = line["jobRunId"].as_str().unwrap_or_default();
            match line["message"].as_str().unwrap_or_default() {
                "batch deleted" => {
                    let deleted = line["deletedCount"].as_u64().unwrap_or_default();
                    tally.deleted += deleted;
                    *batches.entry(run.to_owned()).or_default() += deleted;
                }
                "job completed" => tally.end(&line, batches.remove(run).unwrap_or_default()),
                message if message.starts_with("attempt failed") => tally.attempts_failed += 1,
                _ => {}
            }
        }
        for failed in &mut tally.failed {
            let id = format!(r#""jobRunId":"{failed}""#);
            let of_the_run = log.lines().filter(|line| line.contains(&id));
            *failed = of_the_run.collect::<Vec<_>>().join("\n");
        }
        tally
    }

    fn end(&mut self, line: &Value, batches: u64) {
        let of = |field: &str| line[field].as_u64().unwrap_or_default();
        let sum = of("sicrDeleted") + of("refreshDeleted");
        if sum != batches {
            self.faults.push(format!("a run reports {sum} rows, its batches {batches}: {line}"));
        }
        *self.runs.entry(line["stopReason"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
        if line["outcome"] == "failed" {
            self.failed.push(line["jobRunId"].as_str().unwrap_or("?").to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"message":"job started","jobRunId":"a"}
{"message":"batch deleted","jobRunId":"a","phase":"sicr","deletedCount":3}
{"message":"batch deleted","jobRunId":"a","phase":"refresh","deletedCount":4}
{"message":"job completed","jobRunId":"a","sicrDeleted":3,"refreshDeleted":4,"outcome":"completed","stopReason":"drained"}
{"message":"batch deleted","jobRunId":"b","phase":"sicr","deletedCount":5}
{"message":"attempt failed, retrying","jobRunId":"b","phase":"sicr"}
{"message":"job completed","jobRunId":"b","sicrDeleted":6,"refreshDeleted":0,"outcome":"failed","stopReason":"error"}
{"message":"batch deleted","jobRunId":"c","phase":"sicr","deletedCount":7}
{"message":"batch del"#;

    #[test]
    fn batches_count_although_their_run_was_killed() {
        let tally = Tally::of(LOG);
        assert_eq!((tally.deleted, tally.attempts_failed), (3 + 4 + 5 + 7, 1));
        assert_eq!(tally.runs, BTreeMap::from([("drained".to_owned(), 1), ("error".to_owned(), 1)]));
    }

    #[test]
    fn a_sum_that_is_not_that_of_its_batches_is_told_and_so_is_a_failed_run_with_its_lines() {
        let tally = Tally::of(LOG);
        assert_eq!(tally.faults.len(), 1, "{tally:?}");
        assert!(tally.faults[0].contains("reports 6 rows, its batches 5"), "{tally:?}");
        assert_eq!(tally.failed[0].lines().count(), 3, "{tally:?}");
    }

    #[test]
    fn personal_data_and_panics_are_told() {
        let tally =
            Tally::of("key (id)=(00000000-0000-0000-0000-000000000001)\nthread 'x' panicked at src\nfine");
        assert_eq!(tally.faults.len(), 2);
    }
}
