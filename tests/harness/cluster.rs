//! A throw-away cluster from the server binaries of this machine: own folder, own port, own end.

use std::env;
use std::fs;
use std::io::{Read, Result as IoResult};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::unistd::{User, geteuid};

use crate::Durability;
use crate::lifeline::Lifeline;

/// Makes and starts the cluster, says `ready PORT FOLDER` or what went wrong, and removes everything when it is
/// time.
///
/// Everything from the folder on is in one script, so that there is no moment at which a death of ours leaves
/// something behind. The folder is the last thing to go: a server that outlived it would notice and stop by itself.
const SCRIPT: &str = r#"
bin=$1 options=$2
shift 2
trap '' HUP INT TERM PIPE
dir=$(mktemp -d "$PWD/retention-postgres-XXXXXX" 2>&1) || { echo "$dir"; exit 1; }
start() {
  "$bin/initdb" -D "$dir/data" -A trust -U postgres --locale=C -E UTF8 --no-sync >>"$dir/start.log" 2>&1 || return
  for port; do
    "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -o "-p $port $options" -w -t 60 start >>"$dir/start.log" 2>&1 &&
      return
  done
  return 1
}
if start "$@"; then echo "ready $port $dir"; else cat "$dir"/*.log | grep . | tail -n 4; fi 2>/dev/null
exec >/dev/null
while read -r _; do :; done
"$bin/pg_ctl" -D "$dir/data" -m immediate -w -t 60 stop >/dev/null 2>&1
rm -rf "$dir"
"#;

const LOOPBACK_ONLY: &str = "-c listen_addresses=127.0.0.1 -c unix_socket_directories=";

/// Ports offered to one start. Between our look at a free port and the server's bind somebody else may take it.
const PORTS: usize = 5;

/// A running server that ends, with its folder, when this is dropped or this process dies.
pub(crate) struct Cluster {
    _lifeline: Lifeline,
    folder: PathBuf,
    port: u16,
}

impl Cluster {
    /// Makes a cluster and waits until it accepts connections: user `postgres`, no password, loopback only.
    ///
    /// Blocks for a second or two.
    ///
    /// # Errors
    ///
    /// When the binaries do not run or the server does not start: with what they said.
    pub(crate) fn start(binaries: &Path, durability: Durability) -> Result<Self> {
        let user = unprivileged_user()?;
        let options = [LOOPBACK_ONLY.to_owned(), durability.options().join(" ")].join(" ");
        let ports = free_ports().context("looking for a free port")?;
        let arguments =
            [binaries.as_os_str().to_owned(), options.into()].into_iter().chain(ports.map(Into::into));
        let parent = temporary_folder(user.as_ref())?;
        let (lifeline, mut stdout) = Lifeline::spawn(SCRIPT, arguments, |command| {
            // Settings of the caller (PGDATA, PGPORT, a locale) must not reach the server.
            command.env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path))).env("LC_ALL", "C");
            command.current_dir(parent);
            if let Some(user) = &user {
                // Leaving root also drops the supplementary groups.
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
        })?;

        let mut said = String::new();
        stdout.read_to_string(&mut said).context("waiting for the cluster to start")?;
        let ready = said.trim_end().strip_prefix("ready ").and_then(|ready| ready.split_once(' '));
        let Some((port, folder)) = ready else {
            let reason: Vec<&str> = said.lines().collect();
            bail!("a server of {} did not start: {}", binaries.display(), reason.join("; "));
        };
        let port = port.parse().with_context(|| format!("the start script said {said:?}"))?;
        Ok(Self { _lifeline: lifeline, folder: folder.into(), port })
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// PostgreSQL refuses to run as root, so root runs it as somebody else.
fn unprivileged_user() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name).with_context(|| format!("looking up the user {name}"))? {
            return Ok(Some(user));
        }
    }
    bail!("PostgreSQL does not run as root, and there is no user postgres or nobody to run it as")
}

/// The folder for temporary files, or the first one in which that other user may work and remove its own.
fn temporary_folder(user: Option<&User>) -> Result<PathBuf> {
    let preferred = env::temp_dir();
    if user.is_none() {
        return Ok(preferred);
    }
    let has = |folder: &Path, bits| fs::metadata(folder).is_ok_and(|found| found.mode() & bits == bits);
    [preferred, "/tmp".into(), "/var/tmp".into()]
        .into_iter()
        .find(|folder| has(folder, 0o003) && folder.ancestors().all(|ancestor| has(ancestor, 0o001)))
        .context("no temporary folder that an unprivileged user may write to: not TMPDIR, /tmp or /var/tmp")
}

/// A few different ports nobody listens on right now.
fn free_ports() -> IoResult<impl Iterator<Item = String>> {
    let listeners: Vec<TcpListener> =
        (0..PORTS).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<IoResult<_>>()?;
    let ports: Vec<String> = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port().to_string()))
        .collect::<IoResult<_>>()?;
    Ok(ports.into_iter())
}
