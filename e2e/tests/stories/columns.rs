//! What `kubectl get` shows of objects that the manager reconciles, read as a person reads it.

use anyhow::{Context as _, ensure};
use capa_e2e::{Story, eventually};
use serde_json::{Value, json};

use super::api::kubectl;
use super::machines::{INLINE, machine};
use super::scenario::{CORE, FASTER, Scenario, WITHIN, run_story, story};

const ROLE: &str = "arn:aws:iam::111122223333:role/a";

impl Scenario {
    /// Waits until the row of an object has these texts in these columns.
    async fn shows(&self, arguments: &[&str], name: &str, cells: &[(&str, &str)]) -> anyhow::Result<()> {
        let what = format!("kubectl get {arguments:?} to show {cells:?} of {name}");
        eventually(WITHIN, &what, async || {
            let table = kubectl(&self.environment, &[&["get"], arguments].concat())?;
            for (column, wanted) in cells {
                let shown = cell(&table, name, column).with_context(|| format!("no {column} of {name} in\n{table}"))?;
                let is_wanted = if *column == "MESSAGE" { shown.contains(wanted) } else { shown == *wanted };
                ensure!(is_wanted, "{column} is {shown} in\n{table}");
            }
            Ok(())
        })
        .await
    }
}

/// The text of a column in the row of an object. The columns begin where their titles begin.
fn cell<'a>(table: &'a str, name: &str, column: &str) -> Option<&'a str> {
    let mut lines = table.lines();
    let titles = lines.next()?;
    let row = lines.find(|line| line.split_whitespace().next() == Some(name))?;
    let begin = titles.match_indices(column).map(|(begin, _)| begin).find(|begin| {
        let (before, rest) = titles.split_at(*begin);
        (before.is_empty() || before.ends_with(' ')) && rest.split_whitespace().next() == Some(column)
    })?;
    let width = titles
        .get(begin..)?
        .split_once("   ")
        .map(|(title, rest)| title.len() + "   ".len() + rest.len() - rest.trim_start().len());
    let end = width.map_or(row.len(), |width| begin + width);
    Some(row.get(begin..end.min(row.len()))?.trim())
}

#[test]
fn kubectl_get_shows_reasons_messages_and_endpoints() -> anyhow::Result<()> {
    story("columns", async |s| {
        s.owned("dev", &s.unmanaged("dev", "")).await?;
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "api.dev.example", "port": 6443}}});
        s.patch(CORE, "Cluster", "dev", endpoint).await?;
        let cells = [
            ("CLUSTER", "dev"),
            ("READY", "True"),
            ("REASON", "Ready"),
            ("VPC", s.network.vpc_id.as_str()),
            ("ENDPOINT", "api.dev.example"),
        ];
        s.shows(&["awsclusters"], "dev", &cells).await?;
        let subnets = s.network.private_subnet_ids();
        let mut subnets: Vec<Value> = subnets.iter().map(|id| json!({"id": id})).collect();
        subnets.push(json!({"id": "subnet-00000000000000bad"}));
        s.change("dev", json!({"spec": {"network": {"subnets": subnets}}})).await?;
        let cells = [
            ("READY", "True"),
            ("REASON", "NotFound"),
            ("MESSAGE", "NetworkReady is False (NotFound): subnet subnet-00000000000000bad"),
        ];
        s.shows(&["awsclusters", "--output=wide"], "dev", &cells).await?;

        // The bootstrap Secret is missing.
        s.apply(&machine("waits", "dev", INLINE)).await?;
        let cells =
            [("CLUSTER", "dev"), ("READY", "False"), ("REASON", "WaitingForBootstrapData"), ("TYPE", "t3.large")];
        s.shows(&["awsmachines"], "waits", &cells).await?;
        let message = "the bootstrap Secret waits that the Machine names does not exist yet";
        s.shows(&["awsmachines", "--output=wide"], "waits", &[("MACHINE", "waits"), ("MESSAGE", message)]).await?;

        s.machine_deployment("workers", "dev", 0).await?;
        let cells = [("CLUSTER", "dev"), ("TYPE", "t3.large"), ("READY", "True"), ("REASON", "Ready")];
        s.shows(&["awsmachinetemplates"], "workers", &cells).await
    })
}

#[test]
fn kubectl_get_shows_whether_an_identity_is_complete() -> anyhow::Result<()> {
    story("identity-columns", async |s| {
        // Identities have no namespace, so the names must be unique to the test.
        let (key, role) = (format!("{}-key", s.namespace()), format!("{}-role", s.namespace()));
        let spec = format!("{{secretRef: {key}, allowedNamespaces: {{}}}}");
        s.identity("AWSClusterStaticIdentity", &key, &spec).await?;
        let spec = format!(
            "{{roleARN: \"{ROLE}\", allowedNamespaces: {{}}, \
             sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {key}}}}}"
        );
        s.identity("AWSClusterRoleIdentity", &role, &spec).await?;
        let (keys, roles) = (["awsclusterstaticidentities"], ["awsclusterroleidentities"]);
        s.shows(&keys, &key, &[("SECRET", &key), ("READY", "False"), ("REASON", "NotFound")]).await?;
        s.shows(&roles, &role, &[("ROLE", ROLE), ("READY", "False"), ("REASON", "NotFound")]).await?;
        s.identity_secret(&key, &s.aws().another_key()).await?;
        s.shows(&keys, &key, &[("READY", "True"), ("REASON", "Ready")]).await?;
        s.shows(&roles, &role, &[("READY", "True"), ("REASON", "Ready")]).await
    })
}

#[test]
fn a_cell_is_in_the_column_of_its_title() {
    let table = "NAME   READY   REASON     MESSAGE\ndev    False              two words\nother  True    Ready\n";
    assert_eq!(
        ["NAME", "READY", "REASON", "MESSAGE"].map(|column| cell(table, "dev", column)),
        [Some("dev"), Some("False"), Some(""), Some("two words")]
    );
    assert_eq!((cell(table, "other", "REASON"), cell(table, "other", "NONE")), (Some("Ready"), None));
}

mod long_stories {
    use super::*;

    /// Only a manager that reconciles all namespaces judges an identity by the objects that use it, so that this story
    /// has a world of its own.
    #[test]
    fn kubectl_get_shows_that_aws_refuses_an_identity() -> anyhow::Result<()> {
        run_story(Story::new("refused-identity").in_its_own_world(&[]), async |s| {
            s.new_manager().flag(FASTER).flag("--namespace=").start().await?;
            let (valid, revoked) = (s.aws().another_key(), s.aws().another_key());
            s.aws().revoke(&revoked.access_key_id);
            s.static_identity("team", "{}", &revoked).await?;
            s.owned_with_identity("dev", "AWSClusterStaticIdentity", "team").await?;
            let identities = ["awsclusterstaticidentities", "--output=wide"];
            let cluster = format!("AWSCluster {}/dev reports: ", s.namespace());
            s.shows(&identities, "team", &[("READY", "False"), ("REASON", "CredentialsFailed"), ("MESSAGE", &cluster)])
                .await?;
            s.identity_secret("team", &valid).await?;
            s.shows(&identities, "team", &[("READY", "True"), ("REASON", "Ready")]).await
        })
    }
}
