//! The status page of a real `serve`, in a real browser: what it says before a run, after a good one and when rows
//! overstay; on a phone and on a desk, light and dark; without script, and with nothing from elsewhere.
//!
//! With `STATUS_SCREENSHOTS` naming a folder, pictures of all of it are left there, for people to look at.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use harness::{Browser, Look, Process, Rows, TestDatabase, Worker, shape};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::block_in_place;

/// Far more than anything here takes; an event that has not come by then will not come.
const DEADLINE: Duration = Duration::from_mins(1);

const LOOKS: [(&str, Look); 4] = [
    ("phone-light", Look { width: 360, dark: false }),
    ("phone-dark", Look { width: 360, dark: true }),
    ("desk-light", Look { width: 1280, dark: false }),
    ("desk-dark", Look { width: 1280, dark: true }),
];

/// The lowest contrast of any text with what is behind it, and that text. Four and a half is what readers need.
const LOWEST_CONTRAST: &str = r"(() => {
    const parts = color => color.match(/[\d.]+/g).map(Number);
    const light = color => {
        const [r, g, b] = parts(color).slice(0, 3).map(part => part / 255)
            .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = element => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((parts(color)[3] ?? 1) > 0) return color;
        }
        return 'rgb(255, 255, 255)';
    };
    let lowest = { ratio: 21, text: '' };
    for (const element of document.querySelectorAll('body *')) {
        const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('').trim();
        if (!text) continue;
        const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < lowest.ratio) lowest = { ratio, text };
    }
    return lowest;
})()";

/// What is wrong with the page's structure, for those who cannot see it.
const FLAWS: &str = r"(() => {
    const flaws = [];
    if (document.documentElement.lang !== 'en') flaws.push('no language');
    const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map(heading => Number(heading.tagName[1]));
    if (levels.filter(level => level === 1).length !== 1 || levels[0] !== 1) flaws.push('not one first heading');
    levels.forEach((level, place) => { if (place && level > levels[place - 1] + 1) flaws.push('a skipped heading'); });
    for (const cell of document.querySelectorAll('th')) if (!cell.scope) flaws.push(`no scope: ${cell.innerText}`);
    for (const part of document.querySelectorAll('section, article, [role=region]')) {
        const name = document.getElementById(part.getAttribute('aria-labelledby'));
        if (!name?.innerText.trim()) flaws.push('a part without a name');
    }
    const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
    if (new Set(ids).size !== ids.length) flaws.push('an id twice');
    for (const landmark of ['header', 'main', 'footer'])
        if (document.querySelectorAll(`body > ${landmark}`).length !== 1) flaws.push(`not one ${landmark}`);
    if (document.querySelectorAll('script, form, button, input, img, link, iframe').length) flaws.push('more than text');
    return flaws;
})()";

struct Serving {
    process: Process,
    address: String,
}

impl Serving {
    async fn start(worker: Worker) -> Result<Self> {
        let mut process = worker.spawn(&["serve"]).await?;
        let line = process.wait_for_line(|line| line.contains("\"listening\""), DEADLINE).await?;
        let line: Value = serde_json::from_str(&line)?;
        let address = line["address"].as_str().context("no address in the line")?.to_owned();
        Ok(Self { process, address })
    }

    async fn wait_for(&mut self, message: &str) -> Result<()> {
        let awaited = format!("\"message\":\"{message}\"");
        self.process.wait_for_line(|line| line.contains(&awaited), DEADLINE).await?;
        Ok(())
    }

    async fn ask(&self, method: &str, path: &str) -> Result<(String, String)> {
        let mut stream = TcpStream::connect(&self.address).await?;
        stream.write_all(format!("{method} {path} HTTP/1.1\r\nHost: worker\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
        Ok((head.to_owned(), body.to_owned()))
    }

    async fn data(&self) -> Result<Value> {
        let (_, body) = self.ask("GET", "/status.json").await?;
        Ok(serde_json::from_str(&body)?)
    }

    /// Looks at the page in every way, and returns its text.
    fn look(&self, browser: &mut Browser, state: &str) -> Result<String> {
        let url = format!("http://{}/", self.address);
        let mut backgrounds = Vec::new();
        for (name, look) in LOOKS {
            browser.open(&url, look)?;
            if let Some(folder) = std::env::var_os("STATUS_SCREENSHOTS") {
                let picture = BASE64_STANDARD.decode(browser.screenshot()?)?;
                std::fs::write(Path::new(&folder).join(format!("{state}-{name}.png")), picture)?;
            }
            let lowest = browser.evaluate(LOWEST_CONTRAST)?;
            assert!(lowest["ratio"].as_f64().unwrap() >= 4.5, "{state}, {name}: {lowest}");
            let beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.evaluate(beyond)?, 0, "{state}, {name}: wider than the window");
            let size = browser.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")?;
            assert!(size.as_f64().unwrap() >= 16.0, "{size}");
            // Above everything else, and without scrolling.
            let bottom =
                browser.evaluate("document.querySelector('.answer').getBoundingClientRect().bottom")?;
            assert!(bottom.as_f64().unwrap() < 400.0, "{state}, {name}: {bottom}");
            assert_eq!(browser.evaluate(FLAWS)?, json!([]), "{state}, {name}");
            assert_eq!(browser.requested(), [url.as_str()], "nothing from elsewhere");
            assert_eq!(browser.complaints(), Vec::<Value>::new());
            backgrounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor")?);
        }
        assert_eq!((&backgrounds[0], &backgrounds[1]), (&backgrounds[2], &backgrounds[3]));
        assert_ne!(backgrounds[0], backgrounds[1], "dark is not light");
        Ok(browser.evaluate("document.body.innerText")?.as_str().context("no text")?.to_owned())
    }
}

/// Whether each service level holds, by id and policy.
fn levels(data: &Value) -> Vec<(String, Value)> {
    let levels = data["levels"].as_array().unwrap().iter();
    levels.map(|level| (level["id"].as_str().unwrap().to_owned(), level["holds"].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_the_page_knows_whether_the_service_levels_hold() -> Result<()> {
    let folder = TempDir::new()?;
    let Some(mut browser) = Browser::start(folder.path())? else { return Ok(()) };
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    let worker = Worker::on(database.url()).set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always");

    // A minute that is twelve hours away, whatever the time is.
    let hour =
        rows.number("SELECT extract(hour FROM now() AT TIME ZONE 'UTC' + interval '12 hours')::bigint");
    let hour = hour.await?;
    let window = format!("{hour:02}:00-{hour:02}:01");
    let mut serving =
        Serving::start(worker.clone().set("SESSION_RETENTION_NIGHT_WINDOW_UTC", window.clone())).await?;
    serving.wait_for("the database answers").await?;
    let text = block_in_place(|| serving.look(&mut browser, "before"))?;
    assert!(text.contains("Not known yet") && text.contains("This process has made no run yet"), "{text}");
    assert!(text.contains("not measured yet") && text.contains(&window.replace('-', " to ")), "{text}");
    let data = serving.data().await?;
    assert_eq!((&data["verdict"], &data["runs"]), (&json!("not_known_yet"), &json!([])));
    assert!(levels(&data).iter().all(|(_, holds)| holds.is_null()), "{data}");
    drop(serving);

    rows.sessions(shape::trees(1, 100)).await?;
    rows.session(100_000, Some(4), "Active", 0).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 1500) AS n").await?;
    let mut serving = Serving::start(worker.clone()).await?;
    serving.wait_for("job completed").await?;
    let text = block_in_place(|| serving.look(&mut browser, "good"))?;
    assert!(text.contains("Yes") && text.contains("All service levels hold."), "{text}");
    assert!(text.contains("1,500 rows") && text.contains("completed: drained"), "{text}");
    let data = serving.data().await?;
    assert_eq!((&data["verdict"], &data["runs"][0]["stop_reason"]), (&json!("yes"), &json!("drained")));
    assert!(levels(&data).iter().all(|(_, holds)| *holds == json!(true)), "{data}");
    assert_eq!((&data["policies"][1]["blocked"], &data["policies"][1]["pending"]), (&json!(3), &json!(0)));
    drop(serving);

    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(5001, 5010) AS n").await?;
    let mut holder = rows.pool().begin().await?;
    sqlx::query("SELECT FROM identity.sign_in_confirmation_requests LIMIT 3 FOR UPDATE")
        .execute(&mut *holder)
        .await?;
    let mut serving = Serving::start(worker).await?;
    serving.wait_for("job completed").await?;
    let text = block_in_place(|| serving.look(&mut browser, "overdue"))?;
    holder.rollback().await?;
    assert!(text.contains("No\n") && text.contains("sicr: the oldest is 40.0 d old"), "{text}");
    let data = serving.data().await?;
    assert_eq!((&data["verdict"], &data["policies"][0]["pending"]), (&json!("no"), &json!(3)));
    assert_eq!(data["policies"][0]["nights_to_drain"], 1);
    assert_eq!(levels(&data).iter().filter(|(_, holds)| *holds == json!(false)).count(), 2, "{data}");
    assert_eq!(data["runs"][0]["stop_reason"], "rows_held");
    Ok(())
}

#[tokio::test]
async fn nothing_can_be_set_off_and_nothing_personal_is_shown() -> Result<()> {
    let database = TestDatabase::migrated().await?;
    let rows = Rows::of(&database).await?;
    rows.requests("SELECT n, 'Expired', interval '40 days' FROM generate_series(1, 5) AS n").await?;
    let mut serving =
        Serving::start(Worker::on(database.url()).set("SESSION_RETENTION_NIGHT_WINDOW_UTC", "always"))
            .await?;
    serving.wait_for("job completed").await?;
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        for path in ["/", "/status.json"] {
            let (head, _) = serving.ask(method, path).await?;
            assert!(head.starts_with("HTTP/1.1 405 "), "{method} {path}: {head}");
        }
    }
    let (page, data) = (serving.ask("GET", "/").await?, serving.ask("GET", "/status.json").await?);
    let told = format!("{page:?}{data:?}");
    for word in ["phone", "user_agent", "ip_address", "postgres://", database.name()] {
        assert!(!told.contains(word), "{word}");
    }
    let run = serving.data().await?["runs"][0]["job_run_id"].clone();
    assert!(page.1.contains(run.as_str().unwrap()), "the page leads to the log");
    Ok(())
}
