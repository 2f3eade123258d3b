//! What is delivered beside the binary, in `deploy/`: alerts, dashboard, manifests, image. That they fit the worker as it
//! is; that their own tools accept them is for `.ci/run` and `deploy/container/check.sh`.

mod alerts;
mod manifests;
mod names;

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::{Yaml, YamlLoader};

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(path(file)).unwrap()
}

/// The one document of a file.
fn yaml(file: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&text(file)).unwrap();
    assert_eq!(documents.len(), 1, "{file}");
    documents.remove(0)
}

/// The items of a list, which must be there and not empty.
fn items(yaml: &Yaml) -> &[Yaml] {
    let items = yaml.as_vec().unwrap();
    assert!(!items.is_empty());
    items
}

/// The rules of the alerts file.
fn rules() -> Vec<Yaml> {
    let file = yaml("deploy/prometheus/rules.yml");
    items(&file["groups"]).iter().flat_map(|group| items(&group["rules"])).cloned().collect()
}

/// Every query of the dashboard, and the text in which labels are shown beside it.
fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard: serde_json::Value =
        serde_json::from_str(&text("deploy/grafana/session-retention.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let of = |target: &serde_json::Value, key: &str| target[key].as_str().unwrap().to_owned();
    targets.map(|target| (of(target, "expr"), of(target, "legendFormat"))).collect()
}
