//! Pages made from the table of settings: `docs/configuration.md` and `.env.example`. A test keeps the committed
//! files current; with `UPDATE_DOCS` set it writes them.

use std::fmt::Write;

use super::table::{TABLE, Unset};

const PAGE_START: &str = "\
<!-- Made from crates/retention-worker/src/settings/table.rs. Change it there, then run:
     UPDATE_DOCS=1 cargo test -p retention-worker --lib settings::docs -->

# Configuration

The worker is configured by environment variables alone. Nothing but `DATABASE_URL` is required.
`retention-worker config` prints what is in force and where it comes from, secrets hidden.

| variable | not set | unit | allowed | meaning |
| --- | --- | --- | --- | --- |
";

const PAGE_END: &str = "
## Durations

A duration is one or more whole numbers, each with a unit: `ms`, `s`, `m`, `h`, `d`, in lower case and from large to
small, joined or with one blank between them, such as `30d`, `90m`, `1d 12h` or `1d12h`. ISO 8601 with days and time is
read as well: `P30D`, `PT24H`, `P1DT12H`. There are no numbers without a unit, no weeks, months or years, no fractions and
no signs, and no zero where the range does not begin with it.

## The night window

Runs of `serve` start inside the window and end when it closes; the command `run` ignores it. Slots lie at the opening
and every interval after it, before the end. A window that crosses midnight, such as `22:00-04:00`, belongs to the day
on which it opens. An interval of several days takes every n-th opening, counted from 1970-01-01. With `always`, slots
are the multiples of the interval since 1970-01-01T00:00Z.

## Faults

All faults are reported together on stderr, each with the variable, the value (never a secret) and what is allowed; the
exit code is 2 and nothing is touched. Values are taken as they are: surrounding blanks and empty values are refused
(only an empty `RUST_LOG` or `OTEL_` variable counts as not set), whole numbers are plain digits.

An unknown variable that begins with `SESSION_RETENTION_`, in whatever case, is a fault too, so that a slip of the pen
cannot keep rows for ever. Passed over are only the variables that Kubernetes sets for a Service whose name begins alike:
names that end in `_SERVICE_HOST` or `_PORT`, or hold `_SERVICE_PORT` or `_PORT_`. Variables of other programs may hold
anything.

The driver reads the standard variables of PostgreSQL's own clients (`PGHOST`, `PGPASSWORD`, `PGSSLROOTCERT` and so on) for
what `DATABASE_URL` leaves open. The exporter of traces reads a few more `OTEL_` variables, such as headers and sampling:
[logging.md](logging.md) lists them.
";

const EXAMPLE_START: &str = "\
# Settings of the retention worker, made from its table of settings; docs/configuration.md says more.
# Lines that are commented out show the default or an example. Values take no quotes.
";

/// The text of `docs/configuration.md`.
#[must_use]
pub fn configuration_md() -> String {
    let mut page = PAGE_START.to_owned();
    for setting in TABLE {
        let unset = match setting.unset {
            Unset::Refused { .. } => "required".to_owned(),
            Unset::Value(default) => format!("`{default}`"),
            Unset::Means { what, .. } => what.to_owned(),
        };
        let (variable, unit, meaning) = (setting.variable, setting.unit, setting.meaning);
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{variable}` | {unset} | {unit} | {} | {meaning} |", setting.allowed());
    }
    page + PAGE_END
}

/// The text of `.env.example`.
#[must_use]
pub fn env_example() -> String {
    let mut example = EXAMPLE_START.to_owned();
    for setting in TABLE {
        let (comment, value) = match setting.unset {
            Unset::Refused { example } => ("", example),
            Unset::Value(default) => ("#", default),
            Unset::Means { example, .. } => ("#", example),
        };
        let (variable, unit) = (setting.variable, setting.unit);
        let meaning = setting.meaning.replace('`', "");
        let _ = write!(
            example,
            "\n# {meaning}.\n# {unit}; allowed: {}\n{comment}{variable}={value}\n",
            setting.allowed()
        );
    }
    example
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use retention_domain::period::parse_duration;
    use rstest::rstest;

    use super::*;
    use crate::settings::Settings;
    use crate::settings::table;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[rstest]
    #[case("docs/configuration.md", configuration_md())]
    #[case(".env.example", env_example())]
    fn the_committed_file_is_current(#[case] file: &str, #[case] generated: String) {
        let path = root().join(file);
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &generated).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap();
        assert!(committed == generated, "{file} is stale: run again with UPDATE_DOCS=1");
    }

    /// The assignments in a text, also commented out, as far as they name a setting.
    fn assignments(text: &str) -> Vec<(String, String)> {
        let pair = |line: &str| {
            let (name, value) = line.trim_start_matches(['#', ' ']).split_once('=')?;
            table::find(name)?;
            Some((name.to_owned(), value.to_owned()))
        };
        text.lines().filter_map(pair).collect()
    }

    #[test]
    fn every_setting_is_documented() {
        let (page, example) = (configuration_md(), assignments(&env_example()));
        let names: Vec<&str> = example.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, TABLE.map(|setting| setting.variable));
        for name in names {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn the_example_loads_as_it_is_and_with_every_line_in_force() {
        let load = |pairs: Vec<(String, String)>| {
            let vars = pairs.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
            Settings::load(vars).map(|settings| settings.resolved())
        };
        let example = env_example();
        let active: Vec<&str> = example.lines().filter(|line| !line.starts_with('#')).collect();
        let active = active.join("\n");
        assert_eq!(assignments(&active).len(), 1);
        assert!(load(assignments(&active)).is_ok());

        let with_value: Vec<_> =
            assignments(&example).into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let shown = with_value.len();
        let resolved = load(with_value).unwrap();
        assert_eq!(resolved.iter().filter(|row| row.source == "environment").count(), shown);
    }

    /// Every text file of the project that people copy settings from.
    fn pages() -> Vec<(PathBuf, String)> {
        let mut todo: Vec<PathBuf> =
            ["README.md", ".env.example", "docs", "deploy"].map(|path| root().join(path)).to_vec();
        let mut pages = Vec::new();
        while let Some(path) = todo.pop() {
            if let Ok(entries) = fs::read_dir(&path) {
                todo.extend(entries.map(|entry| entry.unwrap().path()));
            } else if let Ok(text) = fs::read_to_string(&path) {
                pages.push((path, text));
            }
        }
        pages
    }

    /// The value given right behind a variable's name: `=V`, `: V`, or `value: V` on the same or the next line.
    fn value_behind(rest: &str) -> Option<&str> {
        let rest = match rest.strip_prefix(['=', ':']) {
            Some(value) => value.trim_start_matches(' '),
            None => rest.trim_start_matches([' ', ',', '"', '\'', '\n']).strip_prefix("value:")?.trim_start(),
        };
        let value = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split([' ', '\n', '`', '"', '\'', ',', ')', '}']).next(),
        };
        value.filter(|value| !value.is_empty() && !value.starts_with(['$', '{', '<', '…']))
    }

    #[test]
    fn every_value_shown_on_a_page_is_accepted() {
        let mut seen = 0;
        for (path, text) in pages() {
            for setting in TABLE {
                for (place, _) in text.match_indices(setting.variable) {
                    let whole =
                        !text[..place].ends_with(|before: char| before.is_alphanumeric() || before == '_');
                    let rest = &text[place + setting.variable.len()..];
                    let Some(value) = value_behind(rest).filter(|_| whole) else {
                        continue;
                    };
                    let url = ("DATABASE_URL", "postgres://");
                    let vars =
                        [(setting.variable, value), url].map(|(n, v)| (OsString::from(n), OsString::from(v)));
                    let loaded = Settings::load(vars);
                    assert!(loaded.is_ok(), "{}: {}", path.display(), loaded.unwrap_err());
                    seen += 1;
                }
            }
        }
        assert!(seen >= 15, "{seen}");
    }

    #[test]
    fn every_duration_shown_on_a_page_is_one() {
        let looks_like_one = |code: &&str| {
            let plain = code.starts_with(|first: char| first.is_ascii_digit())
                && code.ends_with(|last: char| last.is_ascii_alphabetic())
                && code.chars().all(|c| c.is_ascii_digit() || " mshdwy".contains(c.to_ascii_lowercase()));
            let iso = code.strip_prefix('P').is_some_and(|rest| {
                rest.starts_with(|first: char| first == 'T' || first.is_ascii_digit())
                    && rest.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
            });
            plain || iso
        };
        let mut seen = 0;
        for (path, text) in pages() {
            // A line may show what is refused.
            for line in text.lines().filter(|line| !line.contains("refused")) {
                for code in line.split('`').skip(1).step_by(2).filter(looks_like_one) {
                    assert!(parse_duration(code).is_ok(), "{}: `{code}`", path.display());
                    seen += 1;
                }
            }
        }
        assert!(seen >= 15, "{seen}");
    }
}
