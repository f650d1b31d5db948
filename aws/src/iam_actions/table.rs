//! The rows of the table, and their grants.

use super::{AccessLevel, Action, Asked, AtLaunch, Condition, Grant, Named, Resources};

const READ: Grant = Grant {
    name: "Read",
    resources: Resources::All,
    condition: Condition::Always,
};

const READ_INSTANCE_PROFILES: Grant = Grant {
    name: "ReadInstanceProfiles",
    resources: Resources::Arns(&["iam::*:instance-profile/*"]),
    condition: Condition::Always,
};

const READ_MACHINE_ROLES: Grant = Grant {
    name: "ReadMachineRoles",
    resources: Resources::Named(Named::MachineRoles),
    condition: Condition::Always,
};

const READ_SPOT_ROLE: Grant = Grant {
    name: "ReadSpotRole",
    resources: Resources::Arns(&["iam::*:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"]),
    condition: Condition::Always,
};

/// Not through EC2 alone: the checks of infrastructure look at keys, too.
const READ_KEYS: Grant = Grant {
    name: "ReadEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::Always,
};

/// The settings of buckets, and nothing that is in them. The ARNs of buckets have no account.
const READ_BUCKETS: Grant = Grant {
    name: "ReadBucketSettings",
    resources: Resources::Arns(&["s3:::*"]),
    condition: Condition::Always,
};

/// The resources that a launch creates.
const CREATED: Resources = Resources::Arns(&["ec2:*:*:instance/*", "ec2:*:*:volume/*", "ec2:*:*:network-interface/*"]);

/// Tagging is allowed within RunInstances only: `CreateTags` by itself could put the provider's tag on foreign
/// resources.
const TAG_AT_LAUNCH: Grant = Grant {
    name: "TagWhatIsLaunched",
    resources: CREATED,
    condition: Condition::WithinLaunch,
};

const LAUNCH: [Grant; 2] = [
    Grant {
        name: "LaunchMarked",
        resources: CREATED,
        condition: Condition::MarkedAtLaunch,
    },
    Grant {
        name: "LaunchWith",
        // The ARNs of images contain no account.
        resources: Resources::Arns(&[
            "ec2:*::image/*",
            "ec2:*:*:subnet/*",
            "ec2:*:*:security-group/*",
            "ec2:*:*:key-pair/*",
            "ec2:*:*:placement-group/*",
            "ec2:*:*:capacity-reservation/*",
            "ec2:*:*:dedicated-host/*",
            // An interface that the launch creates has no id yet, so that this pattern means existing ones only.
            "ec2:*:*:network-interface/eni-*",
        ]),
        condition: Condition::Always,
    },
];

const TERMINATE: Grant = Grant {
    name: "TerminateMarked",
    resources: Resources::Arns(&["ec2:*:*:instance/*"]),
    condition: Condition::Marked,
};

const CHANGE_TARGET_GROUPS: Grant = Grant {
    name: "ChangeTargetGroups",
    resources: Resources::Arns(&["elasticloadbalancing:*:*:targetgroup/*/*"]),
    condition: Condition::GivenToCluster,
};

const CHANGE_CLASSIC_LOAD_BALANCERS: Grant = Grant {
    name: "ChangeClassicLoadBalancers",
    resources: Resources::Arns(&["elasticloadbalancing:*:*:loadbalancer/*"]),
    condition: Condition::GivenToCluster,
};

const PASS_ROLE: Grant = Grant {
    name: "PassMachineRoles",
    resources: Resources::Named(Named::MachineRoles),
    condition: Condition::PassedToInstance,
};

const USE_KEYS: Grant = Grant {
    name: "UseEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::ThroughEc2,
};

const GRANT_KEYS: Grant = Grant {
    name: "GrantEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::GrantedToAws,
};

const ASSUME_ROLE: Grant = Grant {
    name: "AssumeIdentityRoles",
    resources: Resources::Named(Named::IdentityRoles),
    condition: Condition::Always,
};

/// Bootstrap data in Secrets Manager. The names are within those that CAPA's policies allow.
const SECRETS: Grant = Grant {
    name: "KeepBootstrapSecrets",
    resources: Resources::Arns(&["secretsmanager:*:*:secret:aws.cluster.x-k8s.io/*"]),
    condition: Condition::Always,
};

/// The same in Parameter Store.
const PARAMETERS: Grant = Grant {
    name: "KeepBootstrapParameters",
    resources: Resources::Arns(&["ssm:*:*:parameter/cluster.x-k8s.io/*"]),
    condition: Condition::Always,
};

/// An action on bootstrap data.
const fn bootstrap_data(
    service: &'static str,
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action {
        service,
        name,
        access,
        asked: Asked::Called,
        grants,
        why,
    }
}

/// A describe action of EC2. None of these actions can be restricted to single resources.
const fn describe(name: &'static str, why: &'static str) -> Action {
    Action {
        service: "ec2",
        name,
        access: AccessLevel::List,
        asked: Asked::Called,
        grants: &[READ],
        why,
    }
}

/// An action of Elastic Load Balancing. Both generations use the same action names.
const fn load_balancing(
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action {
        service: "elasticloadbalancing",
        name,
        access,
        asked: Asked::Called,
        grants,
        why,
    }
}

/// An action that only the checks of infrastructure call.
const fn check(
    service: &'static str,
    name: &'static str,
    access: AccessLevel,
    grants: &'static [Grant],
    why: &'static str,
) -> Action {
    Action {
        service,
        name,
        access,
        asked: Asked::Called,
        grants,
        why,
    }
}

/// An action that EC2 performs with the key of a volume.
const fn key(name: &'static str, access: AccessLevel, grants: &'static [Grant], why: &'static str) -> Action {
    Action {
        service: "kms",
        name,
        access,
        asked: Asked::AtLaunch(AtLaunch::EncryptionKey),
        grants,
        why,
    }
}

/// All permissions, in the order of the documentation.
pub const ACTIONS: &[Action] = &[
    describe("DescribeImages", "finds the image and its root device"),
    describe(
        "DescribeInstances",
        "follows the machines; looks for an instance before one is launched or given up",
    ),
    describe(
        "DescribeInstanceTypes",
        "tells in machine templates what a node offers, for the cluster autoscaler",
    ),
    describe(
        "DescribeNetworkInterfaces",
        "finds the subnet and the groups of the network interfaces that machines name",
    ),
    describe("DescribeRouteTables", "tells public subnets from private ones"),
    describe(
        "DescribeSecurityGroups",
        "resolves security groups and checks their VPC",
    ),
    describe("DescribeSubnets", "resolves subnets, their zones and VPC"),
    describe("DescribeVpcs", "checks that the VPC is there"),
    describe("DescribeAvailabilityZones", "checks the zones of subnets"),
    describe(
        "DescribeCapacityReservations",
        "checks the capacity reservations that machines name",
    ),
    describe("DescribeDhcpOptions", "checks the DNS settings of the VPC"),
    describe("DescribeHosts", "checks the dedicated hosts that machines name"),
    describe(
        "DescribeInstanceTypeOfferings",
        "checks that the zones have the instance types",
    ),
    describe("DescribeKeyPairs", "checks that the key pair is there"),
    describe("DescribeNatGateways", "checks the ways out of private subnets"),
    describe("DescribeNetworkAcls", "checks the traffic that subnets allow"),
    describe(
        "DescribePlacementGroups",
        "checks the placement groups that machines name",
    ),
    describe("DescribeRegions", "checks that the account has enabled the region"),
    describe("DescribeVpcAttribute", "checks the DNS settings of the VPC"),
    describe(
        "DescribeVpcEndpoints",
        "checks the ways to AWS from subnets without a default route",
    ),
    Action {
        service: "ec2",
        name: "RunInstances",
        access: AccessLevel::Write,
        asked: Asked::Called,
        grants: &LAUNCH,
        why: "launches machines",
    },
    Action {
        service: "ec2",
        name: "TerminateInstances",
        access: AccessLevel::Write,
        asked: Asked::Called,
        grants: &[TERMINATE],
        why: "ends machines that are deleted",
    },
    Action {
        service: "ec2",
        name: "CreateTags",
        access: AccessLevel::Tagging,
        asked: Asked::AtLaunch(AtLaunch::Tags),
        grants: &[TAG_AT_LAUNCH],
        why: "tags instances, volumes and network interfaces as they are launched; existing ones are never tagged",
    },
    load_balancing(
        "DescribeLoadBalancers",
        AccessLevel::Read,
        &[READ],
        "finds the load balancer that an AWSCluster names",
    ),
    load_balancing(
        "DescribeListeners",
        AccessLevel::Read,
        &[READ],
        "finds the target groups behind that load balancer",
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
        &[CHANGE_TARGET_GROUPS],
        "brings control plane instances into target groups",
    ),
    load_balancing(
        "DeregisterTargets",
        AccessLevel::Write,
        &[CHANGE_TARGET_GROUPS],
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
        &[CHANGE_CLASSIC_LOAD_BALANCERS],
        "brings control plane instances into classic load balancers",
    ),
    load_balancing(
        "DeregisterInstancesFromLoadBalancer",
        AccessLevel::Write,
        &[CHANGE_CLASSIC_LOAD_BALANCERS],
        "takes them out before they are terminated",
    ),
    Action {
        service: "iam",
        name: "PassRole",
        access: AccessLevel::Write,
        asked: Asked::AtLaunch(AtLaunch::InstanceProfile),
        grants: &[PASS_ROLE],
        why: "launches machines with an instance profile",
    },
    check(
        "iam",
        "GetInstanceProfile",
        AccessLevel::Read,
        &[READ_INSTANCE_PROFILES],
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
    key(
        "CreateGrant",
        AccessLevel::Permissions,
        &[GRANT_KEYS],
        "lets EC2 attach volumes with a key of yours",
    ),
    key(
        "Decrypt",
        AccessLevel::Write,
        &[USE_KEYS],
        "reads encrypted images and volumes with a key of yours",
    ),
    check(
        "kms",
        "DescribeKey",
        AccessLevel::Read,
        &[READ_KEYS],
        "finds the key of a volume, and checks that it is enabled",
    ),
    key(
        "GenerateDataKeyWithoutPlaintext",
        AccessLevel::Write,
        &[USE_KEYS],
        "encrypts new volumes with a key of yours",
    ),
    key(
        "ReEncryptFrom",
        AccessLevel::Write,
        &[USE_KEYS],
        "makes volumes of an image that is encrypted with another key",
    ),
    key(
        "ReEncryptTo",
        AccessLevel::Write,
        &[USE_KEYS],
        "makes volumes of an image that is encrypted with another key",
    ),
    check(
        "s3",
        "GetBucketAcl",
        AccessLevel::Read,
        &[READ_BUCKETS],
        "checks that the bucket for bootstrap data is not public",
    ),
    check(
        "s3",
        "GetBucketLocation",
        AccessLevel::Read,
        &[READ_BUCKETS],
        "checks that the bucket for bootstrap data is there, in the region",
    ),
    check(
        "s3",
        "GetBucketPolicyStatus",
        AccessLevel::Read,
        &[READ_BUCKETS],
        "checks that the bucket for bootstrap data is not public",
    ),
    check(
        "s3",
        "GetBucketPublicAccessBlock",
        AccessLevel::Read,
        &[READ_BUCKETS],
        "checks that the bucket for bootstrap data is not public",
    ),
    bootstrap_data(
        "secretsmanager",
        "CreateSecret",
        AccessLevel::Write,
        &[SECRETS],
        "keeps bootstrap data until the instance has fetched it",
    ),
    bootstrap_data(
        "secretsmanager",
        "PutSecretValue",
        AccessLevel::Write,
        &[SECRETS],
        "replaces bootstrap data after an attempt that launched nothing",
    ),
    bootstrap_data(
        "secretsmanager",
        "DeleteSecret",
        AccessLevel::Write,
        &[SECRETS],
        "deletes bootstrap data that no instance needs any longer",
    ),
    Action {
        asked: Asked::Within("CreateSecret"),
        ..bootstrap_data(
            "secretsmanager",
            "TagResource",
            AccessLevel::Tagging,
            &[SECRETS],
            "tags bootstrap data as the cluster's",
        )
    },
    bootstrap_data(
        "ssm",
        "PutParameter",
        AccessLevel::Write,
        &[PARAMETERS],
        "keeps bootstrap data until the instance has fetched it",
    ),
    bootstrap_data(
        "ssm",
        "DeleteParameters",
        AccessLevel::Write,
        &[PARAMETERS],
        "deletes bootstrap data that no instance needs any longer",
    ),
    Action {
        asked: Asked::Within("PutParameter"),
        ..bootstrap_data(
            "ssm",
            "AddTagsToResource",
            AccessLevel::Tagging,
            &[PARAMETERS],
            "tags bootstrap data as the cluster's",
        )
    },
    check(
        "servicequotas",
        "GetServiceQuota",
        AccessLevel::Read,
        &[READ],
        "checks that the quotas are large enough for the virtual CPUs of machines",
    ),
    Action {
        service: "sts",
        name: "AssumeRole",
        access: AccessLevel::Write,
        asked: Asked::Called,
        grants: &[ASSUME_ROLE],
        why: "becomes the role of an AWSClusterRoleIdentity",
    },
    Action {
        service: "sts",
        name: "GetCallerIdentity",
        access: AccessLevel::Read,
        asked: Asked::Called,
        grants: &[],
        why: "learns the account; AWS allows it to everybody",
    },
];
