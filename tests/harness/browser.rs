//! A real browser, headless, told what to do over its own protocol: no window, no network but the loopback, and
//! nothing left of it afterwards.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::Environment;
use crate::lifeline::Lifeline;

/// Far more than an answer takes.
const DEADLINE: Duration = Duration::from_mins(1);

/// The protocol's pipes are the descriptors 3 and 4.
const PIPES: &str = r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"#;

/// Kills the browser and what it started, unless it was told that there is no need.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _ || kill -KILL -- "-$1"
"#;

/// A browser with one page, killed when this is dropped or this process dies.
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    events: Vec<Value>,
    session: Option<String>,
    last_id: u64,
    lifeline: Lifeline,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The width of the window in pixels.
    pub width: u32,
    /// Whether the reader prefers dark pages.
    pub dark: bool,
}

impl Browser {
    /// A browser with its files in `folder`. `None`, and a line that says so, when this machine has none.
    ///
    /// # Errors
    ///
    /// When it does not start, and when there is none in CI.
    pub fn start(folder: &Path) -> Result<Option<Self>> {
        let Some(program) = find() else {
            ensure!(
                std::env::var_os("CI").is_none(),
                "no chromium on this machine, and CI must not skip its tests"
            );
            eprintln!("SKIPPED: no chromium on this machine (Debian: apt-get install chromium)");
            return Ok(None);
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", PIPES, "browser"]).arg(program);
        // Its sandbox needs rights that a container does not give; it opens nothing but our own page.
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"]);
        command.arg(format!("--user-data-dir={}", folder.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().context("starting chromium")?;
        let requests = child.stdin.take().context("no pipe to the browser")?;
        let answers = child.stdout.take().context("no pipe from the browser")?;
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { break };
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let (lifeline, _) = Lifeline::spawn(SCRIPT, [child.id().to_string()], |_| {})?;
        let (events, session) = (Vec::new(), None);
        let mut browser = Self { child, requests, messages, events, session, last_id: 0, lifeline };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach)?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Log", "Runtime", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(Some(browser))
    }

    /// Opens a page and waits until it is there.
    ///
    /// # Errors
    ///
    /// When it cannot be opened.
    pub fn open(&mut self, url: &str, look: Look) -> Result<()> {
        let size =
            json!({ "width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": look.width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", media)?;
        self.events.clear();
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        ensure!(opened.get("errorText").is_none(), "opening {url}: {opened}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive()?;
            self.events.push(event);
        }
        Ok(())
    }

    /// The value of an expression in the page.
    ///
    /// # Errors
    ///
    /// When it throws.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let evaluate = json!({ "expression": expression, "returnByValue": true });
        let evaluated = self.call("Runtime.evaluate", evaluate)?;
        ensure!(evaluated.get("exceptionDetails").is_none(), "{expression}: {evaluated}");
        Ok(evaluated["result"]["value"].clone())
    }

    /// What the page looks like from top to bottom: a PNG in base64.
    ///
    /// # Errors
    ///
    /// When the browser does not say.
    pub fn screenshot(&mut self) -> Result<String> {
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }))?;
        Ok(shot["data"].as_str().context("a screenshot without data")?.to_owned())
    }

    /// The addresses asked for since the page was opened, its own among them.
    #[must_use]
    pub fn requested(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests
            .map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What the browser had to say about the page since it was opened: errors, and what its policy forbade.
    #[must_use]
    pub fn complaints(&self) -> Vec<Value> {
        let about = ["Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"];
        let complaints = self.events.iter().filter(|event| about.iter().any(|name| event["method"] == *name));
        complaints.map(|event| event["params"].clone()).collect()
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let mut request = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        write!(self.requests, "{request}\0").with_context(|| format!("asking the browser for {method}"))?;
        loop {
            let mut message = self.receive().with_context(|| format!("waiting for {method}"))?;
            if message["id"] != self.last_id {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    fn receive(&self) -> Result<Value> {
        self.messages.recv_timeout(DEADLINE).context("the browser says nothing")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its helpers are in its group.
        if let Ok(group) = self.child.id().try_into() {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.child.wait();
        self.lifeline.release();
    }
}

fn find() -> Option<PathBuf> {
    let environment = Environment::of_process();
    ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| environment.program(name))
}
