//! Whole clusters under infrastructure that objects of other controllers describe, or nothing.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::whole::{KubeadmCluster, PORT, whole_clusters};
use crate::stories::foreign_kind::Kind;
use crate::stories::machines::text;
use crate::stories::scenario::{OURS, REGION, Scenario};
use crate::stories::sources::{FOR_CORE, FOR_US, ack, apply_with_status, definition};

/// An object of a foreign infrastructure kind with the endpoint of a cluster, and the line of the Cluster that names
/// it.
async fn foreign_infrastructure(
    cluster: &KubeadmCluster<'_>,
    kind: &Kind,
    mut spec: Value,
    mut status: Value,
) -> anyhow::Result<String> {
    let KubeadmCluster {
        scenario, name, host, ..
    } = cluster;
    scenario.apply(&definition(kind)).await?;
    let for_core = kind.readable_by(FOR_CORE, "[get, list, watch, patch, update, delete]");
    scenario.apply(&for_core).await?;
    spec["controlPlaneEndpoint"] = json!({"host": host, "port": PORT});
    status["initialization"] = json!({"provisioned": true});
    let zones = scenario.network.zones.iter();
    status["failureDomains"] = zones
        .map(|zone| json!({"name": zone.name, "controlPlane": true}))
        .collect();
    apply_with_status(scenario, &kind.api_version(), &kind.name, name, spec, status).await?;
    let Kind { group, name: kind } = kind;
    Ok(format!(
        "infrastructureRef: {{apiGroup: {group}, kind: {kind}, name: {name}}}"
    ))
}

/// The line of a machine's spec that names the cluster's target group.
fn targets(cluster: &KubeadmCluster<'_>) -> String {
    let group = cluster.target_group.as_deref().unwrap_or_default();
    format!("      controlPlaneTargets: [{{targetGroupARN: '{group}'}}]")
}

/// Brings a cluster of one control plane machine and one worker up, checks where their networks came from, and deletes
/// the cluster.
async fn lives_and_dies(
    cluster: &KubeadmCluster<'_>,
    reference: &str,
    [control_plane, workers]: [&str; 2],
    subnets_from: &str,
) -> anyhow::Result<()> {
    cluster.control_plane_on(1, reference, control_plane).await?;
    cluster.workers_on(1, workers).await?;
    cluster.ready(1, 1).await?;
    for machine in cluster.scenario.machines().await? {
        assert_eq!(text(&machine, "/status/network/sources/subnets"), subnets_from);
    }
    cluster.delete().await
}

/// The private subnets of the scenario.
fn subnets(scenario: &Scenario) -> Value {
    let zones = scenario.network.zones.iter();
    zones
        .map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name}))
        .collect()
}

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_lives_under_a_composite_with_a_mapping() -> anyhow::Result<()> {
        whole_clusters("composite", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            let kind = Kind::new("composite.example.org", "XAWSNetwork");
            let mapping = format!(
                "
apiVersion: {OURS}
kind: AWSNetworkMapping
metadata: {{name: xawsnetwork.composite.example.org}}
spec:
  source: {{apiGroup: composite.example.org, kind: XAWSNetwork}}
  authority: Allowed
  readyWhen: \"self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')\"
  fields:
    region: self.spec.region
    vpc: {{id: self.status.vpcId}}
    subnets: \"self.status.subnets.map(s, {{'id': s.id, 'availabilityZone': s.zone}})\"
    securityGroups: {{all: '[self.status.groups.node]', controlPlane: '[self.status.groups.controlPlane]'}}
    controlPlaneTargets: \"[{{'targetGroupARN': self.status.apiTargetGroupArn}}]\"
"
            );
            s.apply(&mapping).await?;
            let zones = s.network.zones.iter();
            let subnets: Value = zones
                .map(|zone| json!({"id": zone.private_subnet_id, "zone": zone.name}))
                .collect();
            let status = json!({
                "conditions": [{"type": "Ready", "status": "True"}],
                "vpcId": s.network.vpc_id,
                "subnets": subnets,
                "groups": {
                    "node": s.network.node_security_group_id,
                    "controlPlane": s.network.control_plane_security_group_id,
                },
                "apiTargetGroupArn": cluster.target_group,
            });
            let reference = foreign_infrastructure(&cluster, &kind, json!({"region": REGION}), status).await?;
            s.apply(&kind.readable_by(FOR_US, "[get]")).await?;
            lives_and_dies(&cluster, &reference, ["", ""], "XAWSNetwork/dev").await?;
            s.delete(OURS, "AWSNetworkMapping", "xawsnetwork.composite.example.org")
                .await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn a_cluster_lives_on_ack_objects() -> anyhow::Result<()> {
        whole_clusters("ack-cluster", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            let kind = Kind::new("stack.example.org", "AckStack");
            let reference = foreign_infrastructure(&cluster, &kind, json!({}), json!({})).await?;
            ack::network(s).await?;
            let sources = ack::SOURCES;
            let control_plane = format!("{sources}\n{}", targets(&cluster));
            let machines = [control_plane.as_str(), sources];
            lives_and_dies(&cluster, &reference, machines, ack::SUBNETS).await?;
            kind.forget(s).await
        })
    }

    #[test]
    fn a_cluster_lives_without_an_infrastructure_object() -> anyhow::Result<()> {
        whole_clusters("no-infrastructure", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            let endpoint = format!("controlPlaneEndpoint: {{host: {}, port: {PORT}}}", cluster.host);
            let network = json!({
                "region": REGION, "subnets": subnets(s),
                "securityGroups": {"all": [s.network.node_security_group_id]},
            });
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "network"},
                "data": {"network.yaml": network.to_string()},
            });
            s.apply(&map.to_string()).await?;
            let sources = "      networkSources: [{kind: ConfigMap, name: network}]";
            let control_plane = format!("{sources}\n{}", targets(&cluster));
            lives_and_dies(&cluster, &endpoint, [&control_plane, sources], "ConfigMap/network").await
        })
    }

    #[test]
    fn a_cluster_lives_on_an_awscluster_of_another_controller() -> anyhow::Result<()> {
        for (name, status_of) in [
            ("managed-by-ours", publishes_contract as fn(&Scenario) -> Value),
            ("managed-by-capa", publishes_capa_shape),
        ] {
            whole_clusters(name, async |s| {
                let cluster = s.kubeadm_cluster("dev").await?;
                let yaml = cluster.infrastructure().replace("  unmanaged: true\n", "");
                let yaml = yaml.replace(
                    "metadata: {name: dev}",
                    "metadata: {name: dev, annotations: {cluster.x-k8s.io/managed-by: terraform}}",
                );
                s.apply(&yaml).await?;
                let api = s.api(OURS, "AWSCluster").await?;
                let mut status = status_of(s);
                status["initialization"] = json!({"provisioned": true});
                let patch = Patch::Merge(json!({"status": status}));
                api.patch_status("dev", &PatchParams::default(), &patch).await?;
                let reference = format!(
                    "infrastructureRef: {{apiGroup: {}, kind: AWSCluster, name: dev}}",
                    OURS.split('/').next().unwrap_or_default()
                );
                lives_and_dies(&cluster, &reference, ["", ""], "AWSCluster/dev").await
            })?;
        }
        Ok(())
    }

    #[test]
    fn a_cluster_lives_on_a_network_that_is_found_by_its_tags() -> anyhow::Result<()> {
        whole_clusters("discovery", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            let mut tags = vec![
                (&s.network.vpc_id, "cluster", "dev"),
                (&s.network.node_security_group_id, "role", "node"),
                (&s.network.control_plane_security_group_id, "role", "control-plane"),
            ];
            tags.extend(
                s.network
                    .zones
                    .iter()
                    .map(|zone| (&zone.private_subnet_id, "tier", "private")),
            );
            for (id, key, value) in &tags {
                s.user.tag(id, key, value).await?;
            }
            let group = cluster.target_group.as_deref().unwrap_or_default();
            s.user.tag_target_group(group, "role", "api").await?;
            let by = |key: &str, value: &str| json!({"filters": [{"name": format!("tag:{key}"), "values": [value]}]});
            let aws_cluster = json!({
                "apiVersion": OURS, "kind": "AWSCluster", "metadata": {"name": "dev"},
                "spec": {
                    "region": REGION, "unmanaged": true,
                    "controlPlaneEndpoint": {"host": cluster.host, "port": PORT},
                    "discovery": {
                        "vpc": by("cluster", "dev"),
                        "subnets": [by("tier", "private")],
                        "securityGroups": {"all": by("role", "node"), "controlPlane": by("role", "control-plane")},
                        "controlPlaneTargets": {"tags": {"role": "api"}},
                    },
                },
            });
            s.apply(&aws_cluster.to_string()).await?;
            let (group, _) = OURS.split_once('/').unwrap_or_default();
            let reference = format!("infrastructureRef: {{apiGroup: {group}, kind: AWSCluster, name: dev}}");
            lives_and_dies(&cluster, &reference, ["", ""], "AWSCluster/dev").await?;
            for (id, key, _) in tags {
                s.user.untag(id, key).await?;
            }
            Ok(())
        })
    }

    /// A status as a controller writes it that knows the network contract.
    fn publishes_contract(s: &Scenario) -> Value {
        json!({"network": {
            "region": REGION, "subnets": subnets(s),
            "securityGroups": {"all": [s.network.node_security_group_id]},
        }})
    }

    /// A status as the Go provider writes it.
    fn publishes_capa_shape(s: &Scenario) -> Value {
        json!({"networkStatus": {"securityGroups": {
            "node": {"id": s.network.node_security_group_id, "name": "node"},
            "controlplane": {"id": s.network.control_plane_security_group_id, "name": "controlplane"},
        }}})
    }

    #[test]
    fn a_cluster_lives_on_terraform_outputs_under_a_foreign_kind() -> anyhow::Result<()> {
        whole_clusters("terraform", async |s| {
            let cluster = s.kubeadm_cluster("dev").await?;
            let kind = Kind::new("terraform.example.org", "StackCluster");
            let reference = foreign_infrastructure(&cluster, &kind, json!({}), json!({})).await?;
            let groups = json!({
                "all": [s.network.node_security_group_id], "controlPlane": [s.network.control_plane_security_group_id],
            });
            let outputs = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "outputs", "labels": {"infrastructure.cluster.x-k8s.io/network-source": "true"}},
                "stringData": {
                    "region": REGION, "region__type": "string",
                    "subnets": subnets(s).to_string(), "subnets__type": "list",
                    "securityGroups": groups.to_string(),
                },
            });
            s.apply(&outputs.to_string()).await?;
            let sources = "      networkSources: [{kind: Secret, name: outputs}]";
            let control_plane = format!("{sources}\n{}", targets(&cluster));
            lives_and_dies(&cluster, &reference, [&control_plane, sources], "Secret/outputs").await?;
            kind.forget(s).await
        })
    }
}
