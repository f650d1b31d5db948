//! The log at its default verbosity: what happened to objects, each once, in fields that a machine can read.

use anyhow::{Context as _, ensure};
use capa_e2e::{Manager, Story};
use serde_json::Value;

use super::machines::{INLINE, text};
use super::scenario::{CORE, FASTER, OURS, run_story};

/// What only the debug forms of Rust contain.
const DEBUG_FORMS: [&str; 5] = ["Some(", "None", "Ok(", "Err(", " { "];

#[test]
fn the_default_log_tells_what_happened_each_once() -> anyhow::Result<()> {
    run_story(Story::new("told"), async |s| {
        let manager = s.new_manager().flag(FASTER).flag("-v=0");
        let manager = manager.flag("--logging-format=json").start().await?;
        s.corrected_cluster("dev").await?;
        s.machine("one", "dev", INLINE).await?;
        let ready = s.machine_ready("one").await?;
        let instance = text(&ready, "/spec/instanceID").to_owned();
        s.delete(CORE, "Machine", "one").await?;
        s.gone(OURS, "AWSMachine", &["one"]).await?;
        s.reconciles_without_a_write("dev", 3).await?;
        manager.stop().await?;

        let log = lines(&manager)?;
        let times = |expected: &[(&str, &str)]| {
            let has = |line: &&Value| expected.iter().all(|(field, value)| line[field] == *value);
            log.iter().filter(has).count()
        };
        let cluster = [("controller", "awscluster"), ("name", "dev")];
        let machine = [("controller", "awsmachine"), ("name", "one")];
        let broken = [("level", "WARN"), ("condition", "NetworkReady"), ("reason", "NotFound")];
        let mended = [("level", "INFO"), ("condition", "NetworkReady"), ("was", "NotFound")];
        for event in ["SuccessfulCreate", "SuccessfulTerminate"] {
            let told = [&machine[..], &[("event", event)]].concat();
            ensure!(times(&told) == 1, "{} lines have {told:?}: {log:#?}", times(&told));
        }
        // A busy computer may change a condition back and forth.
        for told in [
            [&cluster[..], &broken].concat(),
            [&cluster[..], &mended].concat(),
            [&machine[..], &[("condition", "Ready"), ("status", "True")]].concat(),
        ] {
            ensure!(times(&told) >= 1, "no line has {told:?}: {log:#?}");
        }
        let launched = log.iter().find(|line| line["event"] == "SuccessfulCreate");
        ensure!(launched.context("a launch")?["message"].to_string().contains(&instance), "{log:#?}");
        ensure!(log.len() < 40, "{} lines for one cluster and one machine: {log:#?}", log.len());
        ensure!(log.iter().all(|line| line["hint"].is_null()), "a permission is missing: {log:#?}");
        Ok(())
    })
}

/// The log as objects. Fails if a value has a debug form, or a duration is no number.
fn lines(manager: &Manager) -> anyhow::Result<Vec<Value>> {
    let mut lines = Vec::new();
    for line in manager.log()?.lines() {
        let parsed: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
        for (field, value) in parsed.as_object().context("an object")? {
            let shown = value.to_string();
            let form = DEBUG_FORMS.iter().find(|form| shown.contains(**form));
            ensure!(form.is_none(), "{field} has a debug form: {line}");
            ensure!(!field.ends_with("_seconds") || value.is_number(), "{field} is no number: {line}");
        }
        lines.push(parsed);
    }
    Ok(lines)
}
