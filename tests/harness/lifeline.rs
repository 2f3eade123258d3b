//! Tidying up after this process, however it ends.
//!
//! Nothing inside a process survives its SIGKILL, and Rust drops no statics. So the tidying is done by a small
//! shell beside it, which waits on a pipe that only this process holds open: the kernel closes it in any case.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};

/// A shell that runs the rest of its script once this is dropped or this process is gone.
///
/// # Invariant
///
/// It is in a process group of its own, so that Ctrl-C in a terminal ends its owner and not the tidying.
pub(crate) struct Lifeline {
    shell: Child,
    alive: Option<ChildStdin>,
}

impl Lifeline {
    /// Runs `script` with `$1`, … from `arguments`; its `read` returns when it is time to tidy up.
    ///
    /// Also returns what the script prints. `prepare` may set the user, folder and variables.
    pub(crate) fn spawn<S: AsRef<std::ffi::OsStr>>(
        script: &str,
        arguments: impl IntoIterator<Item = S>,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<(Self, ChildStdout)> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).arg("lifeline").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        prepare(&mut command);
        let mut shell = command.spawn().context("starting /bin/sh to tidy up")?;
        let alive = shell.stdin.take();
        let stdout = shell.stdout.take().context("the shell's output is not a pipe")?;
        Ok((Self { shell, alive }, stdout))
    }

    /// Makes the script's `read` succeed, for scripts that tell this from our death. Tidies up nothing yet.
    pub(crate) fn release(&mut self) {
        if let Some(alive) = &mut self.alive {
            // A shell that is gone has nothing left to do.
            let _ = alive.write_all(b"\n");
        }
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.shell.wait();
    }
}
