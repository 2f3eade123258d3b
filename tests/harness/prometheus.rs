//! A real Prometheus that scrapes one target, from the binary of this machine.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http::get;
use crate::{Environment, Process};

/// Far more than anything here takes.
const DEADLINE: Duration = Duration::from_mins(1);
/// How often a question is asked again. Prometheus tells nobody when a rule's result changes, so it is polled.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Starts tried: between our look at a free port and its bind somebody else may take it.
const STARTS: usize = 5;

/// A running Prometheus, ended when this is dropped or this process dies.
pub struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

impl Prometheus {
    /// A Prometheus with its files in `folder` that scrapes `target` and evaluates these rules every second, as job
    /// `retention`.
    ///
    /// `None`, and a line that says so, when this machine has no `prometheus`.
    ///
    /// # Errors
    ///
    /// When it does not start: with what it said.
    pub async fn scraping(target: SocketAddr, rules: &str, folder: &Path) -> Result<Option<Self>> {
        let Some(program) = Environment::of_process().program("prometheus") else {
            eprintln!("SKIPPED: no prometheus on this machine (Debian: apt-get install prometheus)");
            return Ok(None);
        };
        let config = folder.join("prometheus.yml");
        fs::write(folder.join("rules.yml"), rules)?;
        fs::write(
            &config,
            format!(
                "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\n\
                 rule_files: [rules.yml]\n\
                 scrape_configs: [{{job_name: retention, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
            ),
        )?;
        let mut said = String::new();
        for _ in 0..STARTS {
            let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let arguments = [
                format!("--config.file={}", config.display()),
                format!("--storage.tsdb.path={}", folder.join("data").display()),
                format!("--web.listen-address={address}"),
            ];
            let mut process = Process::spawn(&program, arguments.iter().map(String::as_str), [])?;
            match process.wait_for_line(|line| line.contains("Server is ready"), DEADLINE).await {
                Ok(_) => return Ok(Some(Self { address, _process: process })),
                Err(error) => said = format!("{error:#}"),
            }
        }
        bail!("prometheus did not start: {said}")
    }

    /// What a query yields now: one value a series, none if it matches nothing.
    ///
    /// # Errors
    ///
    /// When Prometheus refuses the query: with what it said.
    pub async fn query(&self, query: &str) -> Result<Vec<Value>> {
        let answer = self.ask(&format!("/api/v1/query?query={}", encoded(query))).await?;
        let result = &answer["data"]["result"];
        Ok(result.as_array().with_context(|| format!("{query}: no vector: {answer}"))?.clone())
    }

    /// The rules that could not be evaluated, with what Prometheus says of them.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub async fn broken_rules(&self) -> Result<Vec<Value>> {
        let answer = self.ask("/api/v1/rules").await?;
        let groups = answer["data"]["groups"].as_array().context("no groups of rules")?;
        let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
        Ok(rules.filter(|rule| rule["health"] == "err").cloned().collect())
    }

    /// Asks until the query yields something that `suits`, and returns it.
    ///
    /// # Errors
    ///
    /// When nothing suits within `deadline`: with the last result.
    pub async fn wait_for(
        &self,
        query: &str,
        suits: impl Fn(&[Value]) -> bool,
        deadline: Duration,
    ) -> Result<Vec<Value>> {
        let mut last = Vec::new();
        let asking = async {
            loop {
                last = self.query(query).await?;
                if suits(&last) {
                    return Ok::<(), anyhow::Error>(());
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        };
        match tokio::time::timeout(deadline, asking).await {
            Ok(asked) => asked.map(|()| last),
            Err(_) => bail!("{query} has not come to what was awaited in {deadline:?}; last: {last:#?}"),
        }
    }

    async fn ask(&self, target: &str) -> Result<Value> {
        let (status, body) = get(self.address, target).await?;
        ensure!(status == 200, "{target}: {status}: {body}");
        Ok(serde_json::from_str(&body)?)
    }
}

/// Percent-encoded as a value of a query.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded_byte_by_byte() {
        assert_eq!(encoded("a{b=\"ü\"}+1"), "a%7Bb%3D%22%C3%BC%22%7D%2B1");
    }
}
