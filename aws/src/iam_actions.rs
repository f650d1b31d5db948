//! Every AWS permission that the provider needs, with its purpose: the one table that policies and their documentation
//! are generated from. A test compares all of it with the calls, and end-to-end tests fail on a call that the table
//! lacks.

/// A permission, by its IAM name.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// Prefix of the service in IAM: `ec2`.
    pub service: &'static str,
    /// Name within the service: `RunInstances`.
    pub name: &'static str,
    /// The access level in AWS's service authorization reference.
    pub access: AccessLevel,
    /// The way in which AWS checks the permission.
    pub asked: Asked,
    /// The resources and conditions of the permission; empty where AWS allows the action to every caller.
    pub grants: &'static [Grant],
    /// The purpose of the permission.
    pub why: &'static str,
}

/// Access level of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLevel {
    /// The action lists resources.
    List,
    /// The action reads the content of a resource.
    Read,
    /// The action changes a resource.
    Write,
    /// The action changes tags only.
    Tagging,
    /// The action changes permissions.
    Permissions,
}

/// The way in which AWS checks a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The provider calls the action.
    Called,
    /// AWS checks the permission within RunInstances, where the request has this property.
    AtLaunch(AtLaunch),
}

/// A property of a launch request that needs a further permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLaunch {
    /// Tags, which every launch of this provider has.
    Tags,
    /// An instance profile.
    InstanceProfile,
    /// A volume with an encryption key of the user's.
    EncryptionKey,
}

/// Resources and the condition under which an action is allowed on them. Actions with the same grant share a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The id of the statement: letters and digits, as IAM requires.
    pub name: &'static str,
    /// The resources.
    pub resources: Resources,
    /// The condition.
    pub condition: Condition,
}

/// The resources of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resources {
    /// All resources: the action does not support single resources.
    All,
    /// ARNs without `arn:<partition>:`.
    Arns(&'static [&'static str]),
    /// Resources that only the user can name.
    Named(Named),
}

/// Resources that only the user can name. A policy without any of them does not have the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The roles in the instance profiles of machines.
    MachineRoles,
    /// The roles in AWSClusterRoleIdentities.
    IdentityRoles,
    /// The keys in `encryptionKey` of volumes, or of encrypted images.
    EncryptionKeys,
}

/// The condition of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No condition.
    Always,
    /// The created resource gets the tag that marks machines of the provider.
    MarkedAtLaunch,
    /// The changed resource has that tag. In a policy for single clusters, the resource also has the tag of a Machine
    /// of these clusters.
    Marked,
    /// None. In a policy for single clusters, the changed resource has the tag that gives it to one of the clusters.
    GivenToCluster,
    /// The call is part of RunInstances.
    WithinLaunch,
    /// The role is passed to an EC2 instance.
    PassedToInstance,
    /// EC2 makes the call on behalf of the provider.
    ThroughEc2,
    /// The grant of the key is for an AWS service.
    GrantedToAws,
}

const READ: Grant = Grant {
    name: "Read",
    resources: Resources::All,
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
    key(
        "DescribeKey",
        AccessLevel::Read,
        &[USE_KEYS],
        "finds the key of a volume",
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

/// The row of an action that the provider calls. `service` is the service of the request's signature, which for the
/// services of this provider equals the IAM prefix.
pub fn called(service: &str, name: &str) -> Option<&'static Action> {
    ACTIONS
        .iter()
        .find(|action| action.asked == Asked::Called && action.service == service && action.name == name)
}
