//! A throw-away server in a container.

use std::ffi::OsStr;

use anyhow::{Context, Result};
use testcontainers_modules::postgres::Postgres;
use testcontainers_modules::testcontainers::ImageExt;
use testcontainers_modules::testcontainers::runners::AsyncRunner;
use uuid::Uuid;

use crate::lifeline::Lifeline;
use crate::{Durability, Environment};

const TAG: &str = "17-alpine";
const PORT: u16 = 5432;

/// Removing a container by name works before it exists, while it starts and after.
const SCRIPT: &str = r#"
docker=$1 name=$2
trap '' HUP INT TERM
while read -r _; do :; done
"$docker" rm --force --volumes "$name" >/dev/null 2>&1
"#;

/// Starts a container and waits until the server in it accepts connections; returns its address, and what removes
/// it when dropped or when this process dies.
///
/// # Errors
///
/// When Docker does not answer, or there is no `docker` command: the library's own clean-up is part of this
/// process, so without the command a container would outlive a process that is killed.
pub(crate) async fn start(environment: &Environment, durability: Durability) -> Result<(String, Lifeline)> {
    let docker = environment.program("docker").context("no `docker` command in PATH")?;
    let name = format!("retention-postgres-{}", Uuid::new_v4());
    let arguments = [docker.as_os_str(), OsStr::new(&name)];
    let (lifeline, _) = Lifeline::spawn(SCRIPT, arguments, |_| {})?;

    // The port may be published beyond the loopback, so there is a real password.
    let password = Uuid::new_v4().simple().to_string();
    let container = Postgres::default()
        .with_password(&password)
        .with_tag(TAG)
        .with_container_name(&name)
        .with_cmd(durability.options())
        .start()
        .await
        .with_context(|| format!("starting a container of postgres:{TAG}"))?;
    let host = container.get_host().await?;
    let port = container.get_host_port_ipv4(PORT).await?;
    // Its destructor wants a runtime and would do what the lifeline does.
    std::mem::forget(container);
    Ok((format!("postgres://postgres:{password}@{host}:{port}/postgres"), lifeline))
}
