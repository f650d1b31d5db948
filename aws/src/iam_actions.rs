//! Every permission that the provider needs in AWS, with what it is for: the one table that policies and their
//! documentation are made from. A test sends all of it, and end-to-end tests fail on a call that is not in it.

/// A permission, as IAM names it.
#[derive(Clone, Copy, Debug)]
pub struct Action {
    /// Prefix of the service in IAM: `ec2`.
    pub service: &'static str,
    /// Name within the service: `RunInstances`.
    pub name: &'static str,
    /// What AWS's service authorization reference calls the access level.
    pub access: Access,
    /// How it comes to be asked for.
    pub asked: Asked,
    /// What it must be allowed on; nothing where AWS allows it to everybody.
    pub grants: &'static [Grant],
    /// What the provider needs it for.
    pub why: &'static str,
}

/// Access level of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shows which resources there are.
    List,
    /// Shows what is in a resource.
    Read,
    /// Changes something.
    Write,
    /// Changes tags alone.
    Tagging,
    /// Changes who may do what.
    Permissions,
}

/// How a permission comes to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The provider calls the action.
    Called,
    /// AWS checks it within RunInstances, where the request has what is named here.
    AtLaunch(AtLaunch),
}

/// What a launch asks for that needs a further permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLaunch {
    /// Tags: every launch of ours.
    Tags,
    /// An instance profile.
    InstanceProfile,
    /// A volume with an encryption key of the user's.
    EncryptionKey,
}

/// Resources and the condition under which an action is allowed on them. Actions with the same grant share a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Id of the statement: letters and digits, as IAM has them.
    pub name: &'static str,
    /// On what.
    pub resources: Resources,
    /// Under which condition.
    pub condition: Condition,
}

/// The resources of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resources {
    /// All: the action knows no single ones.
    All,
    /// ARNs without `arn:<partition>:`.
    Arns(&'static [&'static str]),
    /// What only the user can name.
    Named(Named),
}

/// Resources that only the user can name. Without any there is no need for the permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Roles in the instance profiles of machines.
    MachineRoles,
    /// Roles in AWSClusterRoleIdentities.
    IdentityRoles,
    /// Keys in `encryptionKey` of volumes, or of encrypted images.
    EncryptionKeys,
}

/// The condition of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None.
    Always,
    /// What is created gets the tag that marks machines of the provider.
    MarkedAtLaunch,
    /// What is changed has that tag. In a policy for single clusters, it is also tagged as of a Machine of theirs.
    Marked,
    /// None. In a policy for single clusters, what is changed has the tag that gives it to one of them.
    GivenToCluster,
    /// Within RunInstances.
    WithinLaunch,
    /// The role goes to an instance.
    PassedToInstance,
    /// EC2 asks, on our behalf.
    ThroughEc2,
    /// The grant of the key is for a service of AWS.
    GrantedToAws,
}

const READ: Grant = Grant {
    name: "Read",
    resources: Resources::All,
    condition: Condition::Always,
};

/// What a launch creates.
const CREATED: Resources = Resources::Arns(&["ec2:*:*:instance/*", "ec2:*:*:volume/*", "ec2:*:*:network-interface/*"]);

/// Not `CreateTags` by itself: it could put our mark on what is not ours.
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
        // Images belong to no account as far as their ARNs are concerned.
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

/// EC2's describes: none of them can be allowed on single resources.
const fn describe(name: &'static str, why: &'static str) -> Action {
    Action {
        service: "ec2",
        name,
        access: Access::List,
        asked: Asked::Called,
        grants: &[READ],
        why,
    }
}

/// A call to Elastic Load Balancing, which names the calls of both its generations alike.
const fn load_balancing(name: &'static str, access: Access, grants: &'static [Grant], why: &'static str) -> Action {
    Action {
        service: "elasticloadbalancing",
        name,
        access,
        asked: Asked::Called,
        grants,
        why,
    }
}

/// What EC2 does with the key of a volume.
const fn key(name: &'static str, access: Access, grants: &'static [Grant], why: &'static str) -> Action {
    Action {
        service: "kms",
        name,
        access,
        asked: Asked::AtLaunch(AtLaunch::EncryptionKey),
        grants,
        why,
    }
}

/// All of them, in the order of the documentation.
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
    Action {
        service: "ec2",
        name: "RunInstances",
        access: Access::Write,
        asked: Asked::Called,
        grants: &LAUNCH,
        why: "launches machines",
    },
    Action {
        service: "ec2",
        name: "TerminateInstances",
        access: Access::Write,
        asked: Asked::Called,
        grants: &[TERMINATE],
        why: "ends machines that are deleted",
    },
    Action {
        service: "ec2",
        name: "CreateTags",
        access: Access::Tagging,
        asked: Asked::AtLaunch(AtLaunch::Tags),
        grants: &[TAG_AT_LAUNCH],
        why: "tags instances, volumes and network interfaces as they are launched; existing ones are never tagged",
    },
    load_balancing(
        "DescribeLoadBalancers",
        Access::Read,
        &[READ],
        "finds the load balancer that an AWSCluster names",
    ),
    load_balancing(
        "DescribeListeners",
        Access::Read,
        &[READ],
        "finds the target groups behind that load balancer",
    ),
    load_balancing(
        "DescribeTargetGroups",
        Access::Read,
        &[READ],
        "tells target groups of instances from those of addresses",
    ),
    load_balancing(
        "DescribeTags",
        Access::Read,
        &[READ],
        "sees whose a target group or classic load balancer is, before a control plane instance is registered there",
    ),
    load_balancing(
        "DescribeTargetHealth",
        Access::Read,
        &[READ],
        "sees which control plane instances a target group has, and their health",
    ),
    load_balancing(
        "DescribeTargetGroupAttributes",
        Access::Read,
        &[READ],
        "learns how long an instance drains that leaves a target group",
    ),
    load_balancing(
        "RegisterTargets",
        Access::Write,
        &[CHANGE_TARGET_GROUPS],
        "brings control plane instances into target groups",
    ),
    load_balancing(
        "DeregisterTargets",
        Access::Write,
        &[CHANGE_TARGET_GROUPS],
        "takes them out before they are terminated",
    ),
    load_balancing(
        "DescribeInstanceHealth",
        Access::Read,
        &[READ],
        "sees which instances a classic load balancer has, and their health",
    ),
    load_balancing(
        "DescribeLoadBalancerAttributes",
        Access::Read,
        &[READ],
        "learns how long an instance drains that leaves a classic load balancer",
    ),
    load_balancing(
        "RegisterInstancesWithLoadBalancer",
        Access::Write,
        &[CHANGE_CLASSIC_LOAD_BALANCERS],
        "brings control plane instances into classic load balancers",
    ),
    load_balancing(
        "DeregisterInstancesFromLoadBalancer",
        Access::Write,
        &[CHANGE_CLASSIC_LOAD_BALANCERS],
        "takes them out before they are terminated",
    ),
    Action {
        service: "iam",
        name: "PassRole",
        access: Access::Write,
        asked: Asked::AtLaunch(AtLaunch::InstanceProfile),
        grants: &[PASS_ROLE],
        why: "launches machines with an instance profile",
    },
    key(
        "CreateGrant",
        Access::Permissions,
        &[GRANT_KEYS],
        "lets EC2 attach volumes with a key of yours",
    ),
    key(
        "Decrypt",
        Access::Write,
        &[USE_KEYS],
        "reads encrypted images and volumes with a key of yours",
    ),
    key("DescribeKey", Access::Read, &[USE_KEYS], "finds the key of a volume"),
    key(
        "GenerateDataKeyWithoutPlaintext",
        Access::Write,
        &[USE_KEYS],
        "encrypts new volumes with a key of yours",
    ),
    key(
        "ReEncryptFrom",
        Access::Write,
        &[USE_KEYS],
        "makes volumes of an image that is encrypted with another key",
    ),
    key(
        "ReEncryptTo",
        Access::Write,
        &[USE_KEYS],
        "makes volumes of an image that is encrypted with another key",
    ),
    Action {
        service: "sts",
        name: "AssumeRole",
        access: Access::Write,
        asked: Asked::Called,
        grants: &[ASSUME_ROLE],
        why: "becomes the role of an AWSClusterRoleIdentity",
    },
    Action {
        service: "sts",
        name: "GetCallerIdentity",
        access: Access::Read,
        asked: Asked::Called,
        grants: &[],
        why: "learns the account; AWS allows it to everybody",
    },
];

/// The row of an action that the provider calls. The service is that of the request's signature, which for those that
/// the provider uses is IAM's prefix.
pub fn called(service: &str, name: &str) -> Option<&'static Action> {
    ACTIONS
        .iter()
        .find(|action| action.asked == Asked::Called && action.service == service && action.name == name)
}
