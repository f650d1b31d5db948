//! The AWS resources and actions that one cluster uses. The minimal policy for the cluster allows nothing else. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery, SecretsBackend};
use capa_api::network::NetworkBootstrapBucket;
use capa_aws::iam_actions::Action;
use capa_preflight::facts::Demand;

/// Ids or names of resources by the type in their ARN.
type Named = BTreeMap<&'static str, BTreeSet<String>>;

/// Actions that are called for a single purpose, and whether the cluster has that purpose.
type Purposes = BTreeMap<&'static str, bool>;

/// The AWS resources and actions that one cluster uses.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterUse {
    region: String,
    /// If a type is absent, the cluster may use any resource of the type, because the objects name none.
    named: Named,
    purposes: Purposes,
    has_targets: bool,
    /// The bucket for bootstrap data and the prefix of its keys, as ARNs have them: `bucket/prefix`. Absent: any.
    objects: Option<String>,
}

impl ClusterUse {
    /// What the objects of a cluster use. `spec` is the spec of the AWSCluster, or empty if there is none. `demand`
    /// contains what the objects name.
    pub(super) fn new(spec: &AWSClusterSpec, demand: &Demand) -> Self {
        let cluster = ClusterObjects { spec, demand };
        let names_targets = !demand.target_group_arns().is_empty() || !cluster.classic_load_balancers().is_empty();
        let bucket = demand.network.bootstrap_bucket().filter(|_| !cluster.has_sources());
        Self {
            region: demand.region.clone(),
            named: cluster.named(),
            purposes: cluster.purposes(),
            has_targets: names_targets || !cluster.targets_are_known(),
            objects: bucket.map(NetworkBootstrapBucket::place),
        }
    }

    /// Whether the objects name all targets of the control plane.
    pub(super) fn names_targets(&self) -> bool {
        self.named.contains_key("targetgroup")
    }

    /// Whether the cluster uses an action.
    pub(super) fn includes(&self, action: &Action) -> bool {
        if action.service == "elasticloadbalancing" {
            return self.has_targets;
        }
        self.uses(action.name)
    }

    /// Whether the cluster uses an action of EC2.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.purposes.get(name).copied().unwrap_or(true)
    }

    /// The resources that the cluster uses among those that match an ARN without its partition, such as
    /// `ec2:*:*:subnet/*`.
    pub(super) fn narrowed(&self, arn: &str) -> Vec<String> {
        if let (Some(place), Some(keys)) = (&self.objects, arn.strip_prefix("s3:::*/")) {
            return vec![format!("s3:::{place}/{keys}")];
        }
        let parts: Vec<&str> = arn.splitn(4, ':').collect();
        let [service, region, account, resource] = parts.as_slice() else {
            return vec![arn.to_owned()];
        };
        let region = if *region == "*" { self.region.as_str() } else { region };
        let kind = resource.split('/').next().unwrap_or_default();
        match self.named.get(resource).or_else(|| self.named.get(kind)) {
            None => vec![format!("{service}:{region}:{account}:{resource}")],
            Some(names) => names.iter().map(|name| format!("{service}:{region}:{account}:{kind}/{name}")).collect(),
        }
    }
}

/// The objects of a cluster.
struct ClusterObjects<'a> {
    /// The spec of the AWSCluster, or an empty one.
    spec: &'a AWSClusterSpec,
    /// What the objects name.
    demand: &'a Demand,
}

impl<'a> ClusterObjects<'a> {
    fn machines(&self) -> impl Iterator<Item = &'a AWSMachineSpec> {
        self.demand.machines.iter().map(|machines| &machines.spec)
    }

    /// Whether the objects have no machines: then nothing is known of what the machines of the cluster use.
    fn has_no_machines(&self) -> bool {
        self.demand.machines.is_empty()
    }

    fn any(&self, uses: fn(&AWSMachineSpec) -> bool) -> bool {
        self.machines().any(uses)
    }

    /// Whether machines have network sources. What these publish is not known here.
    fn has_sources(&self) -> bool {
        self.any(|spec| !spec.network_sources.is_empty())
    }

    /// Whether the cluster may have other parts of a network than the objects name.
    fn has_unnamed_network(&self) -> bool {
        self.has_sources() || self.spec.discovery.is_some() || self.has_no_machines()
    }

    /// Whether the objects name all targets of the control plane by ARN, or as Classic Load Balancers.
    fn targets_are_known(&self) -> bool {
        let mut targets = self.demand.control_plane_targets();
        let by_name = self.spec.named_load_balancer().is_some()
            || self.spec.secondary_load_balancer_name().is_some()
            || targets.any(|target| target.load_balancer_name.is_some());
        !self.has_unnamed_network() && !by_name
    }

    fn classic_load_balancers(&self) -> BTreeSet<String> {
        let targets = self.demand.control_plane_targets();
        targets.filter_map(|target| target.classic_load_balancer_name.clone()).collect()
    }

    fn allocates_hosts(&self) -> bool {
        self.has_no_machines() || self.any(|spec| spec.dynamic_host_allocation.is_some())
    }

    fn allocates_addresses(&self) -> bool {
        self.has_no_machines() || self.any(|spec| spec.elastic_ip_pool.is_some())
    }

    fn may_have_instance_profiles(&self) -> bool {
        self.has_no_machines() || self.has_sources() || !self.demand.instance_profiles().is_empty()
    }

    /// The resources of each type of which the objects name all that the cluster uses.
    fn named(&self) -> Named {
        let demand = self.demand;
        let named_network = !self.has_unnamed_network();
        let subnets_by_filter = self.any(|spec| spec.subnet.as_ref().is_some_and(|subnet| !subnet.filters.is_empty()));
        let groups_by_filter = self.any(|spec| {
            let mut groups = spec.additional_security_groups.iter();
            groups.any(|group| !group.filters.is_empty())
        });
        let keys =
            self.machines().filter_map(|spec| spec.effective_ssh_key_name(demand.network.ssh_key_name.as_deref()));
        let arns = demand.target_group_arns();
        let groups = arns.iter().filter_map(|arn| Some(arn.split_once("targetgroup/")?.1.to_owned()));
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        let by_network = [
            ("subnet", named_network && !subnets_by_filter, owned(demand.subnet_ids(None))),
            ("security-group", named_network && !groups_by_filter, owned(demand.group_ids(None))),
            ("key-pair", named_network, keys.map(str::to_owned).collect()),
            ("targetgroup", self.targets_are_known(), groups.collect()),
            ("loadbalancer", self.targets_are_known(), self.classic_load_balancers()),
        ];
        let all = by_network.into_iter().chain(self.named_by_machines());
        all.filter(|(_, are_known, _)| *are_known).map(|(kind, _, names)| (kind, names)).collect()
    }

    /// The types of the resources that only the specs of machines name, whether all that are used are known, and those
    /// that are named.
    fn named_by_machines(&self) -> [(&'static str, bool, BTreeSet<String>); 9] {
        let of_machines = |field: fn(&AWSMachineSpec) -> Option<&String>| -> BTreeSet<String> {
            self.machines().filter_map(field).cloned().collect()
        };
        let are_known = !self.has_no_machines();
        let images_by_name = self.any(|spec| spec.ami.as_ref().is_none_or(|image| image.id.is_none()));
        let interfaces = self.machines().flat_map(|spec| &spec.network_interfaces);
        let pools = of_machines(|spec| spec.elastic_ip_pool.as_ref()?.public_ipv4_pool.as_ref());
        [
            ("image", are_known && !images_by_name, of_machines(|spec| spec.ami.as_ref()?.id.as_ref())),
            ("placement-group", are_known, of_machines(|spec| spec.placement_group_name.as_ref())),
            ("capacity-reservation", are_known, of_machines(|spec| spec.capacity_reservation_id.as_ref())),
            // The id of a host is not known before its allocation.
            ("dedicated-host/*", !self.allocates_hosts(), BTreeSet::new()),
            ("dedicated-host/h-*", !self.allocates_hosts(), of_machines(|spec| spec.host_id.as_ref())),
            ("elastic-ip", !self.allocates_addresses(), BTreeSet::new()),
            ("ipv4pool-ec2", are_known, pools),
            ("network-interface/eni-*", are_known, interfaces.cloned().collect()),
            ("spot-instances-request", are_known && !self.demand.has_spot_machines(), BTreeSet::new()),
        ]
    }

    fn purposes(&self) -> Purposes {
        let mut purposes = self.purposes_of_launches();
        purposes.extend(self.purposes_of_bootstrap_data());
        purposes.extend(self.purposes_of_checks());
        purposes
    }

    fn purposes_of_launches(&self) -> Purposes {
        let any = |uses: fn(&AWSMachineSpec) -> bool| self.has_no_machines() || self.any(uses);
        let allocates_hosts = self.allocates_hosts();
        let allocates_addresses = self.allocates_addresses();
        let images_of_eks = any(|spec| spec.ami.as_ref().is_some_and(|image| image.eks_lookup_type.is_some()));
        let purposes = [
            ("DescribeCapacityReservations", any(|spec| spec.capacity_reservation_id.is_some())),
            ("DescribeHosts", allocates_hosts || any(|spec| spec.host_id.is_some())),
            ("AllocateHosts", allocates_hosts),
            ("ReleaseHosts", allocates_hosts),
            ("DescribeAddresses", allocates_addresses),
            ("DescribePublicIpv4Pools", allocates_addresses),
            ("AllocateAddress", allocates_addresses),
            ("AssociateAddress", allocates_addresses),
            ("ReleaseAddress", allocates_addresses),
            ("DescribePlacementGroups", any(|spec| spec.placement_group_name.is_some())),
            ("DescribeNetworkInterfaces", any(|spec| !spec.network_interfaces.is_empty())),
            ("GetParameter", images_of_eks),
            ("PassRole", self.may_have_instance_profiles()),
        ];
        purposes.into()
    }

    fn purposes_of_bootstrap_data(&self) -> Purposes {
        let keeps = |backend| {
            let delivery = BootstrapDelivery::Secrets(backend);
            let mut machines = self.machines();
            self.has_no_machines()
                || machines.any(|spec| spec.ignition.is_none() && spec.effective_bootstrap_delivery() == delivery)
        };
        let in_secrets_manager = keeps(SecretsBackend::SecretsManager);
        let in_parameters = keeps(SecretsBackend::SsmParameterStore);
        let bucket = self.demand.network.bootstrap_bucket();
        let uses_bucket = self.has_no_machines() || self.any(AWSMachineSpec::may_use_bucket);
        let in_objects = self.has_sources() || (bucket.is_some() && uses_bucket);
        let presigns = bucket.is_none_or(|bucket| bucket.presigned_url_duration.is_some());
        let purposes = [
            ("CreateSecret", in_secrets_manager),
            ("PutSecretValue", in_secrets_manager),
            ("DeleteSecret", in_secrets_manager),
            ("TagResource", in_secrets_manager),
            ("PutParameter", in_parameters),
            ("DeleteParameters", in_parameters),
            ("AddTagsToResource", in_parameters),
            ("PutObject", in_objects),
            ("DeleteObject", in_objects),
            ("GetObject", in_objects && presigns),
        ];
        purposes.into()
    }

    /// What the checks of the infrastructure call.
    fn purposes_of_checks(&self) -> Purposes {
        let checks = self.spec.effective_preflight_mode() != PreflightMode::Disabled;
        let profiles = checks && self.may_have_instance_profiles();
        let bucket = checks && (self.has_sources() || self.demand.bucket().is_some());
        let purposes = [
            ("DescribeKeyPairs", checks),
            ("DescribeAvailabilityZones", checks),
            ("DescribeInstanceTypeOfferings", checks),
            ("DescribeNatGateways", checks),
            ("DescribeNetworkAcls", checks),
            ("DescribeRegions", checks),
            ("DescribeVpcAttribute", checks),
            ("DescribeVpcEndpoints", checks),
            ("GetInstanceProfile", profiles),
            ("ListAttachedRolePolicies", profiles),
            ("ListRolePolicies", profiles),
            ("GetRole", checks && (self.has_no_machines() || self.demand.has_spot_machines())),
            ("GetBucketAcl", bucket),
            ("GetBucketLocation", bucket),
            ("GetBucketPolicyStatus", bucket),
            ("GetBucketPublicAccessBlock", bucket),
            ("GetServiceQuota", checks),
        ];
        purposes.into()
    }
}
