//! What `kubectl get` shows of objects that the manager reconciles, read as a person reads it.

use anyhow::{Context as _, ensure};
use capa_e2e::{Story, eventually};
use serde_json::{Value, json};

use super::api::kubectl;
use super::machines::{INLINE, machine};
use super::scenario::{CORE, FASTER, Scenario, WITHIN, run_story, story};

impl Scenario {
    /// Waits until these cells are in the row of an object.
    async fn shows(&self, arguments: &[&str], name: &str, cells: &[&str]) -> anyhow::Result<()> {
        let what = format!("kubectl get {arguments:?} to show {cells:?} of {name}");
        eventually(WITHIN, &what, async || {
            let table = kubectl(&self.environment, &[&["get"], arguments].concat())?;
            let row = table.lines().find(|line| line.split_whitespace().next() == Some(name));
            let row = row.with_context(|| format!("{name} is not in\n{table}"))?;
            ensure!(cells.iter().all(|cell| row.contains(cell)), "the table is\n{table}");
            Ok(())
        })
        .await
    }
}

#[test]
fn kubectl_get_shows_reasons_messages_and_endpoints() -> anyhow::Result<()> {
    story("columns", async |s| {
        s.owned("dev", &s.unmanaged("dev", "")).await?;
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "api.dev.example", "port": 6443}}});
        s.patch(CORE, "Cluster", "dev", endpoint).await?;
        let cells = [" dev ", " True ", " Ready ", &s.network.vpc_id, " api.dev.example "];
        s.shows(&["awsclusters"], "dev", &cells).await?;
        let subnets = s.network.private_subnet_ids();
        let mut subnets: Vec<Value> = subnets.iter().map(|id| json!({"id": id})).collect();
        subnets.push(json!({"id": "subnet-00000000000000bad"}));
        s.change("dev", json!({"spec": {"network": {"subnets": subnets}}})).await?;
        let cells = [" True ", " NotFound ", "NetworkReady is False (NotFound): subnet subnet-00000000000000bad"];
        s.shows(&["awsclusters", "--output=wide"], "dev", &cells).await?;

        // The bootstrap Secret is missing.
        s.apply(&machine("waits", "dev", INLINE)).await?;
        let cells = [" dev ", " False ", " WaitingForBootstrapData ", " t3.large "];
        s.shows(&["awsmachines"], "waits", &cells).await?;
        let message = "the bootstrap Secret waits that the Machine names does not exist yet";
        s.shows(&["awsmachines", "--output=wide"], "waits", &[" waits ", message]).await?;

        s.machine_deployment("workers", "dev", 0).await?;
        let cells = [" dev ", " t3.large ", " True ", " Ready "];
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
            "{{roleARN: \"arn:aws:iam::111122223333:role/a\", allowedNamespaces: {{}}, \
             sourceIdentityRef: {{kind: AWSClusterStaticIdentity, name: {key}}}}}"
        );
        s.identity("AWSClusterRoleIdentity", &role, &spec).await?;
        let (keys, roles) = (["awsclusterstaticidentities"], ["awsclusterroleidentities"]);
        s.shows(&keys, &key, &[&format!(" {key} "), " False ", " NotFound "]).await?;
        s.shows(&roles, &role, &[":role/a ", " False ", " NotFound "]).await?;
        s.identity_secret(&key, &s.aws().another_key()).await?;
        s.shows(&keys, &key, &[" True ", " Ready "]).await?;
        s.shows(&roles, &role, &[" True ", " Ready "]).await
    })
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
            s.shows(&identities, "team", &[" False ", " CredentialsFailed ", &cluster]).await?;
            s.identity_secret("team", &valid).await?;
            s.shows(&identities, "team", &[" True ", " Ready "]).await
        })
    }
}
