//! The bootstrap data of a machine: the machine waits for it, and no other Secret is delivered to an instance.

use anyhow::ensure;
use capa_e2e::fixtures;
use serde_json::json;

use super::machines::{INLINE, machine};
use super::scenario::story;

#[test]
fn a_machine_waits_for_infrastructure_then_for_bootstrap_data() -> anyhow::Result<()> {
    story("waits", async |s| {
        let environment = &s.environment;
        environment.apply(&fixtures::cluster("dev", Some("AWSCluster"))).await?;
        environment.apply(&machine("patient", "dev", INLINE)).await?;
        let reason = "WaitingForClusterInfrastructure";
        let message = s.machine_condition_false("patient", "InstanceReady", reason).await?;
        assert!(message.contains("AWSCluster dev"), "{message}");
        assert!(environment.aws().manager_journal().is_empty());

        environment.apply(&s.unmanaged("dev", "")).await?;
        let reason = "WaitingForBootstrapData";
        let message = s.machine_condition_false("patient", "BootstrapDataReady", reason).await?;
        assert!(message.contains("Secret patient"), "{message}");
        assert!(s.launches().is_empty());

        environment.apply(&fixtures::bootstrap_secret("patient", "#cloud-config")).await?;
        s.machine_ready("patient").await?;
        s.assert_mutating(&[("RunInstances", 1)]);
        Ok(())
    })
}

#[test]
fn only_bootstrap_data_is_delivered_to_instances() -> anyhow::Result<()> {
    story("no-bootstrap-data", async |s| {
        s.cluster("dev").await?;
        let secret = |name: &str, kind: &str| {
            fixtures::bootstrap_secret(name, "#cloud-config").replace("cluster.x-k8s.io/secret", kind)
        };
        s.apply(&secret("dev-kubeconfig", "cluster.x-k8s.io/secret")).await?;
        s.apply(&secret("application", "Opaque")).await?;
        for (name, data, reason, says) in [
            ("thief", "dev-kubeconfig", "NotAllowed", "it is the kubeconfig of a cluster"),
            ("maker", "application", "NotAllowed", "infrastructure.cluster.x-k8s.io/bootstrap-data"),
            ("walker", "../../kube-system/secrets/x", "InvalidSpec", "../../kube-system/secrets/x"),
        ] {
            let yaml = machine(name, "dev", INLINE);
            let named = format!("{{dataSecretName: {name}}}");
            s.apply(&yaml.replace(&named, &format!("{{dataSecretName: \"{data}\"}}"))).await?;
            let message = s.machine_condition_false(name, "BootstrapDataReady", reason).await?;
            ensure!(message.contains(says), "{message}");
        }
        assert!(s.launches().is_empty());
        let log = s.manager().log()?;
        let has_condition = |line: &&str| line.contains("BootstrapDataReady is False") || line.contains(" why=\"");
        let mut others = log.lines().filter(|line| !has_condition(line));
        let request = others.find(|line| line.contains("read Secret") || line.contains("kube-system/secrets"));
        assert_eq!(request, None, "a request was made");

        // Whoever wrote the Secret says what it is for.
        let label = json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/bootstrap-data": "true"}}});
        s.patch("v1", "Secret", "application", label).await?;
        s.machine_ready("maker").await?;
        s.assert_mutating(&[("RunInstances", 1)]);
        Ok(())
    })
}
