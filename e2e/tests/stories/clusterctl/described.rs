//! `clusterctl describe`, the first view of a user.

use anyhow::ensure;
use capa_e2e::eventually;
use kube::ResourceExt;
use kube::api::ListParams;

use super::installed::{Installed, NAME};
use crate::stories::scenario::{CORE, WITHIN};

/// The expected output of `clusterctl describe cluster --show-conditions all` for a cluster that has come up.
const DESCRIBED: &str = include_str!("described.txt");

/// The characters of the tree before a name.
const TREE: [char; 5] = ['│', '├', '└', '─', ' '];

impl Installed {
    /// Compares the description of a cluster that has come up with the expected one.
    pub(super) async fn is_described(&self) -> anyhow::Result<()> {
        let environment = &self.scenario.environment;
        let machines = environment.api(CORE, "Machine").await?;
        let machines = machines.list(&ListParams::default()).await?.items;
        let names: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
        let arguments =
            ["describe", "cluster", NAME, "--namespace", environment.namespace(), "--show-conditions=all", "--echo"];
        eventually(WITHIN, "the cluster to be described", async || {
            let described = self.run(&arguments).await?;
            let described = comparable(&described, environment.namespace(), &names);
            ensure!(described == DESCRIBED, "the description is:\n{described}");
            Ok(())
        })
        .await
    }
}

/// The tree of clusterctl: this provider's objects with their conditions, and other objects without, because their
/// conditions change. Random parts of names become x, and ages and messages are left out; all columns keep their
/// places.
fn comparable(described: &str, namespace: &str, machines: &[String]) -> String {
    let mut described = described.replace(namespace, &without_random_parts(namespace));
    for machine in machines {
        described = described.replace(machine.as_str(), &without_random_parts(machine));
    }
    let before_messages = described.find("MESSAGE").unwrap_or_default();
    let mut lines = String::new();
    let mut shows_conditions = true;
    for line in described.lines() {
        let line: String = line.chars().take(before_messages).collect();
        // A long message has lines of its own.
        if line.chars().all(|character| TREE.contains(&character)) {
            continue;
        }
        let words: String = line.split_inclusive(' ').map(without_age).collect();
        let name = words.trim_start_matches(TREE).trim_end();
        let is_object = name.contains('/') || ["Workers", "Other"].contains(&name);
        if is_object {
            shows_conditions = name.starts_with("AWS");
        }
        if is_object || shows_conditions {
            lines.push_str(words.trim_end());
            lines.push('\n');
        }
    }
    lines
}

/// The words of five characters without a vowel in a name, which Kubernetes has generated.
fn without_random_parts(name: &str) -> String {
    let is_random = |word: &str| word.len() == 5 && !word.contains(['a', 'e', 'i', 'o', 'u']);
    let words = name.split('-').map(|word| if is_random(word) { "xxxxx" } else { word });
    words.collect::<Vec<_>>().join("-")
}

/// Replaces a word that is an age, possibly followed by spaces, by a dash.
fn without_age(word: &str) -> String {
    let age = word.trim_end();
    let is_of_age = |character: char| character.is_ascii_digit() || "smhd".contains(character);
    let starts_with_number = age.starts_with(|first: char| first.is_ascii_digit());
    if starts_with_number && age.ends_with(['s', 'm', 'h', 'd']) && age.chars().all(is_of_age) {
        return format!("-{}", " ".repeat(word.len() - 1));
    }
    word.to_owned()
}
