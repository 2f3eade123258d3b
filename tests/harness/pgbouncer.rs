//! A PgBouncer in transaction mode before a server, from the binary of this machine.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::{User, geteuid};

use crate::{Environment, Process};

/// Far more than a start takes.
const DEADLINE: Duration = Duration::from_secs(30);
/// Starts tried: between our look at a free port and its bind somebody else may take it.
const STARTS: usize = 5;

/// A running PgBouncer, ended when this is dropped or this process dies.
pub struct PgBouncer {
    port: u16,
    _process: Process,
}

impl PgBouncer {
    /// A PgBouncer in transaction mode, with its files in `folder`, before the server of this database address (as
    /// user `postgres`, host and port in figures), with `pool_size` connections to each of its databases.
    ///
    /// `None`, and a line that says so, when this machine has no `pgbouncer`.
    ///
    /// # Errors
    ///
    /// When it does not start: with what it said.
    pub async fn before(url: &str, folder: &Path, pool_size: usize) -> Result<Option<Self>> {
        let mut environment = Environment::of_process();
        // Where Debian puts it, which is not in everybody's path.
        environment.path.push("/usr/sbin".into());
        let Some(program) = environment.program("pgbouncer") else {
            eprintln!("SKIPPED: no pgbouncer on this machine (Debian: apt-get install pgbouncer)");
            return Ok(None);
        };
        let (_, rest) = url.split_once('@').context("a URL with a user")?;
        let (server, _) = rest.split_once('/').context("a URL with a database")?;
        let (host, port) = server.rsplit_once(':').context("a URL with a port")?;
        let mut said = String::new();
        for _ in 0..STARTS {
            let listen = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let users = folder.join("userlist.txt");
            let settings = format!(
                "[databases]\n* = host={host} port={port}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {listen}\nunix_socket_dir =\n\
                 auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = {pool_size}\n",
                users.display()
            );
            let file = folder.join("pgbouncer.ini");
            fs::write(&users, "\"postgres\" \"\"\n")?;
            fs::write(&file, settings)?;
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
            let mut process = spawn(&program, &file)?;
            match process.wait_for_line(|line| line.contains("process up"), DEADLINE).await {
                Ok(_) => return Ok(Some(Self { port: listen, _process: process })),
                Err(error) => said = format!("{error:#}"),
            }
        }
        bail!("pgbouncer did not start: {said}")
    }

    /// The address of a database through it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// PgBouncer refuses to run as root, so root runs it as somebody else.
fn spawn(program: &Path, file: &Path) -> Result<Process> {
    let (program, file) =
        (program.to_str().context("a path in UTF-8")?, file.to_str().context("a path in UTF-8")?);
    if !geteuid().is_root() {
        return Process::spawn(Path::new(program), [file], []);
    }
    let nobody = User::from_name("nobody")?.context("no user nobody to run pgbouncer as")?;
    let (user, group) = (format!("--reuid={}", nobody.uid), format!("--regid={}", nobody.gid));
    let setpriv = Environment::of_process().program("setpriv").context("no setpriv to leave root with")?;
    // Becomes pgbouncer, in the same process.
    Process::spawn(&setpriv, [user.as_str(), &group, "--clear-groups", program, file], [])
}
