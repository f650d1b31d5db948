//! Specs as other tools write them, each with its right effect. docs/compatibility.md names these stories.

use capa_e2e::aws_proxy::{Call, digest};
use capa_e2e::{fixtures, moto};

use serde_json::json;

use super::foreign_kind::Kind;
use super::machines::{INLINE, machine, text};
use super::scenario::{OURS, Scenario, story};
use super::sources::{FOR_CORE, apply_with_status, definition};

impl Scenario {
    /// Applies a template with this spec, and a machine with the same spec; returns the call that launches the machine.
    async fn launched_as_written(&self, name: &str, spec: &str) -> anyhow::Result<Call> {
        let template = format!(
            "{{apiVersion: {OURS}, kind: AWSMachineTemplate, metadata: {{name: {name}}}, \
              spec: {{template: {{spec: {{instanceType: t3.large, ami: {{id: {}}}, {spec}}}}}}}}}",
            moto::IMAGE_ID
        );
        self.apply(&template).await?;
        self.bootstrap_secret(name).await?;
        self.apply(&machine(name, "dev", spec)).await?;
        let ready = self.machine_ready(name).await?;
        self.launch_of(text(&ready, "/spec/instanceID"))
    }
}

#[test]
fn a_secret_of_ranchers_bootstrap_object_is_delivered() -> anyhow::Result<()> {
    story("rancher", async |s| {
        s.cluster("dev").await?;
        let kind = Kind::new("rke.cattle.io", "RKEBootstrap");
        s.apply(&definition(&kind)).await?;
        s.apply(&kind.readable_by(FOR_CORE, "[get, list, watch, patch, update]")).await?;
        let done = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "rancher"});
        apply_with_status(s, &kind.api_version(), &kind.name, "rancher", json!({}), done).await?;
        let owner = s.get(&kind.api_version(), &kind.name, "rancher").await?;
        let secret = |name: &str, type_: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": type_,
                "metadata": {"name": name, "ownerReferences": [{
                    "apiVersion": kind.api_version(), "kind": kind.name, "name": "rancher", "uid": owner.metadata.uid,
                }]},
                "stringData": {"value": fixtures::user_data("#!/bin/sh\necho install the agent")},
            })
        };
        s.apply(&secret("rancher", "rke.cattle.io/bootstrap").to_string()).await?;
        s.apply(&secret("plan", "rke.cattle.io/machine-plan").to_string()).await?;
        let machine = |name: &str| {
            let yaml = machine(name, "dev", INLINE);
            let reference = format!("configRef: {{apiGroup: {}, kind: {}, name: rancher}}", kind.group, kind.name);
            let named = format!("{{dataSecretName: {name}}}");
            yaml.replace(&named, &format!("{{{reference}, dataSecretName: {name}}}"))
        };
        s.apply(&machine("plan")).await?;
        s.machine_condition_false("plan", "BootstrapDataReady", "NotAllowed").await?;
        s.apply(&machine("rancher")).await?;
        let ready = s.machine_ready("rancher").await?;
        let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
        let sent = fixtures::user_data("#!/bin/sh\necho install the agent");
        assert_eq!(launch.parameter("UserData"), Some(digest(sent.as_bytes()).as_str()));
        kind.forget(s).await
    })
}

/// HyperShift gives the Secrets of a NodePool neither an owner nor a type, and names no format of its Ignition data.
#[test]
fn user_data_of_a_node_pool_of_hypershift_is_sent_as_it_is() -> anyhow::Result<()> {
    story("nodepool", async |s| {
        s.cluster("dev").await?;
        let ignition = r#"{"ignition":{"version":"3.2.0"}}"#;
        for name in ["user-data-pool-4f1c", "token-pool-4f1c"] {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": name, "annotations": {"hypershift.openshift.io/nodePool": "clusters/pool"}},
                "stringData": {"disableTemplating": "dHJ1ZQ==", "value": fixtures::user_data(ignition)},
            });
            s.apply(&secret.to_string()).await?;
            s.apply(&machine(name, "dev", &format!("{INLINE}, uncompressedUserData: true"))).await?;
        }
        let ready = s.machine_ready("user-data-pool-4f1c").await?;
        let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
        let sent = fixtures::user_data(ignition);
        assert_eq!(launch.parameter("UserData"), Some(digest(sent.as_bytes()).as_str()));
        s.machine_condition_false("token-pool-4f1c", "BootstrapDataReady", "NotAllowed").await?;
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn data_for_windows_is_sent_as_it_is() -> anyhow::Result<()> {
        story("windows", async |s| {
            s.cluster("dev").await?;
            let script = "<powershell>\nJoin-Cluster\n</powershell>\n<persist>true</persist>";
            let secret = fixtures::bootstrap_secret("windows", script).replace("cloud-config", "powershell-xml");
            s.apply(&secret).await?;
            // Without cloudInit the data would go through Secrets Manager, whose script is for bash.
            s.apply(&machine("windows", "dev", "uncompressedUserData: true")).await?;
            let ready = s.machine_ready("windows").await?;
            let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
            let sent = fixtures::user_data(script);
            assert_eq!(launch.parameter("UserData"), Some(digest(sent.as_bytes()).as_str()));
            Ok(())
        })
    }

    #[test]
    fn values_that_ask_for_what_happens_anyway_are_accepted() -> anyhow::Result<()> {
        story("redundant", async |s| {
            let own = "kubernetes.io/cluster/dev";
            let tags = format!("  additionalTags: {{{own}: owned}}");
            s.owned("dev", &s.unmanaged("dev", &tags)).await?;
            s.infrastructure_provisioned("dev").await?;

            // Each template of HyperShift names a backend beside inline data.
            let launch = s
                .launched_as_written(
                    "hypershift",
                    &format!(
                        "cloudInit: {{insecureSkipSecretsManager: true, secureSecretsBackend: secrets-manager}}, \
                         uncompressedUserData: true, subnet: {{id: {}}}, additionalSecurityGroups: [{{id: {}}}], \
                         rootVolume: {{size: 120, type: gp3}}, \
                         instanceMetadataOptions: {{httpEndpoint: enabled, httpTokens: optional, \
                         httpPutResponseHopLimit: 2, instanceMetadataTags: disabled}}",
                        s.network.zones[0].private_subnet_id, s.network.node_security_group_id,
                    ),
                )
                .await?;
            assert!(launch.parameter("UserData").is_some(), "{launch:?}");
            let calls = s.aws().manager_journal();
            assert!(calls.of("CreateSecret").is_empty(), "{calls}");

            // OpenShift writes the own tag of the cluster, and zero for what it does not set.
            let launch = s
                .launched_as_written(
                    "openshift",
                    &format!(
                        "cloudInit: {{insecureSkipSecretsManager: true}}, additionalTags: {{{own}: owned, Name: \
                         openshift}}, rootVolume: {{size: 120, type: gp3, iops: 0, throughput: 0, encrypted: true}}, \
                         nonRootVolumes: [{{deviceName: /dev/sdf, size: 50, type: '', iops: 0}}]"
                    ),
                )
                .await?;
            assert_eq!(launch.tags("instance").get(own), Some(&"owned"));
            let volume =
                |number: u8, field: &str| launch.parameter(&format!("BlockDeviceMapping.{number}.Ebs.{field}"));
            assert_eq!(volume(1, "VolumeType"), Some("gp3"));
            assert_eq!(volume(2, "VolumeSize"), Some("50"));
            for (number, field) in [(1, "Iops"), (1, "Throughput"), (2, "Iops"), (2, "VolumeType")] {
                assert_eq!(volume(number, field), None, "{field} of volume {number}");
            }
            Ok(())
        })
    }
}
