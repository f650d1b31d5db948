//! `capa-rs check member`: whether an API server can be a member of a fleet engine.

use anyhow::{Context, ensure};
use capa_e2e::ProviderCommand;
use serde_json::{Value, json};

use super::scenario::{Scenario, story};

/// The rules about what a busy computer and stories beside this one change at any time: whether all groups are served,
/// when a watch reports a change, and how long requests take.
const VARYING: [&str; 3] = ["A5", "A7", "A8"];

#[test]
fn a_check_says_whether_an_api_server_can_be_a_member() -> anyhow::Result<()> {
    story("member-checks", async |s| {
        let admin = std::fs::read_to_string(s.environment.world().admin_kubeconfig())?;
        let admin: Value = serde_json::from_str(&admin)?;
        // The world has no nodes, and is newer than Karmada's tests.
        let found = findings(s, &admin)?.into_iter().filter(|rule| !VARYING.contains(&rule.as_str()));
        assert_eq!(found.collect::<Vec<_>>(), ["P2", "P5"]);

        let mut nobody = admin.clone();
        nobody["users"][0]["user"] = json!({"token": "of-nobody"});
        let found = findings(s, &nobody)?;
        ensure!(found.contains(&"A3".to_owned()), "{found:?}");

        let mut anonymous = admin.clone();
        anonymous["users"][0]["user"] = json!({});
        let found = findings(s, &anonymous)?;
        for rule in ["A6", "A7", "A10", "P4"] {
            ensure!(found.contains(&rule.to_owned()), "{rule} is not among {found:?}");
        }

        let mut elsewhere = admin.clone();
        elsewhere["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
        assert_eq!(findings(s, &elsewhere)?, ["A2"]);

        // A certificate of another authority: that of a user is one.
        let mut distrusted = admin.clone();
        let other = distrusted["users"][0]["user"]["client-certificate-data"].clone();
        distrusted["clusters"][0]["cluster"]["certificate-authority-data"] = other;
        assert_eq!(findings(s, &distrusted)?, ["A2"]);

        s.apply(&format!(
            "{{apiVersion: v1, kind: ServiceAccount, metadata: {{name: reader, namespace: {}}}}}",
            s.namespace()
        ))
        .await?;
        let tokens = s.environment.world().service_account(s.namespace(), "reader").await?;
        let found = findings(s, &serde_json::from_str(&tokens)?)?;
        for rule in ["P3", "W2"] {
            ensure!(found.contains(&rule.to_owned()), "{rule} is not among {found:?}");
        }

        let text = check(s, &admin, &["--only", "A4", "-v"])?;
        ensure!(text.code == 0 && text.printed.contains("√ A4"), "{}", text.printed);
        Ok(())
    })
}

fn check(s: &Scenario, kubeconfig: &Value, more: &[&str]) -> anyhow::Result<capa_e2e::ProviderOutput> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), kubeconfig.to_string())?;
    let path = file.path().to_str().context("a path")?;
    ProviderCommand::new(s.aws(), &[&["check", "member", path], more].concat())?.run("")
}

/// The rules that the API server of a kubeconfig breaks.
fn findings(s: &Scenario, kubeconfig: &Value) -> anyhow::Result<Vec<String>> {
    let checked = check(s, kubeconfig, &["-o", "json"])?;
    ensure!(checked.code == 1, "{}: {}{}", checked.code, checked.printed, checked.errors);
    let report: Value = serde_json::from_str(&checked.printed)?;
    let findings = report["findings"].as_array().context("findings")?;
    for finding in findings {
        ensure!(!finding["fix"].as_str().unwrap_or_default().is_empty(), "{finding}");
    }
    Ok(findings.iter().map(|finding| finding["rule"].as_str().unwrap_or_default().to_owned()).collect())
}
