//! Flavors of this provider's templates, with the part of the tool that makes and describes the infrastructure of their
//! clusters: Terraform, Crossplane, ACK, or another controller.

use std::path::Path;

use anyhow::{Context, bail};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::fixtures;
use crate::programs;
use crate::user::{LoadBalancer, Network, User};

/// The group of this provider's kinds, with their version.
const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// The foreign infrastructure kind of the flavor `terraform`.
const FOREIGN: (&str, &str) = ("stacks.example.org", "Stack");
/// The port of API servers.
const PORT: u16 = 6443;

/// A flavor of this provider's templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// An unmanaged AWSCluster with ids, and machines that are replaced when their nodes are unhealthy.
    UnmanagedMachineHealthCheck,
    /// An unmanaged AWSCluster whose network is found by tags.
    UnmanagedDiscovery,
    /// An AWSCluster whose status another controller writes.
    ManagedBy,
    /// No infrastructure object.
    NoInfrastructureObject,
    /// Outputs of Terraform, under an infrastructure object of another provider.
    Terraform,
    /// A composite of Crossplane.
    Crossplane,
    /// Objects of AWS Controllers for Kubernetes.
    Ack,
    /// An AWSCluster whose network the provider creates.
    Managed,
}

/// What a user brings for one cluster.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "the environment of a test has none")]
pub struct Brought<'a> {
    /// Where the cluster's objects are.
    pub environment: &'a TestEnvironment,
    /// The user's access to AWS.
    pub user: &'a User,
    /// The network in AWS.
    pub network: &'a Network,
    /// The load balancer of the API server.
    pub load_balancer: &'a LoadBalancer,
    /// The name of the cluster.
    pub cluster: &'a str,
}

impl Flavor {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::UnmanagedMachineHealthCheck,
        Self::UnmanagedDiscovery,
        Self::ManagedBy,
        Self::NoInfrastructureObject,
        Self::Terraform,
        Self::Crossplane,
        Self::Ack,
        Self::Managed,
    ];

    /// The flavor with this name.
    ///
    /// # Errors
    /// No flavor has the name. The error lists all.
    pub fn parse(name: &str) -> anyhow::Result<Self> {
        let mut all = Self::ALL.into_iter();
        let Some(flavor) = all.find(|flavor| flavor.name() == name) else {
            let names: Vec<&str> = Self::ALL.iter().map(|flavor| flavor.name()).collect();
            bail!("FLAVOR={name}: want one of {}", names.join(", "));
        };
        Ok(flavor)
    }

    /// The name for `clusterctl generate cluster --flavor`.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnmanagedMachineHealthCheck => "unmanaged-machine-health-check",
            Self::UnmanagedDiscovery => "unmanaged-discovery",
            Self::ManagedBy => "managed-by",
            Self::NoInfrastructureObject => "no-infrastructure-object",
            Self::Terraform => "terraform",
            Self::Crossplane => "crossplane",
            Self::Ack => "ack",
            Self::Managed => "managed",
        }
    }

    /// Whether the user brings network and load balancer.
    pub fn is_brought(self) -> bool {
        self != Self::Managed
    }

    /// Whether the manifest of a cluster says what the network is, so that the network can be checked before the
    /// cluster exists.
    pub fn has_network_in_manifest(self) -> bool {
        matches!(self, Self::UnmanagedMachineHealthCheck | Self::UnmanagedDiscovery | Self::NoInfrastructureObject)
    }

    /// Whether MachineHealthChecks are among the objects of a cluster.
    pub fn has_health_checks(self) -> bool {
        self == Self::UnmanagedMachineHealthCheck
    }

    /// The kind of the object in the manifest of a cluster that describes the infrastructure or stands for it.
    pub fn describes(self) -> &'static str {
        match self {
            Self::UnmanagedMachineHealthCheck | Self::UnmanagedDiscovery | Self::ManagedBy | Self::Managed => {
                "AWSCluster"
            }
            Self::NoInfrastructureObject => "ConfigMap",
            Self::Crossplane => "XAWSNetwork",
            // The machines name the objects.
            Self::Terraform | Self::Ack => "AWSMachineTemplate",
        }
    }

    /// The values of template variables that do not come from the network.
    pub fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::ManagedBy => &[("AWS_CLUSTER_MANAGED_BY", "network-controller")],
            Self::Terraform => &[("INFRASTRUCTURE_API_GROUP", FOREIGN.0), ("INFRASTRUCTURE_KIND", FOREIGN.1)],
            // The subnets of the network are private.
            Self::Crossplane => &[("AWS_PUBLIC_IP", "false")],
            // No resolver of this host knows the names of moto's load balancers.
            Self::Managed => &[("AWS_DNS_RESOLUTION_CHECK", "None")],
            _ => &[],
        }
    }

    /// What [`Flavor::prepare`] makes, for a reader; `None` if nothing.
    pub fn prepared(self) -> Option<&'static str> {
        match self {
            Self::UnmanagedMachineHealthCheck | Self::NoInfrastructureObject | Self::ManagedBy | Self::Managed => None,
            Self::UnmanagedDiscovery => Some("You tag the VPC, the private subnets, the groups and the target group."),
            Self::Terraform => Some(
                "Another provider has a kind Stack and an object of it; Terraform has written its outputs into a \
                 Secret.",
            ),
            Self::Crossplane => Some(
                "Your administrator has installed the kind XAWSNetwork, its AWSNetworkMapping and the permissions, \
                 from config/samples/crossplane-v2-composite.",
            ),
            Self::Ack => Some(
                "ACK has a VPC, three Subnets and two SecurityGroups, and your administrator lets our manager read \
                 them.",
            ),
        }
    }

    /// What [`Flavor::publish`] writes, for a reader; `None` if nothing.
    pub fn published(self) -> Option<&'static str> {
        match self {
            Self::ManagedBy => Some("The other controller writes the network into the status of the AWSCluster."),
            Self::Crossplane => {
                Some("Crossplane has made the network and writes it into the status of the XAWSNetwork.")
            }
            _ => None,
        }
    }

    /// Does what comes before the objects of the cluster.
    ///
    /// # Errors
    /// A call to the API server or to AWS failed.
    pub async fn prepare(self, brought: &Brought<'_>) -> anyhow::Result<()> {
        match self {
            Self::UnmanagedMachineHealthCheck | Self::NoInfrastructureObject | Self::ManagedBy | Self::Managed => {
                Ok(())
            }
            Self::UnmanagedDiscovery => brought.tag().await,
            Self::Terraform => brought.write_outputs().await,
            Self::Crossplane => {
                let files = ["kind.yaml", "mapping.yaml", "role.yaml", "composition.yaml"];
                brought.apply_samples("crossplane-v2-composite", &files).await
            }
            Self::Ack => brought.write_ack_objects().await,
        }
    }

    /// Does what comes after the objects of the cluster, on which it depends.
    ///
    /// # Errors
    /// A call to the API server failed.
    pub async fn publish(self, brought: &Brought<'_>) -> anyhow::Result<()> {
        match self {
            Self::ManagedBy => {
                let network = json!({
                    "region": brought.user.region(),
                    "vpc": brought.vpc(),
                    "subnets": brought.subnets(),
                    "securityGroups": brought.security_groups(),
                    "controlPlaneTargets": [{"targetGroupARN": brought.load_balancer.target_group_arn}],
                });
                let status = brought.provisioned(json!({"network": network}));
                brought.write_status(OURS, "AWSCluster", status).await
            }
            Self::Crossplane => brought.write_composite().await,
            _ => Ok(()),
        }
    }
}

impl Brought<'_> {
    /// The VPC in the words of the network contract.
    fn vpc(&self) -> Value {
        json!({"id": self.network.vpc_id})
    }

    fn subnets(&self) -> Value {
        let zones = self.network.zones.iter();
        zones.map(|zone| json!({"id": zone.private_subnet_id, "availabilityZone": zone.name})).collect()
    }

    fn security_groups(&self) -> Value {
        json!({
            "all": [self.network.node_security_group_id],
            "controlPlane": [self.network.control_plane_security_group_id],
        })
    }

    /// The status of a provisioned infrastructure object with further fields.
    fn provisioned(&self, mut fields: Value) -> Value {
        let zones = self.network.zones.iter();
        let domains: Value = zones.map(|zone| json!({"name": zone.name, "controlPlane": true})).collect();
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("initialization".to_owned(), json!({"provisioned": true}));
            fields.insert("failureDomains".to_owned(), domains);
        }
        fields
    }

    async fn write_status(&self, api_version: &str, kind: &str, status: Value) -> anyhow::Result<()> {
        self.write_status_of(api_version, kind, self.cluster, status).await
    }

    async fn write_status_of(&self, api_version: &str, kind: &str, name: &str, status: Value) -> anyhow::Result<()> {
        let api = self.environment.api(api_version, kind).await?;
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("write the status of {kind} {name}"))?;
        Ok(())
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        self.environment.apply(&object.to_string()).await.map(drop)
    }

    /// Applies files of a folder of `config/samples`.
    async fn apply_samples(&self, folder: &str, files: &[&str]) -> anyhow::Result<()> {
        let folder = programs::repository().join("config/samples").join(folder);
        for file in files {
            let path = folder.join(Path::new(file));
            let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            self.environment.apply(&text).await?;
        }
        Ok(())
    }

    async fn tag(&self) -> anyhow::Result<()> {
        let (user, network) = (self.user, self.network);
        user.tag(&network.vpc_id, "cluster", self.cluster).await?;
        for subnet in network.private_subnet_ids() {
            user.tag(subnet, "tier", "private").await?;
        }
        user.tag(&network.node_security_group_id, "role", "node").await?;
        user.tag(&network.control_plane_security_group_id, "role", "control-plane").await?;
        user.tag_target_group(&self.load_balancer.target_group_arn, "role", "api").await
    }

    async fn write_outputs(&self) -> anyhow::Result<()> {
        let (group, kind) = FOREIGN;
        let version = format!("{group}/v1alpha1");
        self.environment.apply(&fixtures::definition(group, kind, "")).await?;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": "cluster-api-manages-stacks", "labels": {"cluster.x-k8s.io/aggregate-to-manager": "true"},
            },
            "rules": [{
                "apiGroups": [group], "resources": ["stacks"],
                "verbs": ["get", "list", "watch", "patch", "update", "delete"],
            }],
        });
        self.apply(&role).await?;
        let endpoint = json!({"host": self.load_balancer.dns_name, "port": PORT});
        let stack = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": self.cluster},
            "spec": {"controlPlaneEndpoint": endpoint},
        });
        self.apply(&stack).await?;
        self.write_status(&version, kind, self.provisioned(json!({}))).await?;
        let labels = json!({"infrastructure.cluster.x-k8s.io/network-source": "true"});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{}-network", self.cluster), "labels": labels},
            "stringData": {
                "region": self.user.region(),
                "vpc": self.vpc().to_string(),
                "subnets": self.subnets().to_string(),
                "securityGroups": self.security_groups().to_string(),
            },
        });
        self.apply(&secret).await
    }

    async fn write_composite(&self) -> anyhow::Result<()> {
        let network = self.network;
        let zones = network.zones.iter();
        let subnets: Value =
            zones.map(|zone| json!({"id": zone.private_subnet_id, "zone": zone.name, "tier": "private"})).collect();
        let status = self.provisioned(json!({
            "vpcId": network.vpc_id,
            "subnets": subnets,
            "securityGroups": {
                "node": network.node_security_group_id, "controlPlane": network.control_plane_security_group_id,
            },
            "apiTargetGroupArn": self.load_balancer.target_group_arn,
            "apiHost": self.load_balancer.dns_name,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
        }));
        self.write_status("platform.example.org/v1alpha1", "XAWSNetwork", status).await
    }

    async fn write_ack_objects(&self) -> anyhow::Result<()> {
        self.apply_samples("ack", &["kind.yaml", "role.yaml"]).await?;
        let (network, cluster) = (self.network, self.cluster);
        let zones = network.zones.iter();
        let subnets = zones.map(|zone| {
            let spec = json!({"availabilityZone": zone.name});
            let name = format!("{cluster}-{}", zone.name);
            ("Subnet", name, spec, "subnetID", zone.private_subnet_id.as_str())
        });
        let group = |role: &str| format!("{cluster}-{role}");
        let (nodes, control_plane) = (&network.node_security_group_id, &network.control_plane_security_group_id);
        let mut objects = vec![
            ("VPC", cluster.to_owned(), json!({}), "vpcID", network.vpc_id.as_str()),
            ("SecurityGroup", group("nodes"), json!({}), "id", nodes),
            ("SecurityGroup", group("control-plane"), json!({}), "id", control_plane),
        ];
        objects.extend(subnets);
        let version = "ec2.services.k8s.aws/v1alpha1";
        for (kind, name, spec, field, id) in objects {
            let metadata = json!({"name": name, "labels": {"cluster": cluster}});
            self.apply(&json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})).await?;
            let status = json!({
                field: id,
                "ackResourceMetadata": {"ownerAccountID": "111122223333", "region": self.user.region()},
                "conditions": [{"type": "ACK.ResourceSynced", "status": "True"}],
            });
            self.write_status_of(version, kind, &name, status).await?;
        }
        Ok(())
    }
}
