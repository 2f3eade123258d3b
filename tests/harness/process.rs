//! Running a program of ours as a process: in a clean environment, listened to, and never left behind.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::lifeline::Lifeline;

/// Kills the process unless it was told that there is no need.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _ || kill -KILL "$1"
"#;

/// A running program, killed when this is dropped or this process dies.
///
/// Waiting is asynchronous and driven by what the program does; nothing is polled.
pub struct Process {
    name: String,
    child: Child,
    stdout: watch::Receiver<Output>,
    stderr: watch::Receiver<Output>,
    /// Where on stderr the next search for a line begins.
    cursor: usize,
    lifeline: Lifeline,
}

/// How a program ended, and all it wrote.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code or the signal it died of.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Finished {
    /// The exit code, unless a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// What came out of one of its streams so far.
#[derive(Default)]
struct Output {
    text: String,
    closed: bool,
}

impl Process {
    /// Starts `program`, whose environment is `PATH` and `variables` alone.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn spawn<'a>(
        program: &Path,
        arguments: impl IntoIterator<Item = &'a str>,
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(variables);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let stdout = child.stdout.take().map(listen).context("stdout is not a pipe")?;
        let stderr = child.stderr.take().map(listen).context("stderr is not a pipe")?;
        let lifeline = Lifeline::spawn(SCRIPT, [child.id().to_string()], |_| {});
        let (lifeline, _) = lifeline.inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self { name, child, stdout, stderr, cursor: 0, lifeline })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stdout so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.borrow().text.clone()
    }

    /// What it has written to stderr so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.borrow().text.clone()
    }

    /// Waits for the next line on stderr that `matches`, and returns it.
    ///
    /// The search begins after the line returned last, so nothing is missed between two calls and nothing is
    /// found twice.
    ///
    /// # Errors
    ///
    /// When `deadline` passes or stderr is closed before: with all that was written.
    pub async fn wait_for_line(
        &mut self,
        matches: impl Fn(&str) -> bool,
        deadline: Duration,
    ) -> Result<String> {
        let mut cursor = self.cursor;
        let mut line = None;
        let search = self.stderr.wait_for(|output| {
            while line.is_none() {
                let Some((next, length)) = output.line_at(cursor) else {
                    break;
                };
                cursor += length;
                line = matches(next).then(|| next.to_owned());
            }
            line.is_some() || output.closed
        });
        let in_time = timeout(deadline, search).await.is_ok();
        match line {
            Some(line) => {
                self.cursor = cursor;
                Ok(line)
            }
            None if in_time => {
                bail!("{} ended before the awaited line; stderr:\n{}", self.name, self.stderr())
            }
            None => bail!("{} wrote no awaited line in {deadline:?}; stderr:\n{}", self.name, self.stderr()),
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    ///
    /// When it has been waited for already.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // Not before we have reaped it can another process have its id.
        ensure!(self.child.try_wait()?.is_none(), "{} has ended, so it gets no {signal}", self.name);
        Ok(kill(self.pid()?, signal)?)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    ///
    /// When it is still running after `deadline`: with what it wrote to stderr. It goes on running.
    pub async fn wait(&mut self, deadline: Duration) -> Result<Finished> {
        // A program closes its streams at the very end, so this is the event and the wait below is short.
        let ended = async {
            let _ = self.stdout.wait_for(|output| output.closed).await;
            let _ = self.stderr.wait_for(|output| output.closed).await;
        };
        if timeout(deadline, ended).await.is_err() {
            bail!("{} has not ended in {deadline:?}; stderr:\n{}", self.name, self.stderr());
        }
        let status = self.child.wait()?;
        self.lifeline.release();
        Ok(Finished { status, stdout: self.stdout(), stderr: self.stderr() })
    }

    fn pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(self.child.id().try_into()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.lifeline.release();
    }
}

impl Output {
    /// The line that begins at `start` and its length with the newline, once it is complete.
    fn line_at(&self, start: usize) -> Option<(&str, usize)> {
        let rest = &self.text[start..];
        match rest.find('\n') {
            Some(end) => Some((&rest[..end], end + 1)),
            None if self.closed && !rest.is_empty() => Some((rest, rest.len())),
            None => None,
        }
    }
}

/// Reads a stream to its end, in a thread of its own.
fn listen(mut stream: impl Read + Send + 'static) -> watch::Receiver<Output> {
    let (sender, receiver) = watch::channel(Output::default());
    thread::spawn(move || {
        let mut pending = Vec::new();
        let mut chunk = [0; 8192];
        while let Ok(length @ 1..) = stream.read(&mut chunk) {
            pending.extend_from_slice(&chunk[..length]);
            // Text is handed on in whole lines, so that no character is cut in two.
            let whole = pending.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
            let lines: Vec<u8> = pending.drain(..whole).collect();
            sender.send_modify(|output| output.text.push_str(&String::from_utf8_lossy(&lines)));
        }
        sender.send_modify(|output| {
            output.text.push_str(&String::from_utf8_lossy(&pending));
            output.closed = true;
        });
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more than anything here takes; an event that has not come by then will not come.
    const DEADLINE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_process_sees_only_the_path_and_what_it_is_given() -> Result<()> {
        let mut process = Process::spawn(Path::new("/usr/bin/env"), [], [("GIVEN", "yes")])?;
        let finished = process.wait(DEADLINE).await?;
        assert_eq!(finished.code(), Some(0));
        let mut names: Vec<&str> =
            finished.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        assert_eq!(names, ["GIVEN", "PATH"]);
        Ok(())
    }

    #[tokio::test]
    async fn waits_for_lines_in_order_and_for_the_end() -> Result<()> {
        let script = "echo one >&2; echo out; echo two >&2; read -r _; printf three >&2; exit 3";
        let mut process = Process::spawn(Path::new("/bin/sh"), ["-c", script], [])?;
        assert_eq!(process.wait_for_line(|line| line == "two", DEADLINE).await?, "two");
        let error = process.wait_for_line(|line| line == "one", DEADLINE).await.unwrap_err().to_string();
        assert!(error.starts_with("sh ended before the awaited line"), "{error}");
        assert_eq!(process.wait_for_line(|_| true, DEADLINE).await?, "three");
        let finished = process.wait(DEADLINE).await?;
        assert_eq!(
            (finished.code(), finished.stdout.as_str(), finished.stderr.as_str()),
            (Some(3), "out\n", "one\ntwo\nthree")
        );
        assert!(process.signal(Signal::SIGTERM).is_err());

        let mut process = Process::spawn(Path::new("/bin/sh"), ["-c", "echo here >&2; exec sleep 600"], [])?;
        let error = process.wait(Duration::from_millis(50)).await.unwrap_err().to_string();
        assert!(error.starts_with("sh has not ended in 50ms"), "{error}");
        process.signal(Signal::SIGTERM)?;
        ensure!(process.wait(DEADLINE).await?.code().is_none(), "ended by itself");
        Ok(())
    }
}
