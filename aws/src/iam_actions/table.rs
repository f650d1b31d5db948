//! The rows of the table.

use super::grants::{
    ASSUME_ROLE, BOOTSTRAP_DATA, CHANGE_MARKED, CHANGE_TAGS, CHANGE_TARGETS, CREATE, GRANT_KEYS, LAUNCH, PASS_ROLE,
    READ, READ_KEYS, READ_MACHINE_ROLES, READ_SETTINGS, READ_SPOT_ROLE, TAG_AT_LAUNCH, USE_GROUPS, USE_KEYS,
};
use super::{AccessLevel, Action, AtLaunch, CheckedBy, Grant};

/// An action on bootstrap data.
const fn bootstrap_data(
    service: &'static str,
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action { service, name, access, checked_by: CheckedBy::Call, grants, why }
}

/// A describe action of EC2. None of these actions can be restricted to single resources.
pub(super) const fn describe(name: &'static str, why: &'static str) -> Action {
    Action { service: "ec2", name, access: AccessLevel::List, checked_by: CheckedBy::Call, grants: &[READ], why }
}

/// An action of EC2 that creates, changes or deletes resources.
pub(super) const fn change(name: &'static str, grants: &'static [Grant], why: &'static str) -> Action {
    Action { service: "ec2", name, access: AccessLevel::Write, checked_by: CheckedBy::Call, grants, why }
}

/// An action of Elastic Load Balancing. Both generations use the same action names.
pub(super) const fn load_balancing(
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action { service: "elasticloadbalancing", name, access, checked_by: CheckedBy::Call, grants, why }
}

/// An action that only the checks of infrastructure call.
const fn check(
    service: &'static str,
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action { service, name, access, checked_by: CheckedBy::Call, grants, why }
}

/// An action that EC2 performs with the key of a volume.
const fn key(name: &'static str, access: AccessLevel, grants: &'static [Grant], why: &'static str) -> Action {
    Action { service: "kms", name, access, checked_by: CheckedBy::Launch(AtLaunch::EncryptionKey), grants, why }
}

/// All permissions except those that only managed clusters need, in the order of the documentation.
pub const ACTIONS: &[Action] = &[
    describe("DescribeImages", "finds the image and its root device"),
    describe("DescribeInstances", "follows the machines; looks for an instance before one is launched or given up"),
    describe("DescribeInstanceTypes", "tells in machine templates what a node offers, for the cluster autoscaler"),
    describe(
        "DescribeNetworkInterfaces",
        "finds the subnet and the groups of the network interfaces that machines name, and what uses the network of a \
         managed cluster that is deleted",
    ),
    describe("DescribeRouteTables", "tells public subnets from private ones; finds the route tables of a managed VPC"),
    describe(
        "DescribeSecurityGroups",
        "resolves security groups and checks their VPC; finds the security groups of a managed VPC",
    ),
    describe("DescribeSubnets", "resolves subnets, their zones and VPC"),
    describe("DescribeVpcs", "checks that the VPC is there, and finds its DHCP options"),
    describe("DescribeAvailabilityZones", "checks the zones of subnets"),
    describe(
        "DescribeCapacityReservations",
        "checks the capacity reservations that machines name, and finds their zones",
    ),
    describe(
        "DescribeDhcpOptions",
        "checks the DNS settings of the VPC, and finds the domain of the names of instances",
    ),
    describe(
        "DescribeHosts",
        "checks the dedicated hosts that machines name, finds their zones, and looks for those that are allocated for \
         machines",
    ),
    describe("DescribeInstanceTypeOfferings", "checks that the zones have the instance types"),
    describe("DescribeKeyPairs", "checks that the key pair is there"),
    describe("DescribeNatGateways", "checks the ways out of private subnets"),
    describe("DescribeNetworkAcls", "checks the traffic that subnets allow"),
    describe("DescribePlacementGroups", "checks the placement groups that machines name"),
    describe("DescribeRegions", "checks that the account has enabled the region"),
    describe("DescribeVpcAttribute", "checks the DNS settings of the VPC"),
    describe("DescribeVpcEndpoints", "checks the ways to AWS from subnets without a default route"),
    change("RunInstances", &LAUNCH, "launches machines"),
    change("TerminateInstances", &[CHANGE_MARKED], "ends machines that are deleted"),
    Action {
        service: "ec2",
        name: "CreateTags",
        access: AccessLevel::Tagging,
        checked_by: CheckedBy::Call,
        grants: &[TAG_AT_LAUNCH, CHANGE_TAGS],
        why: "tags what is launched or allocated for machines, and changes tags when additionalTags change",
    },
    Action {
        service: "ec2",
        name: "DeleteTags",
        access: AccessLevel::Tagging,
        checked_by: CheckedBy::Call,
        grants: &[CHANGE_TAGS],
        why: "removes tags that additionalTags no longer has",
    },
    change(
        "ModifyNetworkInterfaceAttribute",
        &[CHANGE_MARKED, USE_GROUPS],
        "gives machines the security groups of a changed additionalSecurityGroups",
    ),
    change(
        "ModifyInstanceMetadataOptions",
        &[CHANGE_MARKED],
        "tightens the options of the metadata service of machines with instanceMetadataOptions",
    ),
    change(
        "ModifyPrivateDnsNameOptions",
        &[CHANGE_MARKED],
        "sets the records of the names of machines whose privateDnsName changes",
    ),
    change("AllocateHosts", &[CREATE], "allocates the dedicated hosts of machines with dynamicHostAllocation"),
    change("ReleaseHosts", &[CHANGE_MARKED], "releases these hosts when the machines are deleted"),
    describe("DescribeAddresses", "looks for the addresses that are allocated for machines with elasticIpPool"),
    describe("DescribePublicIpv4Pools", "sees whether the pools of these machines have free addresses"),
    change("AllocateAddress", &LAUNCH, "allocates an address for each of these machines"),
    change("AssociateAddress", &[CHANGE_MARKED], "gives the instances these addresses"),
    change("ReleaseAddress", &[CHANGE_MARKED], "releases these addresses when the machines are deleted"),
    load_balancing("DescribeLoadBalancers", AccessLevel::Read, &[READ], "finds the load balancers that clusters name"),
    load_balancing(
        "DescribeListeners",
        AccessLevel::Read,
        &[READ],
        "finds the target groups behind these load balancers",
    ),
    load_balancing(
        "DescribeTargetGroups",
        AccessLevel::Read,
        &[READ],
        "sees that the target groups of an AWSCluster exist, and whether they take instances or addresses",
    ),
    load_balancing(
        "DescribeTags",
        AccessLevel::Read,
        &[READ],
        "sees whose a target group or classic load balancer is, before a control plane instance is registered there",
    ),
    load_balancing(
        "DescribeTargetHealth",
        AccessLevel::Read,
        &[READ],
        "sees which control plane instances a target group has, and their health",
    ),
    load_balancing(
        "DescribeTargetGroupAttributes",
        AccessLevel::Read,
        &[READ],
        "learns how long an instance drains that leaves a target group",
    ),
    load_balancing(
        "RegisterTargets",
        AccessLevel::Write,
        &[CHANGE_TARGETS],
        "brings control plane instances into target groups",
    ),
    load_balancing(
        "DeregisterTargets",
        AccessLevel::Write,
        &[CHANGE_TARGETS],
        "takes them out before they are terminated",
    ),
    load_balancing(
        "DescribeInstanceHealth",
        AccessLevel::Read,
        &[READ],
        "sees which instances a classic load balancer has, and their health",
    ),
    load_balancing(
        "DescribeLoadBalancerAttributes",
        AccessLevel::Read,
        &[READ],
        "learns how long an instance drains that leaves a classic load balancer",
    ),
    load_balancing(
        "RegisterInstancesWithLoadBalancer",
        AccessLevel::Write,
        &[CHANGE_TARGETS],
        "brings control plane instances into classic load balancers",
    ),
    load_balancing(
        "DeregisterInstancesFromLoadBalancer",
        AccessLevel::Write,
        &[CHANGE_TARGETS],
        "takes them out before they are terminated",
    ),
    Action {
        service: "iam",
        name: "PassRole",
        access: AccessLevel::Write,
        checked_by: CheckedBy::Launch(AtLaunch::InstanceProfile),
        grants: &[PASS_ROLE],
        why: "launches machines with an instance profile",
    },
    check(
        "iam",
        "GetInstanceProfile",
        AccessLevel::Read,
        &[READ_SETTINGS],
        "checks that the instance profiles of machines exist and have a role",
    ),
    check(
        "iam",
        "GetRole",
        AccessLevel::Read,
        &[READ_SPOT_ROLE],
        "checks that the account has the role for spot instances",
    ),
    check(
        "iam",
        "ListAttachedRolePolicies",
        AccessLevel::List,
        &[READ_MACHINE_ROLES],
        "checks that the roles of machines have permissions",
    ),
    check(
        "iam",
        "ListRolePolicies",
        AccessLevel::List,
        &[READ_MACHINE_ROLES],
        "checks that the roles of machines have permissions",
    ),
    key("CreateGrant", AccessLevel::Permissions, &[GRANT_KEYS], "lets EC2 attach volumes with a key of yours"),
    key("Decrypt", AccessLevel::Write, &[USE_KEYS], "reads encrypted images and volumes with a key of yours"),
    check(
        "kms",
        "DescribeKey",
        AccessLevel::Read,
        &[READ_KEYS],
        "finds the key of a volume, and checks that it is enabled",
    ),
    key("GenerateDataKeyWithoutPlaintext", AccessLevel::Write, &[USE_KEYS], "encrypts new volumes with a key of yours"),
    key(
        "ReEncryptFrom",
        AccessLevel::Write,
        &[USE_KEYS],
        "makes volumes of an image that is encrypted with another key",
    ),
    key("ReEncryptTo", AccessLevel::Write, &[USE_KEYS], "makes volumes of an image that is encrypted with another key"),
    check(
        "s3",
        "GetBucketAcl",
        AccessLevel::Read,
        &[READ_SETTINGS],
        "checks that the bucket for bootstrap data is not public",
    ),
    check(
        "s3",
        "GetBucketLocation",
        AccessLevel::Read,
        &[READ_SETTINGS],
        "checks that the bucket for bootstrap data is there, in the region",
    ),
    check(
        "s3",
        "GetBucketPolicyStatus",
        AccessLevel::Read,
        &[READ_SETTINGS],
        "checks that the bucket for bootstrap data is not public",
    ),
    check(
        "s3",
        "GetBucketPublicAccessBlock",
        AccessLevel::Read,
        &[READ_SETTINGS],
        "checks that the bucket for bootstrap data is not public",
    ),
    bootstrap_data(
        "secretsmanager",
        "CreateSecret",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "keeps bootstrap data until the instance has fetched it",
    ),
    bootstrap_data(
        "secretsmanager",
        "PutSecretValue",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "replaces bootstrap data after an attempt that launched nothing",
    ),
    bootstrap_data(
        "secretsmanager",
        "DeleteSecret",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "deletes bootstrap data that no instance needs any longer",
    ),
    Action {
        checked_by: CheckedBy::Actions(&["CreateSecret"]),
        ..bootstrap_data(
            "secretsmanager",
            "TagResource",
            AccessLevel::Tagging,
            &[BOOTSTRAP_DATA],
            "tags bootstrap data as the cluster's",
        )
    },
    bootstrap_data(
        "ssm",
        "PutParameter",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "keeps bootstrap data until the instance has fetched it",
    ),
    bootstrap_data(
        "ssm",
        "DeleteParameters",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "deletes bootstrap data that no instance needs any longer",
    ),
    Action {
        service: "ssm",
        name: "GetParameter",
        access: AccessLevel::Read,
        checked_by: CheckedBy::Call,
        grants: &[READ_SETTINGS],
        why: "finds the EKS image of a machine with `ami.eksLookupType`",
    },
    Action {
        checked_by: CheckedBy::Actions(&["PutParameter"]),
        ..bootstrap_data(
            "ssm",
            "AddTagsToResource",
            AccessLevel::Tagging,
            &[BOOTSTRAP_DATA],
            "tags bootstrap data as the cluster's",
        )
    },
    bootstrap_data(
        "s3",
        "PutObject",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "keeps bootstrap data for Ignition until the instance has fetched it",
    ),
    bootstrap_data(
        "s3",
        "DeleteObject",
        AccessLevel::Write,
        &[BOOTSTRAP_DATA],
        "deletes bootstrap data that no instance needs any longer",
    ),
    Action {
        checked_by: CheckedBy::Url,
        ..bootstrap_data(
            "s3",
            "GetObject",
            AccessLevel::Read,
            &[BOOTSTRAP_DATA],
            "lets instances fetch bootstrap data by a presigned URL; needed with `presignedURLDuration` only",
        )
    },
    check(
        "servicequotas",
        "GetServiceQuota",
        AccessLevel::Read,
        &[READ],
        "checks that the quotas are large enough for the virtual CPUs and the security groups of machines",
    ),
    Action {
        service: "sts",
        name: "AssumeRole",
        access: AccessLevel::Write,
        checked_by: CheckedBy::Call,
        grants: &[ASSUME_ROLE],
        why: "becomes the role of an AWSClusterRoleIdentity",
    },
    Action {
        service: "sts",
        name: "GetCallerIdentity",
        access: AccessLevel::Read,
        checked_by: CheckedBy::Call,
        grants: &[],
        why: "learns the account; AWS allows it to everybody",
    },
];
