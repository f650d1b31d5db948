//! AWSNetworkMappings of an administrator.

use capa_e2e::fixtures;
use kube::api::DeleteParams;
use serde_json::json;

use super::super::foreign_kind::{Kind, network};
use super::super::machines::{self, INLINE, text};
use super::super::scenario::{CORE, OURS, Scenario, story};
use super::{FOR_CORE, FOR_US, apply_with_status, definition, machine};

/// A mapping of a kind with the shape of a Crossplane composite.
fn mapping(name: &str, kind: &Kind, subnets: &str) -> String {
    format!(
        "
apiVersion: {OURS}
kind: AWSNetworkMapping
metadata: {{name: {name}}}
spec:
  source: {{apiGroup: {}, kind: {}}}
  readyWhen: \"self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')\"
  fields:
    region: self.spec.region
    subnets: {subnets}
    securityGroups: {{all: '[self.status.nodeGroup]'}}
",
        kind.group, kind.name
    )
}

const SUBNETS: &str = "\"self.status.subnets.map(s, {'id': s.id, 'availabilityZone': s.zone})\"";

async fn forget(scenario: &Scenario, names: &[&str]) -> anyhow::Result<()> {
    let api = scenario.api(OURS, "AWSNetworkMapping").await?;
    for name in names {
        api.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

#[test]
fn a_mapping_turns_a_composite_into_a_network() -> anyhow::Result<()> {
    story("mapping", async |s| {
        let kind = Kind::new("composite.example.org", "XAWSNetwork");
        s.apply(&definition(&kind)).await?;
        s.apply(&kind.readable_by(FOR_CORE, "[get, list, watch, patch, update]")).await?;
        s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
        let zone = s.network.zones.last().expect("a zone");
        let published = network(s);
        let status = |ready: &str| {
            json!({
                "subnets": [{"id": zone.private_subnet_id, "zone": zone.name}],
                "nodeGroup": s.network.node_security_group_id,
                "conditions": [{"type": "Ready", "status": ready}],
                "initialization": {"provisioned": true},
            })
        };
        kind.cluster(s, "dev", status("False")).await?;
        s.patch(&kind.api_version(), &kind.name, "dev", json!({"spec": {"region": published["region"]}})).await?;
        let own = "xawsnetwork.composite.example.org";
        // An invalid expression says which one, on the mapping and on the machine.
        s.apply(&mapping(own, &kind, "self.status.")).await?;
        s.machine("composed", "dev", INLINE).await?;
        let invalid = s.condition("AWSNetworkMapping", own, "Ready", "False", "InvalidExpression").await?;
        assert!(invalid.message.contains("spec.fields.subnets"), "{}", invalid.message);
        let message = s.machine_condition_false("composed", "NetworkReady", "NotReady").await?;
        assert!(message.contains(own), "{message}");

        s.apply(&mapping(own, &kind, SUBNETS)).await?;
        s.condition("AWSNetworkMapping", own, "Ready", "True", "Compiled").await?;
        let message = s.machine_condition_false("composed", "NetworkReady", "NotReady").await?;
        assert!(message.contains("readyWhen") || message.contains("XAWSNetwork/dev"), "{message}");
        assert!(s.launches().is_empty(), "{}", s.launches());

        kind.publish(s, "dev", status("True")).await?;
        let ready = s.machine_ready("composed").await?;
        assert_eq!(text(&ready, "/status/network/subnetID"), zone.private_subnet_id);
        assert_eq!(ready.data["status"]["network"]["sources"]["subnets"], "XAWSNetwork/dev");
        s.assert_mutating(&[("RunInstances", 1)]);
        forget(s, &[own]).await?;
        kind.forget(s).await
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn bootstrap_data_goes_to_the_bucket_that_a_mapping_names() -> anyhow::Result<()> {
        story("mapped-bucket", async |s| {
            let bucket = format!("boot-{}", s.namespace());
            s.user.create_bucket(&bucket).await?;
            let kind = Kind::new("bucket.example.org", "BucketNetwork");
            s.apply(&definition(&kind)).await?;
            s.apply(&kind.readable_by(FOR_CORE, "[get, list, watch, patch, update]")).await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            let own = "bucketnetwork.bucket.example.org";
            let storage = "    bootstrapStorage: \"{'s3': {'bucket': self.status.bucket}}\"\n  authority: Allowed\n";
            s.apply(&(mapping(own, &kind, SUBNETS) + storage)).await?;
            let zone = s.network.zones.last().expect("a zone");
            let status = json!({
                "subnets": [{"id": zone.private_subnet_id, "zone": zone.name}],
                "nodeGroup": s.network.node_security_group_id,
                "conditions": [{"type": "Ready", "status": "True"}],
                "initialization": {"provisioned": true},
                "bucket": bucket,
            });
            kind.cluster(s, "dev", status).await?;
            let region = json!({"spec": {"region": network(s)["region"]}});
            s.patch(&kind.api_version(), &kind.name, "dev", region).await?;

            let data = fixtures::bootstrap_secret("one", "{}");
            s.apply(&data.replace("format: cloud-config", "format: ignition")).await?;
            s.apply(&machines::machine("one", "dev", "publicIP: false")).await?;
            let ready = s.machine_ready("one").await?;
            let uid = ready.metadata.uid.unwrap_or_default();
            assert_eq!(s.user.objects(&bucket).await?, [format!("node/{uid}")]);
            s.delete(CORE, "Machine", "one").await?;
            s.gone(OURS, "AWSMachine", &["one"]).await?;
            assert_eq!(s.user.objects(&bucket).await?, [""; 0]);
            forget(s, &[own]).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn an_endless_expression_costs_its_own_machine_alone() -> anyhow::Result<()> {
        story("expression-bomb", async |s| {
            let kind = Kind::new("bomb.example.org", "BombNetwork");
            super::super::foreign_cluster(s, &kind, "dev").await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            let name = s.environment.namespace().to_owned();
            let bomb = "\"self.spec.many.map(a, self.spec.many.map(b, {'id': string(a) + string(b)}))[0]\"";
            s.apply(&mapping(&name, &kind, bomb)).await?;
            let many: Vec<usize> = (0..20_000).collect();
            let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            apply_with_status(s, &kind.api_version(), &kind.name, "bomb", json!({"many": many}), status).await?;
            let source = format!("{{apiGroup: {}, kind: {}, name: bomb, mapping: {name}}}", kind.group, kind.name);
            machine(s, "victim", "dev", &source).await?;
            let message = s.machine_condition_false("victim", "NetworkReady", "TooLarge").await?;
            assert!(message.contains("BombNetwork/bomb"), "{message}");

            s.cluster("healthy").await?;
            s.machine("healthy", "healthy", INLINE).await?;
            s.machine_ready("healthy").await?;
            s.assert_mutating(&[("RunInstances", 1)]);
            forget(s, &[&name]).await?;
            kind.forget(s).await
        })
    }
}
