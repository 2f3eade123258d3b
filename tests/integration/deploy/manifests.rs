//! The settings in manifests and compose file are the worker's, and what surrounds them fits them. Kubernetes' own schemas
//! are for `.ci/run`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use harness::Process;
use harness::binary;
use retention_worker::cli::Cli;
use retention_worker::settings::Settings;
use rstest::rstest;
use yaml_rust2::Yaml;

use super::{items, text, yaml};

const DATABASE_URL: &str = "postgres://session_retention@database:5432/identity";
/// What a shutdown takes beyond the grace period: until connections are dropped, and until traces are given up.
const EXIT: Duration = Duration::from_secs(2 + 5);

/// A pod, as each manifest has one.
fn pod(file: &str) -> Yaml {
    let manifest = yaml(file);
    match manifest["kind"].as_str().unwrap() {
        "CronJob" => manifest["spec"]["jobTemplate"]["spec"]["template"]["spec"].clone(),
        _ => manifest["spec"]["template"]["spec"].clone(),
    }
}

/// The variables of the container.
fn variables(pod: &Yaml) -> BTreeMap<String, String> {
    let pairs = items(&pod["containers"][0]["env"]).iter().map(|variable| {
        let name = variable["name"].as_str().unwrap();
        let from_secret = variable["valueFrom"]["secretKeyRef"]["key"].as_str();
        let value =
            variable["value"].as_str().or((from_secret == Some(name)).then_some(DATABASE_URL)).unwrap();
        (name.to_owned(), value.to_owned())
    });
    pairs.collect()
}

fn settings(variables: &BTreeMap<String, String>) -> Settings {
    let pairs = variables.iter().map(|(name, value)| (name.into(), value.into()));
    Settings::load(pairs).unwrap()
}

fn seconds(yaml: &Yaml) -> Duration {
    Duration::from_secs(yaml.as_i64().unwrap().try_into().unwrap())
}

/// The arguments of a container make a command line of the worker's.
fn parses(container: &Yaml) {
    let arguments = items(&container["args"]).iter().map(|argument| argument.as_str().unwrap());
    Cli::try_parse_from(["retention-worker"].into_iter().chain(arguments)).unwrap();
}

#[rstest]
#[case("deploy/kubernetes/serve/deployment.yaml")]
#[case("deploy/kubernetes/cronjob/cronjob.yaml")]
#[tokio::test]
async fn the_worker_takes_the_settings_of_the_manifests(#[case] file: &str) -> Result<()> {
    let pod = pod(file);
    let variables = variables(&pod);
    let pairs = variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut process = Process::spawn(&binary("retention-worker")?, ["config"], pairs)?;
    let finished = process.wait(Duration::from_mins(1)).await?;
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    parses(&pod["containers"][0]);

    let grace = seconds(&pod["terminationGracePeriodSeconds"]);
    assert!(grace > settings(&variables).shutdown_grace + EXIT, "{grace:?}");
    Ok(())
}

#[rstest]
#[case("deploy/kubernetes/serve/deployment.yaml")]
#[case("deploy/kubernetes/cronjob/cronjob.yaml")]
fn a_pod_has_no_more_than_it_needs(#[case] file: &str) {
    let pod = pod(file);
    for forbidden in ["enableServiceLinks", "automountServiceAccountToken"] {
        assert_eq!(pod[forbidden].as_bool(), Some(false), "{forbidden}");
    }
    let context = &pod["securityContext"];
    assert_eq!(context["runAsNonRoot"].as_bool(), Some(true));
    assert_eq!(context["seccompProfile"]["type"].as_str(), Some("RuntimeDefault"));
    let user = format!("USER {0}:{0}", context["runAsUser"].as_i64().unwrap());
    assert!(text("deploy/Dockerfile").lines().any(|line| line == user), "{user}");
    let container = &pod["containers"][0];
    let context = &container["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"].as_bool(), Some(false));
    assert_eq!(context["readOnlyRootFilesystem"].as_bool(), Some(true));
    assert_eq!(context["capabilities"]["drop"][0].as_str(), Some("ALL"));
    assert!(!container["resources"]["limits"]["memory"].is_badvalue());
    assert_eq!(container["image"].as_str(), Some(concat!("retention-worker:", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn probes_and_service_meet_the_port_that_is_listened_on() {
    let pod = pod("deploy/kubernetes/serve/deployment.yaml");
    let container = &pod["containers"][0];
    let port = &container["ports"][0];
    let listens = i64::from(settings(&variables(&pod)).http_addr.port());
    assert_eq!((port["name"].as_str(), port["containerPort"].as_i64()), (Some("metrics"), Some(listens)));
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        let probe = &container[probe]["httpGet"];
        assert_eq!((probe["path"].as_str(), probe["port"].as_str()), (Some(path), Some("metrics")));
    }
    let service = yaml("deploy/kubernetes/serve/service.yaml");
    assert_eq!(service["spec"]["ports"][0]["targetPort"].as_str(), Some("metrics"));
    let deployment = yaml("deploy/kubernetes/serve/deployment.yaml");
    for (label, value) in service["spec"]["selector"].as_hash().unwrap() {
        assert_eq!(&deployment["spec"]["template"]["metadata"]["labels"][label.as_str().unwrap()], value);
    }
    assert!(text("deploy/Dockerfile").contains(&format!("\nEXPOSE {listens}\n")));
}

#[test]
fn the_job_has_time_for_its_runs_and_gives_up_on_wrong_settings_only() {
    let file = "deploy/kubernetes/cronjob/cronjob.yaml";
    let manifest = yaml(file);
    let settings = settings(&variables(&pod(file)));
    // Once a day, at a minute of an hour: what the interval says, by which alerts know what is late.
    let schedule = manifest["spec"]["schedule"].as_str().unwrap();
    assert!(
        schedule.ends_with(" * * *") && !schedule.starts_with('*') && !schedule.contains(['/', ',', '-'])
    );
    assert_eq!(settings.schedule.interval(), Duration::from_hours(24));
    assert_eq!(manifest["spec"]["timeZone"].as_str(), Some("Etc/UTC"));
    assert_eq!(manifest["spec"]["concurrencyPolicy"].as_str(), Some("Forbid"));
    let job = &manifest["spec"]["jobTemplate"]["spec"];
    let one_run = settings.limits.max_run_duration + settings.limits.statement_timeout;
    assert!(seconds(&job["activeDeadlineSeconds"]) > 2 * one_run);
    assert_eq!(job["template"]["spec"]["restartPolicy"].as_str(), Some("Never"), "podFailurePolicy wants it");
    let rule = &job["podFailurePolicy"]["rules"][0];
    assert_eq!(rule["action"].as_str(), Some("FailJob"));
    assert_eq!(rule["onExitCodes"]["values"].as_vec().unwrap(), &[Yaml::Integer(2)]);
    let with_metrics = pod("deploy/kubernetes/cronjob-with-metrics/metrics-file.yaml");
    parses(&with_metrics["containers"][0]);
}

#[test]
fn the_compose_file_fits_worker_and_image() {
    let compose = yaml("deploy/compose/compose.yaml");
    let worker = &compose["services"]["worker"];
    let variables = worker["environment"].as_hash().unwrap().iter();
    let variables: BTreeMap<_, _> = variables
        .map(|(name, value)| (name.as_str().unwrap().to_owned(), value.as_str().unwrap().to_owned()))
        .collect();
    let settings = settings(&variables);
    let grace = worker["stop_grace_period"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    assert!(Duration::from_secs(grace) > settings.shutdown_grace + EXIT);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(worker["image"].as_str(), Some(format!("retention-worker:{version}").as_str()));
}

#[test]
fn the_image_is_built_with_the_pinned_toolchain() {
    let pinned = text("rust-toolchain.toml");
    let version = pinned.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    for file in ["deploy/Dockerfile", "deploy/compose/compose.yaml"] {
        assert!(text(file).contains(&format!("rust:{version}-slim-bookworm")), "{file}");
    }
}
