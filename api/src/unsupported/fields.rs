//! The table of the spec fields of managed AWSClusters. A block that contains only such fields has one row.

use super::Field;

/// What users do instead, because the provider changes neither the bucket nor its policy.
const ALLOW_READING: &str = "let the roles of the instance profiles read the bucket";

const fn managed(path: &'static str) -> Field {
    Field {
        path,
        neutral: &[],
        instead: "bring what it describes, and name it in `network`",
        works: false,
    }
}

impl Field {
    const fn but(self, neutral: &'static [&'static str]) -> Self {
        Self { neutral, ..self }
    }

    /// The field has an effect in managed clusters.
    const fn works(self) -> Self {
        Self { works: true, ..self }
    }

    const fn or(self, instead: &'static str) -> Self {
        Self { instead, ..self }
    }
}

/// The table.
pub(super) const FIELDS: &[Field] = &[
    managed("partition").works(),
    managed("controlPlaneLoadBalancer.scheme")
        .but(&[r#""internet-facing""#])
        .works(),
    managed("controlPlaneLoadBalancer.crossZoneLoadBalancing")
        .but(&["false"])
        .works(),
    managed("controlPlaneLoadBalancer.subnets").works(),
    managed("controlPlaneLoadBalancer.healthCheckProtocol").works(),
    managed("controlPlaneLoadBalancer.healthCheck").works(),
    managed("controlPlaneLoadBalancer.additionalSecurityGroups").works(),
    managed("controlPlaneLoadBalancer.additionalListeners").works(),
    managed("controlPlaneLoadBalancer.ingressRules").works(),
    managed("controlPlaneLoadBalancer.disableHostsRewrite")
        .but(&["false"])
        .works(),
    managed("controlPlaneLoadBalancer.preserveClientIP")
        .but(&["false"])
        .works(),
    managed("controlPlaneLoadBalancer.targetGroupIPType").but(&[r#""ipv4""#]),
    managed("controlPlaneLoadBalancer.dnsResolutionCheck").works(),
    managed("secondaryControlPlaneLoadBalancer.scheme")
        .but(&[r#""internet-facing""#])
        .works(),
    managed("secondaryControlPlaneLoadBalancer.crossZoneLoadBalancing")
        .but(&["false"])
        .works(),
    managed("secondaryControlPlaneLoadBalancer.subnets").works(),
    managed("secondaryControlPlaneLoadBalancer.healthCheckProtocol").works(),
    managed("secondaryControlPlaneLoadBalancer.healthCheck").works(),
    managed("secondaryControlPlaneLoadBalancer.additionalSecurityGroups").works(),
    managed("secondaryControlPlaneLoadBalancer.additionalListeners").works(),
    managed("secondaryControlPlaneLoadBalancer.ingressRules").works(),
    managed("secondaryControlPlaneLoadBalancer.disableHostsRewrite")
        .but(&["false"])
        .works(),
    managed("secondaryControlPlaneLoadBalancer.preserveClientIP")
        .but(&["false"])
        .works(),
    managed("secondaryControlPlaneLoadBalancer.targetGroupIPType").but(&[r#""ipv4""#]),
    managed("secondaryControlPlaneLoadBalancer.dnsResolutionCheck").works(),
    managed("bastion"),
    managed("s3Bucket.controlPlaneIAMInstanceProfile").or(ALLOW_READING),
    managed("s3Bucket.nodesIAMInstanceProfiles").or(ALLOW_READING),
    managed("s3Bucket.additionalIAMRoles").or(ALLOW_READING),
    managed("network.cni").works(),
    managed("network.additionalControlPlaneIngressRules").works(),
    managed("network.additionalNodeIngressRules").works(),
    managed("network.nodePortIngressRuleCidrBlocks").works(),
    managed("network.subnets[].cidrBlock").works(),
    managed("network.subnets[].ipv6CidrBlock"),
    managed("network.subnets[].natGatewayId").works(),
    managed("network.subnets[].parentZoneName"),
    managed("network.subnets[].routeTableId").works(),
    managed("network.vpc.availabilityZoneSelection")
        .but(&[r#""Ordered""#])
        .works(),
    managed("network.vpc.availabilityZoneUsageLimit").but(&["3"]).works(),
    managed("network.vpc.carrierGatewayId"),
    managed("network.vpc.cidrBlock").works(),
    managed("network.vpc.elasticIpPool").works(),
    managed("network.vpc.emptyRoutesDefaultVPCSecurityGroup")
        .but(&["false"])
        .works(),
    managed("network.vpc.internetGatewayId").works(),
    managed("network.vpc.ipamPool"),
    managed("network.vpc.ipv6"),
    managed("network.vpc.privateDnsHostnameTypeOnLaunch").works(),
    managed("network.vpc.secondaryCidrBlocks").works(),
    managed("network.vpc.subnetSchema").but(&[r#""PreferPrivate""#]).works(),
    managed("network.vpc.tags").works(),
];
