//! `spec.discovery`: the parts of an existing network that the provider finds by tags and other filters instead of by
//! id.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::AWSClusterSpec;
use crate::common::{Filter, MachineRole, Tags, tags_schema};
use crate::meta::{PREFLIGHT_REQUESTED_ANNOTATION, annotation};
use crate::network::NetworkSecurityGroups;

/// Maximum number of characters of a search request in the status.
const REQUEST_LENGTH: usize = 256;

/// How to find the infrastructure that you bring, in the region and account of the cluster. The provider searches all
/// parts in one VPC: the VPC of `vpc`, or else `network.vpc.id`. The provider does not search a part that the spec
/// names elsewhere by id: `network.vpc.id`, `network.subnets`, `network.securityGroupOverrides`, `controlPlaneTargets`
/// and the name in `controlPlaneLoadBalancer` take precedence.
///
/// The provider searches once for each change of the spec, and again for each new value of the annotation
/// `infrastructure.cluster.x-k8s.io/preflight-requested`. It writes the ids to `status.network`, never to the spec. If
/// a search finds nothing, or finds several VPCs, the condition `NetworkReady` reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverySpec {
    /// The VPC of the cluster. Exactly one VPC must match. Absent: `network.vpc.id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<DiscoveryFilters>,

    /// The subnets in which machines may be launched. Each entry must match at least one subnet of the VPC; a subnet
    /// may match several entries. At most 20 entries, which may match 200 subnets in total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub subnets: Vec<SubnetDiscovery>,

    /// The security groups of instances. Each entry must match at least one security group of the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<SecurityGroupDiscovery>,

    /// The target groups in which control plane instances are registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_targets: Option<TargetDiscovery>,
}

/// Filters that a resource must match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryFilters {
    /// Filters in EC2's spelling, all of which the resource must match, e.g. `{name: "tag:cluster", values: [prod]}`.
    /// 1 to 20.
    #[schemars(schema_with = "filters_schema")]
    pub filters: Vec<Filter>,
}

/// Filters for subnets, and the roles of the machines that use the subnets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetDiscovery {
    /// Filters in EC2's spelling, all of which a subnet must match, e.g. `{name: "tag:tier", values: [private]}`. 1 to
    /// 20.
    #[schemars(schema_with = "filters_schema")]
    pub filters: Vec<Filter>,

    /// Roles of the machines that may be launched in these subnets. A subnet that matches several entries is for the
    /// roles of all of them. Absent: both roles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2), extend("x-kubernetes-list-type" = "set"))]
    pub roles: Vec<MachineRole>,
}

/// Filters for the security groups of instances, by role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct SecurityGroupDiscovery {
    /// Security groups of every instance: all that match, at most 16. The groups `node` and `lb` in
    /// `network.securityGroupOverrides` take precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<DiscoveryFilters>,

    /// Security groups that control plane instances get in addition: all that match, at most 16. The group
    /// `controlplane` in `network.securityGroupOverrides` takes precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<DiscoveryFilters>,

    /// Security groups that worker instances get in addition: all that match, at most 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<DiscoveryFilters>,
}

/// Tags of target groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetDiscovery {
    /// Tags that a target group must have: all of them, with exactly these values, e.g. `{cluster: prod}`. The provider
    /// searches the target groups of the VPC with the target type `instance` or `ip`, of which 1 to 8 must match. The
    /// search fails in a VPC with more than 400 such target groups.
    #[schemars(schema_with = "target_tags_schema")]
    pub tags: Tags,
}

/// Schema of 1 to 20 filters. Each filter has a name and at least one value, because EC2 refuses other filters.
fn filters_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<Vec<Filter>>();
    schema.insert("minItems".to_owned(), json!(1));
    schema.insert("maxItems".to_owned(), json!(20));
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([{
            "rule": "self.all(filter, size(filter.name) > 0 && size(filter.values) > 0)",
            "message": "each filter needs a name and at least one value",
        }]),
    );
    schema
}

fn target_tags_schema(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = tags_schema(generator);
    schema.insert("minProperties".to_owned(), json!(1));
    schema
}

impl SubnetDiscovery {
    /// Whether machines of `role` may be launched in the subnets.
    pub fn serves(&self, role: MachineRole) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
}

impl SecurityGroupDiscovery {
    /// Whether instances of `role` get some of the groups.
    pub fn serves(&self, role: MachineRole) -> bool {
        let of_role = match role {
            MachineRole::ControlPlane => &self.control_plane,
            MachineRole::Worker => &self.worker,
        };
        self.all.is_some() || of_role.is_some()
    }

    /// The filters with the name of their field.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &DiscoveryFilters)> {
        let parts = [("all", &self.all), ("controlPlane", &self.control_plane), ("worker", &self.worker)];
        parts.into_iter().filter_map(|(field, filters)| Some((field, filters.as_ref()?)))
    }
}

/// The user's request for another search: the first 256 characters of the value of the annotation
/// [`PREFLIGHT_REQUESTED_ANNOTATION`]. `None` without the annotation, or if its value is empty.
pub fn discovery_request(metadata: &ObjectMeta) -> Option<String> {
    let value = annotation(metadata, PREFLIGHT_REQUESTED_ANNOTATION)?;
    Some(value.chars().take(REQUEST_LENGTH).collect()).filter(|value: &String| !value.is_empty())
}

impl AWSClusterSpec {
    /// The parts of the network to search for: `discovery` without the parts that the spec names by id.
    pub fn effective_discovery(&self) -> DiscoverySpec {
        let Some(mut discovery) = self.discovery.clone() else {
            return DiscoverySpec::default();
        };
        if self.vpc_id().is_some() {
            discovery.vpc = None;
        }
        if self.subnets().iter().any(|subnet| !subnet.is_for_pods_only()) {
            discovery.subnets.clear();
        }
        if let Some(groups) = &mut discovery.security_groups {
            let overrides = self.network.as_ref().map(|network| &network.security_group_overrides);
            let named = overrides.map(NetworkSecurityGroups::from_overrides).unwrap_or_default();
            groups.all.take_if(|_| !named.all.is_empty());
            groups.control_plane.take_if(|_| !named.control_plane.is_empty());
        }
        let is_named = self.named_load_balancer().is_some() || self.secondary_load_balancer_name().is_some();
        if is_named || !self.control_plane_targets.is_empty() {
            discovery.control_plane_targets = None;
        }
        discovery
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: &str = "discovery: {vpc: {filters: [{name: a, values: [b]}]}, \
        subnets: [{filters: [{name: a, values: [b]}]}], \
        securityGroups: {all: {filters: [{name: a, values: [b]}]}, controlPlane: {filters: [{name: a, values: [b]}]}, \
        worker: {filters: [{name: a, values: [b]}]}}, controlPlaneTargets: {tags: {a: b}}}";

    /// The parts that are searched for.
    fn parts(spec: &str) -> Vec<&'static str> {
        let spec: AWSClusterSpec = serde_saphyr::from_str(&format!("{{{spec}}}")).expect("a spec");
        let discovery = spec.effective_discovery();
        let mut parts = Vec::new();
        parts.extend(discovery.vpc.map(|_| "vpc"));
        parts.extend(discovery.subnets.first().map(|_| "subnets"));
        let groups = discovery.security_groups.unwrap_or_default();
        parts.extend(groups.parts().map(|(field, _)| field));
        parts.extend(discovery.control_plane_targets.map(|_| "targets"));
        parts
    }

    #[test]
    fn named_parts_are_not_searched_for() {
        let all = ["vpc", "subnets", "all", "controlPlane", "worker", "targets"];
        let table = [
            ("network: {vpc: {id: ''}}", ""),
            ("network: {vpc: {id: vpc-0000000a}}", "vpc"),
            ("network: {subnets: [{id: subnet-0000000a}]}", "subnets"),
            ("network: {subnets: [{id: s, tags: {sigs.k8s.io/cluster-api-provider-aws/association: secondary}}]}", ""),
            ("network: {securityGroupOverrides: {node: sg-0000000a}}", "all"),
            ("network: {securityGroupOverrides: {lb: sg-0000000a}}", "all"),
            ("network: {securityGroupOverrides: {controlplane: sg-0000000a}}", "controlPlane"),
            ("network: {securityGroupOverrides: {bastion: sg-0000000a}}", ""),
            ("controlPlaneTargets: [{classicLoadBalancerName: api}]", "targets"),
            ("controlPlaneLoadBalancer: {name: api}", "targets"),
            ("controlPlaneLoadBalancer: {loadBalancerType: nlb}", ""),
        ];
        for (named, without) in table {
            let expected: Vec<&str> = all.into_iter().filter(|part| *part != without).collect();
            assert_eq!(parts(&format!("{named}, {DISCOVERY}")), expected, "{named}");
        }
        assert_eq!(parts("region: eu-west-1"), [""; 0]);
    }
}
