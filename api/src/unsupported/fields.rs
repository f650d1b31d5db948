//! The table: every spec field without effect yet, by its highest parent.

use super::{Consequence, Field, When};
use crate::conditions::{ConditionType, Reason};

/// A launch does not support the field yet.
const NOT_LAUNCHED: Consequence = Consequence {
    condition: Some((ConditionType::InstanceReady, Reason::UnsupportedField)),
    what: "a machine that sets it is not launched",
};
/// The number follows from the bootstrap data.
const COUNTED: Consequence = Consequence {
    condition: None,
    what: "there are as many secrets as the bootstrap data needs, and `status.bootstrapSecrets` says how many",
};
/// The only supported format of bootstrap data is cloud-init.
const NO_IGNITION: Consequence = Consequence {
    condition: Some((ConditionType::BootstrapDataReady, Reason::UnsupportedFormat)),
    what: "a machine that sets it waits and is not launched",
};
/// The AWSCluster is reconciled without the field, and a condition names the field.
const fn goes_on(what: &'static str) -> Consequence {
    Consequence {
        condition: Some((ConditionType::PreflightPassed, Reason::UnsupportedField)),
        what,
    }
}
/// An instance keeps the value of its launch.
const KEPT: Consequence = Consequence {
    condition: None,
    what: "the instance keeps what it was launched with",
};
/// An instance keeps the value of its launch, and a condition shows a difference from the recorded groups.
const DRIFTED: Consequence = Consequence {
    condition: Some((ConditionType::NetworkUpToDate, Reason::Drifted)),
    what: "the instance keeps the groups it was launched with, and changed ids show",
};
/// An AWSCluster that is not unmanaged is not reconciled at all.
const NOT_MANAGED: Consequence = Consequence {
    condition: Some((ConditionType::Ready, Reason::NotManagedYet)),
    what: "the managed mode, to which it belongs, is not there",
};

const LEAVE_OUT: &str = "leave it out";

const fn machine(path: &'static str) -> Field {
    Field {
        kind: "AWSMachine",
        path,
        neutral: &[],
        when: When::Set,
        consequence: NOT_LAUNCHED,
        instead: LEAVE_OUT,
    }
}

const fn cluster(path: &'static str, consequence: Consequence, instead: &'static str) -> Field {
    Field {
        kind: "AWSCluster",
        consequence,
        instead,
        ..machine(path)
    }
}

const fn managed(path: &'static str) -> Field {
    Field {
        when: When::Managed,
        ..cluster(path, NOT_MANAGED, "bring what it describes, and name it in `network`")
    }
}

impl Field {
    const fn but(self, neutral: &'static [&'static str]) -> Self {
        Self { neutral, ..self }
    }

    const fn so(self, consequence: Consequence, instead: &'static str) -> Self {
        Self {
            consequence,
            instead,
            ..self
        }
    }

    const fn changed(self) -> Self {
        Self {
            when: When::Changed,
            ..self.so(KEPT, "replace the Machine")
        }
    }
}

/// The table.
pub(super) const FIELDS: &[Field] = &[
    cluster(
        "s3Bucket",
        goes_on("no bootstrap data is kept in a bucket"),
        "use cloud-init with data in the user data",
    ),
    managed("partition"),
    managed("controlPlaneLoadBalancer.scheme").but(&[r#""internet-facing""#]),
    managed("controlPlaneLoadBalancer.crossZoneLoadBalancing").but(&["false"]),
    managed("controlPlaneLoadBalancer.subnets"),
    managed("controlPlaneLoadBalancer.healthCheckProtocol"),
    managed("controlPlaneLoadBalancer.healthCheck"),
    managed("controlPlaneLoadBalancer.additionalSecurityGroups"),
    managed("controlPlaneLoadBalancer.additionalListeners"),
    managed("controlPlaneLoadBalancer.ingressRules"),
    managed("controlPlaneLoadBalancer.disableHostsRewrite").but(&["false"]),
    managed("controlPlaneLoadBalancer.preserveClientIP").but(&["false"]),
    managed("controlPlaneLoadBalancer.targetGroupIPType"),
    managed("controlPlaneLoadBalancer.dnsResolutionCheck"),
    managed("secondaryControlPlaneLoadBalancer"),
    managed("bastion"),
    managed("network.cni"),
    managed("network.additionalControlPlaneIngressRules"),
    managed("network.additionalNodeIngressRules"),
    managed("network.nodePortIngressRuleCidrBlocks"),
    managed("network.subnets[].cidrBlock"),
    managed("network.subnets[].ipv6CidrBlock"),
    managed("network.subnets[].natGatewayId"),
    managed("network.subnets[].parentZoneName"),
    managed("network.subnets[].routeTableId"),
    managed("network.vpc.availabilityZoneSelection").but(&[r#""Ordered""#]),
    managed("network.vpc.availabilityZoneUsageLimit").but(&["3"]),
    managed("network.vpc.carrierGatewayId"),
    managed("network.vpc.cidrBlock"),
    managed("network.vpc.elasticIpPool"),
    managed("network.vpc.emptyRoutesDefaultVPCSecurityGroup").but(&["false"]),
    managed("network.vpc.internetGatewayId"),
    managed("network.vpc.ipamPool"),
    managed("network.vpc.ipv6"),
    managed("network.vpc.privateDnsHostnameTypeOnLaunch"),
    managed("network.vpc.secondaryCidrBlocks"),
    managed("network.vpc.subnetSchema").but(&[r#""PreferPrivate""#]),
    managed("network.vpc.tags"),
    machine("ami.eksLookupType").so(NOT_LAUNCHED, "set `ami.id`"),
    machine("elasticIpPool"),
    machine("privateDnsName.enableResourceNameDnsARecord").changed(),
    machine("privateDnsName.enableResourceNameDnsAAAARecord").changed(),
    machine("cloudInit.secretCount").so(COUNTED, LEAVE_OUT),
    machine("ignition").so(NO_IGNITION, "use cloud-init"),
    machine("dynamicHostAllocation"),
    machine("additionalTags").changed(),
    machine("additionalSecurityGroups")
        .changed()
        .so(DRIFTED, "replace the Machine"),
];
