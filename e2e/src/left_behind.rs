//! The checks at the end of every test: the managers' leftovers show no secret, each of their conditions is documented,
//! and the published policy allows each of their AWS calls.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use capa_aws::iam_actions;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    aws_proxy::{Journal, SECRET_KEYS, Session},
    fixtures, planted, programs,
};

/// The secrets that no log, event, condition or call may show: the bootstrap data and the secret access keys of all
/// tests, and the credentials of the sessions of one test's account.
pub(crate) fn secrets(sessions: &[Session]) -> Vec<String> {
    let lasting = [fixtures::JOIN_TOKEN.to_owned(), SECRET_KEYS.to_owned()];
    lasting.into_iter().chain(sessions.iter().flat_map(Session::secrets)).collect()
}

/// Fails if a log in this folder, or one of these texts, shows one of the secrets.
pub(crate) fn ensure_secrets_are_kept<'a>(
    secrets: &[String],
    logs: &Path,
    texts: impl IntoIterator<Item = (&'a str, String)>,
) -> anyhow::Result<()> {
    let keeps = |name: &str, text: &[u8]| {
        let found = planted::found(text, secrets);
        ensure!(found.is_empty(), "{name} shows a secret: {found:?}");
        Ok(())
    };
    for entry in fs::read_dir(logs).with_context(|| format!("read {}", logs.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            keeps(&path.display().to_string(), &fs::read(&path)?)?;
        }
    }
    texts.into_iter().try_for_each(|(name, text)| keeps(name, text.as_bytes()))
}

/// Fails if a call is not in the table from which the IAM policies are generated.
pub(crate) fn ensure_calls_are_in_the_table(calls: &Journal) -> anyhow::Result<()> {
    for call in calls.calls() {
        ensure!(
            iam_actions::called(&call.service, &call.action).is_some(),
            "capa_aws::iam_actions::ACTIONS lacks this call of the manager: {call}"
        );
    }
    Ok(())
}

/// Fails if a check of infrastructure made a call that could change something.
pub(crate) fn ensure_checks_change_nothing(calls: &Journal) -> anyhow::Result<()> {
    for call in calls.mutating().calls() {
        let is_judged = call.parameters.get("DryRun").is_some_and(|value| value == "true");
        ensure!(is_judged, "a check made this call without DryRun=true: {call}");
    }
    Ok(())
}

/// Fails if a condition of one of the objects is not in `docs/conditions.md`.
pub(crate) fn ensure_conditions_are_explained(objects: &[DynamicObject]) -> anyhow::Result<()> {
    let path = programs::repository().join("docs/conditions.md");
    let document = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    for object in objects {
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        for condition in conditions.into_iter().flatten() {
            let [kind, reason] = ["type", "reason"].map(|field| condition.get(field).and_then(Value::as_str));
            let (kind, reason) = (kind.unwrap_or_default(), reason.unwrap_or_default());
            ensure!(
                explains(&document, kind, reason),
                "{} says {kind} {reason}, which docs/conditions.md does not explain",
                object.name_any()
            );
        }
    }
    Ok(())
}

/// Whether the section of the condition has a row for the reason. `Ready` repeats the reasons of the other conditions.
fn explains(document: &str, kind: &str, reason: &str) -> bool {
    let sections = document.split("\n### ").skip(1);
    let heading = format!("`{kind}`");
    let mut of_kind = sections.filter(|section| kind == "Ready" || section.lines().next() == Some(&heading));
    of_kind.any(|section| section.lines().any(|line| line.starts_with(&format!("| `{reason}` |"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_explained_under_its_own_condition_only() {
        let document =
            "# Conditions\n\n### `Paused`\n\n| `NotPaused` | a | b |\n\n### `Ready`\n\n| `Ready` | a | b |\n";
        assert!(explains(document, "Ready", "Ready"));
        assert!(explains(document, "Ready", "NotPaused"), "Ready repeats the reasons of the other conditions");
        assert!(explains(document, "Paused", "NotPaused"));
        assert!(!explains(document, "Paused", "Ready"));
        assert!(!explains(document, "Pause", "NotPaused"));
    }

    #[test]
    fn a_log_or_text_that_shows_a_secret_is_named_in_the_error() {
        let logs = tempfile::TempDir::new().unwrap();
        fs::write(logs.path().join("manager-1.log"), "fine").unwrap();
        ensure_secrets_are_kept(&secrets(&[]), logs.path(), [("the events", "fine".to_owned())]).unwrap();
        let shown =
            ensure_secrets_are_kept(&secrets(&[]), logs.path(), [("the events", format!("a {SECRET_KEYS}0001"))]);
        assert!(format!("{:#}", shown.unwrap_err()).contains("the events"));
        fs::write(logs.path().join("manager-2.log"), fixtures::user_data("")).unwrap();
        let logged = ensure_secrets_are_kept(&secrets(&[]), logs.path(), []).unwrap_err();
        assert!(format!("{logged:#}").contains("manager-2.log"), "{logged:#}");
    }
}
