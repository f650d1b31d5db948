//! The fields of an AWSCluster that machines use, whoever looks after the AWSCluster.

use capa_e2e::moto;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::images::publish;
use super::machines::{INLINE, machine, text};
use super::scenario::{OURS, REGION, Scenario, story};

/// The annotation of an AWSCluster that another controller manages.
const MANAGED_BY: &str = "annotations: {cluster.x-k8s.io/managed-by: terraform}";

impl Scenario {
    /// Writes the status of an AWSCluster as another controller does.
    async fn provisioned_by_another(&self, name: &str) -> anyhow::Result<()> {
        let api = self.api(OURS, "AWSCluster").await?;
        let status = json!({"status": {"ready": true, "initialization": {"provisioned": true}}});
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Applies an AWSCluster that is unmanaged or another controller's, and waits until its Cluster can be used.
    pub(super) async fn cluster_in_mode(&self, name: &str, is_unmanaged: bool, spec: &str) -> anyhow::Result<()> {
        let (mode, annotations) = if is_unmanaged { ("  unmanaged: true\n", "") } else { ("", MANAGED_BY) };
        let cluster = format!(
            "
apiVersion: {OURS}
kind: AWSCluster
metadata: {{name: {name}, {annotations}}}
spec:
  region: {REGION}
{mode}{spec}
"
        );
        self.owned(name, &cluster).await?;
        if !is_unmanaged {
            self.provisioned_by_another(name).await?;
        }
        self.infrastructure_provisioned(name).await
    }

    /// Applies a machine without an image.
    async fn machine_without_image(&self, name: &str, cluster: &str, labels: &str) -> anyhow::Result<()> {
        self.bootstrap_secret(name).await?;
        let unmarked = format!("kind: Machine\nmetadata: {{name: {name}}}");
        let marked = format!("kind: Machine\nmetadata: {{name: {name}, labels: {{{labels}}}}}");
        let yaml = machine(name, cluster, INLINE).replace(&format!("ami: {{id: {}}}, ", moto::IMAGE_ID), "");
        self.apply(&yaml.replace(&unmarked, &marked)).await
    }
}

#[test]
fn each_field_of_an_awscluster_reaches_its_machines() -> anyhow::Result<()> {
    story("cluster-fields", async |s| {
        let (network, user) = (&s.network, &s.user);
        let subnet = &network.zones[1];
        let (image, _) = publish(s, "acme-flatcar-v1.36.3-1").await?;
        user.ec2().create_key_pair().key_name("ops").send().await?;
        for is_unmanaged in [true, false] {
            let mode = if is_unmanaged { "unmanaged" } else { "managed-by" };
            let balancer = user.create_network_load_balancer(network, mode).await?;
            let spec = format!(
                "  controlPlaneEndpoint: {{host: {}, port: 6443}}
  controlPlaneLoadBalancer: {{name: {mode}, loadBalancerType: nlb}}
  additionalTags: {{team: payments}}
  sshKeyName: ops
  imageLookupFormat: 'acme-{{{{.BaseOS}}}}-v{{{{.K8sVersion}}}}-*'
  imageLookupBaseOS: flatcar
  imageLookupOrg: '{}'
  network:
    vpc: {{id: {}}}
    subnets: [{{id: {}, availabilityZone: {}}}]
    securityGroupOverrides: {{node: {}, controlplane: {}}}",
                balancer.dns_name,
                s.aws().id(),
                network.vpc_id,
                subnet.private_subnet_id,
                subnet.name,
                network.node_security_group_id,
                network.control_plane_security_group_id,
            );
            s.cluster_in_mode(mode, is_unmanaged, &spec).await?;
            let (worker, first) = (format!("{mode}-worker"), format!("{mode}-first"));
            s.machine_without_image(&worker, mode, "").await?;
            s.machine_without_image(&first, mode, "cluster.x-k8s.io/control-plane: ''").await?;
            let both = [&network.node_security_group_id, &network.control_plane_security_group_id];
            for (name, groups) in [(&worker, &both[..1]), (&first, &both[..])] {
                let ready = s.machine_ready(name).await?;
                let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
                assert_eq!(launch.parameter("ImageId"), Some(image.as_str()), "{mode}");
                assert_eq!(launch.parameter("KeyName"), Some("ops"), "{mode}");
                let interface = "NetworkInterface.1";
                let placed = launch.parameter(&format!("{interface}.SubnetId"));
                assert_eq!(placed, Some(subnet.private_subnet_id.as_str()), "{mode}");
                let attached = launch.values(&format!("{interface}.SecurityGroupId"));
                assert_eq!(attached, groups, "{mode}");
                assert_eq!(launch.tags("instance").get("team"), Some(&"payments"), "{mode}");
            }
            let ready = s.machine_ready(&first).await?;
            let registered = user.targets(&balancer.target_group_arn).await?;
            let expected = [(text(&ready, "/spec/instanceID").to_owned(), "healthy".to_owned())];
            assert_eq!(registered, expected, "{mode}");
        }
        Ok(())
    })
}

mod long_stories {
    use super::*;

    #[test]
    fn a_machine_with_its_own_subnet_needs_no_other_of_the_cluster() -> anyhow::Result<()> {
        story("own-subnet", async |s| {
            let network = &s.network;
            let (subnet, group) = (&network.zones[0].private_subnet_id, &network.node_security_group_id);
            for is_unmanaged in [true, false] {
                let name = if is_unmanaged { "unmanaged" } else { "managed-by" };
                let spec =
                    format!("  additionalTags: {{team: payments}}\n  network: {{vpc: {{id: {}}}}}", network.vpc_id);
                s.cluster_in_mode(name, is_unmanaged, &spec).await?;
                let own = format!("{INLINE}, subnet: {{id: {subnet}}}, additionalSecurityGroups: [{{id: {group}}}]");
                s.machine(name, name, &own).await?;
                let ready: DynamicObject = s.machine_ready(name).await?;
                let launch = s.launch_of(text(&ready, "/spec/instanceID"))?;
                assert_eq!(launch.tags("instance").get("team"), Some(&"payments"), "{name}");
                let placed = launch.parameter("NetworkInterface.1.SubnetId");
                assert_eq!(placed, Some(subnet.as_str()), "{name}");
            }
            Ok(())
        })
    }

    #[test]
    fn control_planes_join_both_load_balancers_of_another_controller() -> anyhow::Result<()> {
        story("two-balancers", async |s| {
            let (network, user) = (&s.network, &s.user);
            let internal = user.create_network_load_balancer(network, "dev-int").await?;
            let spec = format!(
                "
  controlPlaneLoadBalancer: {{name: dev-int, loadBalancerType: nlb, scheme: internal}}
  secondaryControlPlaneLoadBalancer: {{name: dev-ext, loadBalancerType: nlb, scheme: internet-facing}}
  network:
    subnets: [{{id: {}}}]
    securityGroupOverrides: {{node: {}}}",
                network.zones[0].private_subnet_id, network.node_security_group_id,
            );
            s.cluster_in_mode("dev", false, &spec).await?;
            s.control_plane_machine("first", "dev").await?;
            let message = s.machine_condition_false("first", "NetworkReady", "NotFound").await?;
            assert!(message.contains("load balancer dev-ext does not exist"), "{message}");
            assert!(s.launches().is_empty(), "{}", s.launches());

            let external = user.create_network_load_balancer(network, "dev-ext").await?;
            let ready = s.machine_ready("first").await?;
            let expected = [(text(&ready, "/spec/instanceID").to_owned(), "healthy".to_owned())];
            for balancer in [internal, external] {
                assert_eq!(user.targets(&balancer.target_group_arn).await?, expected);
            }
            Ok(())
        })
    }
}
