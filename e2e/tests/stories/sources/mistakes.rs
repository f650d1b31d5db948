//! For each way of bringing infrastructure: what a machine says while the kind, the permission or a field is missing or
//! has the wrong type, that the machine is launched once the mistake is mended, and that the machine outlives the
//! objects that described its network.

use anyhow::{Context, ensure};
use capa_e2e::{eventually, fixtures};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::foreign_kind::{Kind, network};
use super::super::machines::{INLINE, condition_of, machine as machine_yaml, text};
use super::super::scenario::{CORE, OURS, REGION, Scenario, WITHIN, story};
use super::{FOR_CORE, FOR_US, ack, definition, foreign_cluster, machine};

/// The machine of each story.
const MACHINE: &str = "m";

/// Waits until the machine names this mistake. Nothing is launched.
async fn waits(s: &Scenario, reason: &str, part: &str) -> anyhow::Result<()> {
    let what = format!("the machine to wait for {reason} with {part:?}");
    eventually(WITHIN, &what, async || {
        let machine = s.get(OURS, "AWSMachine", MACHINE).await?;
        let found = condition_of(&machine, "NetworkReady")?;
        ensure!(
            found.status == "False" && found.reason == reason && found.message.contains(part),
            "the condition is {found:?}"
        );
        Ok(())
    })
    .await?;
    assert!(s.launches().is_empty(), "{}", s.launches());
    Ok(())
}

/// Checks that a machine whose sources are gone stays as it is, and can be deleted.
async fn outlives(s: &Scenario) -> anyhow::Result<()> {
    s.looked_again(MACHINE).await?;
    let ready = s.machine_ready(MACHINE).await?;
    s.begin_deletion(CORE, "Machine", MACHINE).await?;
    s.gone(OURS, "AWSMachine", &[MACHINE]).await?;
    assert!(s.has_terminated(text(&ready, "/spec/instanceID")));
    s.assert_mutating(&[("RunInstances", 1), ("TerminateInstances", 1)]);
    Ok(())
}

/// Merges a status into an object of a kind.
async fn publish(s: &Scenario, kind: &Kind, name: &str, status: Value) -> anyhow::Result<()> {
    let api = s.api(&kind.api_version(), &kind.name).await?;
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Deletes an object that the Cluster still names, whatever finalizers Cluster API has given it.
async fn take_away(s: &Scenario, kind: &Kind, name: &str) -> anyhow::Result<()> {
    let api = s.api(&kind.api_version(), &kind.name).await?;
    api.delete(name, &DeleteParams::default()).await?;
    let released = json!({"metadata": {"finalizers": null}});
    s.patch(&kind.api_version(), &kind.name, name, released).await.ok();
    s.gone(&kind.api_version(), &kind.name, &[name]).await
}

/// A ConfigMap or Secret with the network of the story as flat keys, of which some have other values.
fn values(s: &Scenario, kind: &str, name: &str, others: &[(&str, Option<&str>)]) -> String {
    let network = network(s);
    let mut data = json!({
        "region": REGION,
        "subnets": network["subnets"].to_string(),
        "securityGroups": network["securityGroups"].to_string(),
    });
    for (key, value) in others {
        data[key] = json!(value);
    }
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let labels = json!({"infrastructure.cluster.x-k8s.io/network-source": "true"});
    if let Some(data) = data.as_object_mut() {
        data.retain(|_, value| !value.is_null());
    }
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels}, field: data}).to_string()
}

/// A mapping of a composite.
fn mapping(kind: &Kind) -> String {
    let (group, name) = (&kind.group, &kind.name);
    format!(
        "
apiVersion: {OURS}
kind: AWSNetworkMapping
metadata: {{name: {}.{group}}}
spec:
  source: {{apiGroup: {group}, kind: {name}}}
  readyWhen: self.status.ready
  fields:
    region: self.spec.region
    subnets: \"self.status.subnets.map(s, {{'id': s.id, 'availabilityZone': s.zone}})\"
    securityGroups: {{all: '[self.status.nodeGroup]'}}
",
        name.to_lowercase()
    )
}

mod long_stories {
    use super::*;

    #[test]
    fn mistakes_without_an_infrastructure_object_are_named() -> anyhow::Result<()> {
        story("no-object-mistakes", async |s| {
            s.apply(&fixtures::cluster("dev", None)).await?;
            machine(s, MACHINE, "dev", "{kind: ConfigMap, name: network}").await?;
            waits(s, "NotFound", "ConfigMap/network").await?;
            let map = |others: &[(&str, Option<&str>)]| values(s, "ConfigMap", "network", others);
            s.apply(&map(&[("region", None)])).await?;
            waits(s, "MissingField", "region").await?;
            s.apply(&map(&[("securityGroups", Some("[hunter2]"))])).await?;
            waits(s, "WrongType", "securityGroups").await?;
            s.apply(&map(&[])).await?;
            s.machine_ready(MACHINE).await?;
            s.delete("v1", "ConfigMap", "network").await?;
            outlives(s).await
        })
    }

    #[test]
    fn mistakes_of_a_composite_are_named() -> anyhow::Result<()> {
        story("composite-mistakes", async |s| {
            let kind = Kind::new("mistaken.example.org", "XNetwork");
            let (group, name) = (&kind.group, &kind.name);
            // The kind is missing: Cluster API says so of the Cluster, for which the machine waits.
            let cluster = fixtures::cluster("dev", Some(name)).replace("infrastructure.cluster.x-k8s.io", group);
            s.apply(&cluster).await?;
            s.machine(MACHINE, "dev", INLINE).await?;
            s.machine_condition_false(MACHINE, "InstanceReady", "WaitingForClusterInfrastructure").await?;

            s.apply(&definition(&kind)).await?;
            s.apply(&mapping(&kind)).await?;
            let for_core = kind.readable_by(FOR_CORE, "[get, list, watch, patch, update, delete]");
            s.apply(&for_core).await?;
            kind.cluster(s, "dev", json!({"ready": false})).await?;
            waits(s, "Forbidden", "aggregate-to-capa-rs").await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            waits(s, "NotReady", "XNetwork/dev").await?;
            publish(s, &kind, "dev", json!({"ready": true})).await?;
            waits(s, "MissingField", "region").await?;
            s.patch(&kind.api_version(), name, "dev", json!({"spec": {"region": REGION}})).await?;
            let status = json!({"subnets": "hunter2", "nodeGroup": s.network.node_security_group_id});
            publish(s, &kind, "dev", status).await?;
            waits(s, "WrongType", "subnets").await?;
            let zone = s.network.zones.first().context("a zone")?;
            let subnets = json!({"subnets": [{"id": zone.private_subnet_id, "zone": zone.name}]});
            publish(s, &kind, "dev", subnets).await?;
            s.machine_ready(MACHINE).await?;

            take_away(s, &kind, "dev").await?;
            s.api(OURS, "AWSNetworkMapping")
                .await?
                .delete(&format!("{}.{group}", name.to_lowercase()), &DeleteParams::default())
                .await?;
            outlives(s).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn mistakes_of_terraform_outputs_are_named() -> anyhow::Result<()> {
        story("terraform-mistakes", async |s| {
            let kind = Kind::new("stack-mistakes.example.org", "MistakenStackCluster");
            foreign_cluster(s, &kind, "dev").await?;
            machine(s, MACHINE, "dev", "{kind: Secret, name: outputs}").await?;
            waits(s, "NotFound", "Secret/outputs").await?;
            let secret = |others: &[(&str, Option<&str>)]| values(s, "Secret", "outputs", others);
            // A Secret without the label is what a missing permission is for other kinds.
            s.apply(&secret(&[]).replace("\"true\"", "\"false\"")).await?;
            waits(s, "NotAllowed", "network-source").await?;
            s.delete("v1", "Secret", "outputs").await?;
            s.apply(&secret(&[("subnets", None)])).await?;
            waits(s, "MissingField", "subnets").await?;
            s.apply(&secret(&[("subnets", Some("hunter2"))])).await?;
            waits(s, "WrongType", "subnets").await?;
            s.apply(&secret(&[])).await?;
            s.machine_ready(MACHINE).await?;

            s.delete("v1", "Secret", "outputs").await?;
            take_away(s, &kind, "dev").await?;
            outlives(s).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn mistakes_of_a_hosted_cluster_are_named() -> anyhow::Result<()> {
        story("hosted-mistakes", async |s| {
            let kind = Kind::new("hosted-mistakes.example.org", "HostedThing");
            s.apply(&fixtures::cluster("dev", None)).await?;
            let source = format!("{{apiGroup: {}, kind: {}, name: guest}}", kind.group, kind.name);
            machine(s, MACHINE, "dev", &source).await?;
            waits(s, "NoKindMatch", "HostedThing in group hosted-mistakes.example.org").await?;
            s.apply(&definition(&kind)).await?;
            s.apply(&mapping(&kind)).await?;
            waits(s, "Forbidden", "aggregate-to-capa-rs").await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            waits(s, "NotFound", "HostedThing/guest").await?;
            let object = json!({
                "apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "guest"},
                "spec": {"region": 5},
            });
            s.apply(&object.to_string()).await?;
            waits(s, "NotReady", "HostedThing/guest").await?;
            let zone = s.network.zones.first().context("a zone")?;
            let status = json!({
                "ready": true, "nodeGroup": s.network.node_security_group_id,
                "subnets": [{"id": zone.private_subnet_id, "zone": zone.name}],
            });
            publish(s, &kind, "guest", status).await?;
            waits(s, "WrongType", "region").await?;
            s.patch(&kind.api_version(), &kind.name, "guest", json!({"spec": {"region": REGION}})).await?;
            s.machine_ready(MACHINE).await?;
            take_away(s, &kind, "guest").await?;
            outlives(s).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn mistakes_of_a_discovery_are_named() -> anyhow::Result<()> {
        story("discovery-mistakes", async |s| {
            let by = |value: &str| json!({"filters": [{"name": "tag:stack", "values": [value]}]});
            let aws_cluster = |vpc: &str| {
                json!({
                    "apiVersion": OURS, "kind": "AWSCluster", "metadata": {"name": "dev"},
                    "spec": {
                        "region": REGION, "unmanaged": true,
                        "discovery": {
                            "vpc": by(vpc),
                            "subnets": [by("dev")],
                            "securityGroups": {"all": by("dev")},
                        },
                    },
                })
                .to_string()
            };
            let zone = s.network.zones.first().context("a zone")?;
            s.user.tag(&s.network.vpc_id, "stack", "dev").await?;
            s.user.tag(&zone.private_subnet_id, "stack", "dev").await?;
            s.owned("dev", &aws_cluster("def")).await?;
            s.apply(&machine_yaml(MACHINE, "dev", INLINE)).await?;
            s.bootstrap_secret(MACHINE).await?;
            // A tag has another value.
            let message = s.await_condition("dev", "NetworkReady", "False", "NotFound").await?;
            assert!(message.contains("spec.discovery.vpc"), "{message}");
            waits(s, "MissingField", "status.network.subnets").await?;
            // The VPC is right, and no security group has the tag.
            s.apply(&aws_cluster("dev")).await?;
            eventually(WITHIN, "the security group to be missed", async || {
                let message = s.await_condition("dev", "NetworkReady", "False", "NotFound").await?;
                ensure!(message.contains("security group"), "{message}");
                Ok(())
            })
            .await?;
            assert!(s.launches().is_empty(), "{}", s.launches());
            s.user.tag(&s.network.node_security_group_id, "stack", "dev").await?;
            s.machine_ready(MACHINE).await?;

            // What the user calls its resources later says nothing about machines that run.
            s.user.untag(&s.network.node_security_group_id, "stack").await?;
            s.user.untag(&s.network.vpc_id, "stack").await?;
            let request = json!({"infrastructure.cluster.x-k8s.io/preflight-requested": "again"});
            s.change("dev", json!({"metadata": {"annotations": request}})).await?;
            s.await_condition("dev", "NetworkReady", "False", "NotFound").await?;
            outlives(s).await
        })
    }

    #[test]
    fn mistakes_of_ack_objects_are_named() -> anyhow::Result<()> {
        story("ack-mistakes", async |s| {
            let kind = Kind::new("ack-mistakes.example.org", "MistakenAckCluster");
            foreign_cluster(s, &kind, "dev").await?;
            // LoadBalancer is a kind of ACK that no other story installs.
            let balancer = Kind::new("elbv2.services.k8s.aws", "LoadBalancer");
            let source = format!("{{apiGroup: {}, kind: {}, name: api}}", balancer.group, balancer.name);
            ack::network(s).await?;
            machine(s, MACHINE, "dev", &format!("{source}, {}", ack::ENTRIES)).await?;
            waits(s, "NoKindMatch", "LoadBalancer in group elbv2.services.k8s.aws").await?;
            s.apply(&definition(&balancer)).await?;
            waits(s, "Forbidden", "aggregate-to-capa-rs").await?;
            s.apply(&balancer.readable_by(FOR_US, "[get]")).await?;
            waits(s, "NotFound", "LoadBalancer/api").await?;
            let put = async |synced: &str, vpc: Value| {
                ack::put(s, &balancer, "api", json!({}), ack::status(synced, json!({"vpcID": vpc}))).await
            };
            put("False", Value::Null).await?;
            waits(s, "NotReady", "ACK.ResourceSynced").await?;
            put("True", Value::Null).await?;
            waits(s, "NotReady", "status.vpcID").await?;
            put("True", json!(5)).await?;
            waits(s, "WrongType", "status.vpcID").await?;
            put("True", json!(s.network.vpc_id)).await?;
            s.machine_ready(MACHINE).await?;

            take_away(s, &balancer, "api").await?;
            for (kind, name) in [("SecurityGroup", "nodes"), ("Subnet", "private-eu-west-1a")] {
                s.delete("ec2.services.k8s.aws/v1alpha1", kind, name).await?;
            }
            outlives(s).await?;
            balancer.forget(s).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn mistakes_of_an_awscluster_of_another_controller_are_named() -> anyhow::Result<()> {
        story("managed-by-mistakes", async |s| {
            let yaml = s.unmanaged("dev", "").replace("  unmanaged: true\n", "");
            let yaml = yaml.replace(
                "metadata: {name: dev}",
                "metadata: {name: dev, annotations: {cluster.x-k8s.io/managed-by: terraform}}",
            );
            // Without group overrides, which count where the status has no groups.
            let lines = yaml.lines().filter(|line| !line.contains("securityGroupOverrides"));
            s.apply(&lines.collect::<Vec<_>>().join("\n")).await?;
            s.apply(&fixtures::cluster("dev", Some("AWSCluster"))).await?;
            let api = s.api(OURS, "AWSCluster").await?;
            let write = async |status: Value| {
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status("dev", &PatchParams::default(), &patch).await
            };
            write(json!({"initialization": {"provisioned": true}})).await?;
            s.infrastructure_provisioned("dev").await?;
            s.machine(MACHINE, "dev", INLINE).await?;
            waits(s, "NoSecurityGroup", "").await?;
            write(json!({"networkStatus": {"securityGroups": {"node": {"id": 5}}}})).await?;
            waits(s, "WrongType", "securityGroups").await?;
            write(json!({"networkStatus": {"securityGroups": {"node": {"id": s.network.node_security_group_id}}}}))
                .await?;
            s.machine_ready(MACHINE).await?;

            // The other controller has put no finalizer on it, and this provider puts none on what it does not
            // reconcile.
            s.delete(OURS, "AWSCluster", "dev").await?;
            outlives(s).await
        })
    }
}
