//! The table of the spec fields of managed AWSClusters. A block that contains only such fields has one row.

use super::Field;

/// What users do instead, because the provider changes neither the bucket nor its policy.
const ALLOW_READING: &str = "let the roles of the instance profiles read the bucket";

const fn managed(path: &'static str) -> Field {
    Field { path, neutral: &[], alternative: "bring what it describes, and name it in `network`", has_effect: false }
}

impl Field {
    const fn except(self, neutral: &'static [&'static str]) -> Self {
        Self { neutral, ..self }
    }

    /// The field has an effect in managed clusters.
    const fn with_effect(self) -> Self {
        Self { has_effect: true, ..self }
    }

    const fn with_alternative(self, alternative: &'static str) -> Self {
        Self { alternative, ..self }
    }
}

/// The table.
pub(super) const FIELDS: &[Field] = &[
    managed("partition").with_effect(),
    managed("controlPlaneLoadBalancer.scheme").except(&[r#""internet-facing""#]).with_effect(),
    managed("controlPlaneLoadBalancer.crossZoneLoadBalancing").except(&["false"]).with_effect(),
    managed("controlPlaneLoadBalancer.subnets").with_effect(),
    managed("controlPlaneLoadBalancer.healthCheckProtocol").with_effect(),
    managed("controlPlaneLoadBalancer.healthCheck").with_effect(),
    managed("controlPlaneLoadBalancer.additionalSecurityGroups").with_effect(),
    managed("controlPlaneLoadBalancer.additionalListeners").with_effect(),
    managed("controlPlaneLoadBalancer.ingressRules").with_effect(),
    managed("controlPlaneLoadBalancer.disableHostsRewrite").except(&["false"]).with_effect(),
    managed("controlPlaneLoadBalancer.preserveClientIP").except(&["false"]).with_effect(),
    managed("controlPlaneLoadBalancer.targetGroupIPType").except(&[r#""ipv4""#]),
    managed("controlPlaneLoadBalancer.dnsResolutionCheck").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.scheme").except(&[r#""internet-facing""#]).with_effect(),
    managed("secondaryControlPlaneLoadBalancer.crossZoneLoadBalancing").except(&["false"]).with_effect(),
    managed("secondaryControlPlaneLoadBalancer.subnets").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.healthCheckProtocol").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.healthCheck").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.additionalSecurityGroups").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.additionalListeners").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.ingressRules").with_effect(),
    managed("secondaryControlPlaneLoadBalancer.disableHostsRewrite").except(&["false"]).with_effect(),
    managed("secondaryControlPlaneLoadBalancer.preserveClientIP").except(&["false"]).with_effect(),
    managed("secondaryControlPlaneLoadBalancer.targetGroupIPType").except(&[r#""ipv4""#]),
    managed("secondaryControlPlaneLoadBalancer.dnsResolutionCheck").with_effect(),
    managed("bastion"),
    managed("s3Bucket.controlPlaneIAMInstanceProfile").with_alternative(ALLOW_READING),
    managed("s3Bucket.nodesIAMInstanceProfiles").with_alternative(ALLOW_READING),
    managed("s3Bucket.additionalIAMRoles").with_alternative(ALLOW_READING),
    managed("network.cni").with_effect(),
    managed("network.additionalControlPlaneIngressRules").with_effect(),
    managed("network.additionalNodeIngressRules").with_effect(),
    managed("network.nodePortIngressRuleCidrBlocks").with_effect(),
    managed("network.subnets[].cidrBlock").with_effect(),
    managed("network.subnets[].ipv6CidrBlock"),
    managed("network.subnets[].natGatewayId").with_effect(),
    managed("network.subnets[].parentZoneName"),
    managed("network.subnets[].routeTableId").with_effect(),
    managed("network.vpc.availabilityZoneSelection").except(&[r#""Ordered""#]).with_effect(),
    managed("network.vpc.availabilityZoneUsageLimit").except(&["3"]).with_effect(),
    managed("network.vpc.carrierGatewayId"),
    managed("network.vpc.cidrBlock").with_effect(),
    managed("network.vpc.elasticIpPool").with_effect(),
    managed("network.vpc.emptyRoutesDefaultVPCSecurityGroup").except(&["false"]).with_effect(),
    managed("network.vpc.internetGatewayId").with_effect(),
    managed("network.vpc.ipamPool"),
    managed("network.vpc.ipv6"),
    managed("network.vpc.privateDnsHostnameTypeOnLaunch").with_effect(),
    managed("network.vpc.secondaryCidrBlocks").with_effect(),
    managed("network.vpc.subnetSchema").except(&[r#""PreferPrivate""#]).with_effect(),
    managed("network.vpc.tags").with_effect(),
];
