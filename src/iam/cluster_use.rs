//! The AWS resources and actions that one cluster uses. The minimal policy for the cluster allows nothing else. Pure.

use std::collections::{BTreeMap, BTreeSet};

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::machine::{AWSMachineSpec, BootstrapDelivery, SecretsBackend};
use capa_api::network::NetworkBootstrapBucket;
use capa_aws::iam_actions::Action;
use capa_preflight::facts::Demand;

/// Actions that are called for a single purpose, and whether the cluster has that purpose.
type Purposes = BTreeMap<&'static str, bool>;

/// The AWS resources and actions that one cluster uses.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterUse {
    region: String,
    /// Ids or names of resources by the type in their ARN. If a type is absent, the cluster may use any resource of the
    /// type, because the objects name none.
    named: BTreeMap<&'static str, BTreeSet<String>>,
    purposes: Purposes,
    has_targets: bool,
    /// The bucket for bootstrap data and the prefix of its keys, as ARNs have them: `bucket/prefix`. Absent: any.
    objects: Option<String>,
}

impl ClusterUse {
    /// What the objects of a cluster use. `spec` is the spec of the AWSCluster, or empty if there is none. `demand`
    /// contains what the objects name.
    pub(super) fn new(spec: &AWSClusterSpec, demand: &Demand) -> Self {
        let machines = || demand.machines.iter().map(|machines| &machines.spec);
        let any = |uses: fn(&AWSMachineSpec) -> bool| machines().any(uses);
        let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        let sources = any(|spec| !spec.network_sources.is_empty());
        let searched = sources || spec.discovery.is_some() || demand.machines.is_empty();
        let subnets_by_filter = any(|spec| spec.subnet.as_ref().is_some_and(|subnet| !subnet.filters.is_empty()));
        let groups_by_filter = any(|spec| {
            let mut groups = spec.additional_security_groups.iter();
            groups.any(|group| !group.filters.is_empty())
        });
        let images_by_name = any(|spec| spec.ami.as_ref().is_none_or(|image| image.id.is_none()));
        let keys = machines().filter_map(|spec| spec.effective_ssh_key_name(demand.network.ssh_key_name.as_deref()));
        let images = machines().filter_map(|spec| spec.ami.as_ref()?.id.clone());
        let by_name = spec.named_load_balancer().is_some() || spec.secondary_load_balancer_name().is_some();
        let by_name = by_name || demand.control_plane_targets().any(|target| target.load_balancer_name.is_some());
        let groups: BTreeSet<&str> = demand.target_group_arns();
        let classic = demand.control_plane_targets();
        let classic: BTreeSet<String> =
            classic.filter_map(|target| target.classic_load_balancer_name.clone()).collect();
        let targets_are_known = !searched && !by_name;

        let mut named = BTreeMap::new();
        let mut name = |kind: &'static str, are_known: bool, names: BTreeSet<String>| {
            if are_known {
                named.insert(kind, names);
            }
        };
        name("subnet", !searched && !subnets_by_filter, owned(demand.subnet_ids(None)));
        name("security-group", !searched && !groups_by_filter, owned(demand.group_ids(None)));
        name("image", !images_by_name && !demand.machines.is_empty(), images.collect());
        name("key-pair", !searched, keys.map(str::to_owned).collect());
        let of_machines =
            |field: fn(&AWSMachineSpec) -> Option<&String>| machines().filter_map(field).cloned().collect();
        let are_known = !demand.machines.is_empty();
        name("placement-group", are_known, of_machines(|spec| spec.placement_group_name.as_ref()));
        name("capacity-reservation", are_known, of_machines(|spec| spec.capacity_reservation_id.as_ref()));
        let allocates_hosts = !are_known || any(|spec| spec.dynamic_host_allocation.is_some());
        // The id of a host is not known before its allocation.
        name("dedicated-host/*", are_known && !allocates_hosts, BTreeSet::new());
        name("dedicated-host/h-*", are_known && !allocates_hosts, of_machines(|spec| spec.host_id.as_ref()));
        let allocates_addresses = !are_known || any(|spec| spec.elastic_ip_pool.is_some());
        name("elastic-ip", are_known && !allocates_addresses, BTreeSet::new());
        name("ipv4pool-ec2", are_known, of_machines(|spec| spec.elastic_ip_pool.as_ref()?.public_ipv4_pool.as_ref()));
        let interfaces = machines().flat_map(|spec| &spec.network_interfaces);
        name("network-interface/eni-*", are_known, interfaces.cloned().collect());
        name("spot-instances-request", are_known && !demand.has_spot_machines(), BTreeSet::new());
        let arns = groups.iter().filter_map(|arn| arn.split_once("targetgroup/"));
        name("targetgroup", targets_are_known, arns.map(|(_, rest)| rest.to_owned()).collect());
        name("loadbalancer", targets_are_known, classic.clone());

        let checks = spec.effective_preflight_mode() != PreflightMode::Disabled;
        let unknown = demand.machines.is_empty();
        // What the network sources of machines publish is not known here.
        let profiles = unknown || sources || !demand.instance_profiles().is_empty();
        let bucket = checks && (sources || demand.bucket().is_some());
        let keeps = |backend| {
            let delivery = BootstrapDelivery::Secrets(backend);
            unknown || machines().any(|spec| spec.ignition.is_none() && spec.effective_bootstrap_delivery() == delivery)
        };
        let bucket_for_data = demand.network.bootstrap_bucket();
        let keeps_objects = sources || (bucket_for_data.is_some() && (unknown || any(AWSMachineSpec::may_use_bucket)));
        let presigns = bucket_for_data.is_none_or(|bucket| bucket.presigned_url_duration.is_some());
        let purposes = [
            ("DescribeCapacityReservations", unknown || any(|spec| spec.capacity_reservation_id.is_some())),
            ("DescribeHosts", any(|spec| spec.host_id.is_some()) || allocates_hosts),
            ("AllocateHosts", allocates_hosts),
            ("ReleaseHosts", allocates_hosts),
            ("DescribeAddresses", allocates_addresses),
            ("DescribePublicIpv4Pools", allocates_addresses),
            ("AllocateAddress", allocates_addresses),
            ("AssociateAddress", allocates_addresses),
            ("ReleaseAddress", allocates_addresses),
            ("DescribePlacementGroups", unknown || any(|spec| spec.placement_group_name.is_some())),
            ("DescribeNetworkInterfaces", unknown || any(|spec| !spec.network_interfaces.is_empty())),
            (
                "GetParameter",
                unknown || any(|spec| spec.ami.as_ref().is_some_and(|image| image.eks_lookup_type.is_some())),
            ),
            ("CreateSecret", keeps(SecretsBackend::SecretsManager)),
            ("PutSecretValue", keeps(SecretsBackend::SecretsManager)),
            ("DeleteSecret", keeps(SecretsBackend::SecretsManager)),
            ("TagResource", keeps(SecretsBackend::SecretsManager)),
            ("PutParameter", keeps(SecretsBackend::SsmParameterStore)),
            ("DeleteParameters", keeps(SecretsBackend::SsmParameterStore)),
            ("AddTagsToResource", keeps(SecretsBackend::SsmParameterStore)),
            ("PutObject", keeps_objects),
            ("DeleteObject", keeps_objects),
            ("GetObject", keeps_objects && presigns),
            ("DescribeKeyPairs", checks),
            ("DescribeAvailabilityZones", checks),
            ("DescribeInstanceTypeOfferings", checks),
            ("DescribeNatGateways", checks),
            ("DescribeNetworkAcls", checks),
            ("DescribeRegions", checks),
            ("DescribeVpcAttribute", checks),
            ("DescribeVpcEndpoints", checks),
            ("GetInstanceProfile", checks && profiles),
            ("ListAttachedRolePolicies", checks && profiles),
            ("ListRolePolicies", checks && profiles),
            ("GetRole", checks && (unknown || demand.has_spot_machines())),
            ("GetBucketAcl", bucket),
            ("GetBucketLocation", bucket),
            ("GetBucketPolicyStatus", bucket),
            ("GetBucketPublicAccessBlock", bucket),
            ("GetServiceQuota", checks),
            ("PassRole", profiles),
        ];
        Self {
            region: demand.region.clone(),
            named,
            purposes: purposes.into(),
            has_targets: !targets_are_known || !groups.is_empty() || !classic.is_empty(),
            objects: bucket_for_data.filter(|_| !sources).map(NetworkBootstrapBucket::place),
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
