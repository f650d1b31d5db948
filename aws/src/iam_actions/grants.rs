//! The grants of the table: resources, and the conditions under which actions are allowed on them.

use super::{Condition, Grant, Named, Resources};

pub(super) const READ: Grant = Grant { name: "Read", resources: Resources::All, condition: Condition::Always };

/// Reads of instance profiles, of the settings of buckets but not their objects, and of the parameters that AWS
/// publishes. The ARNs of buckets and of these parameters contain no account.
pub(super) const READ_SETTINGS: Grant = Grant {
    name: "ReadSettings",
    resources: Resources::Arns(&["iam::*:instance-profile/*", "s3:::*", "ssm:*::parameter/aws/service/eks/*"]),
    condition: Condition::Always,
};

pub(super) const READ_MACHINE_ROLES: Grant =
    Grant { name: "ReadMachineRoles", resources: Resources::Named(Named::MachineRoles), condition: Condition::Always };

pub(super) const READ_SPOT_ROLE: Grant = Grant {
    name: "ReadSpotRole",
    resources: Resources::Arns(&["iam::*:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"]),
    condition: Condition::Always,
};

/// Not restricted to calls through EC2, because the checks of infrastructure also read keys.
pub(super) const READ_KEYS: Grant = Grant {
    name: "ReadEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::Always,
};

/// The resources that a launch creates.
const CREATED: Resources = Resources::Arns(&["ec2:*:*:instance/*", "ec2:*:*:volume/*", "ec2:*:*:network-interface/*"]);

/// The resources that a launch creates, and the host and the address that are allocated for an instance.
const CREATED_FOR_MACHINES: Resources = Resources::Arns(&[
    "ec2:*:*:instance/*",
    "ec2:*:*:volume/*",
    "ec2:*:*:network-interface/*",
    "ec2:*:*:dedicated-host/*",
    "ec2:*:*:elastic-ip/*",
]);

/// Resources without the provider's tag may be tagged only within the call that creates them. Otherwise, `CreateTags`
/// could put that tag on somebody else's resources.
pub(super) const TAG_AT_LAUNCH: Grant =
    Grant { name: "TagAtLaunch", resources: CREATED_FOR_MACHINES, condition: Condition::WithinLaunch };

/// Changes of tags of running machines, except for the tags that identify the owner of a resource.
pub(super) const CHANGE_TAGS: Grant =
    Grant { name: "ChangeOtherTags", resources: CREATED, condition: Condition::MarkedForOtherTags };

/// Changes and deletions of resources that belong to machines. They share one statement, because IAM limits the length
/// of a policy. Each action applies to one type of resource.
pub(super) const CHANGE_MARKED: Grant = Grant {
    name: "ChangeMarked",
    resources: Resources::Arns(&[
        "ec2:*:*:instance/*",
        "ec2:*:*:network-interface/*",
        "ec2:*:*:dedicated-host/*",
        "ec2:*:*:elastic-ip/*",
    ]),
    condition: Condition::Marked,
};

/// The security groups that an interface gets.
pub(super) const USE_GROUPS: Grant = Grant {
    name: "UseGroups",
    resources: Resources::Arns(&["ec2:*:*:security-group/*"]),
    condition: Condition::Always,
};

pub(super) const CREATE: Grant =
    Grant { name: "LaunchMarked", resources: CREATED_FOR_MACHINES, condition: Condition::MarkedAtLaunch };

pub(super) const LAUNCH: [Grant; 2] = [
    CREATE,
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
            // A host that is being allocated has no id yet, so this pattern matches only existing hosts.
            "ec2:*:*:dedicated-host/h-*",
            // An interface that the launch creates has no id yet, so this pattern matches only existing interfaces.
            "ec2:*:*:network-interface/eni-*",
            "ec2:*:*:ipv4pool-ec2/*",
            // The launch of a spot instance creates this request without tags.
            "ec2:*:*:spot-instances-request/*",
        ]),
        condition: Condition::Always,
    },
];

/// Targets of the control plane. They share one statement, because IAM limits the length of a policy. Each action
/// applies to one type of resource.
pub(super) const CHANGE_TARGETS: Grant = Grant {
    name: "ChangeTargets",
    resources: Resources::Arns(&[
        "elasticloadbalancing:*:*:targetgroup/*/*",
        "elasticloadbalancing:*:*:loadbalancer/*",
    ]),
    condition: Condition::GivenToCluster,
};

pub(super) const PASS_ROLE: Grant = Grant {
    name: "PassMachineRoles",
    resources: Resources::Named(Named::MachineRoles),
    condition: Condition::PassedToInstance,
};

pub(super) const USE_KEYS: Grant = Grant {
    name: "UseEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::ThroughEc2,
};

pub(super) const GRANT_KEYS: Grant = Grant {
    name: "GrantEncryptionKeys",
    resources: Resources::Named(Named::EncryptionKeys),
    condition: Condition::GrantedToAws,
};

pub(super) const ASSUME_ROLE: Grant = Grant {
    name: "AssumeIdentityRoles",
    resources: Resources::Named(Named::IdentityRoles),
    condition: Condition::Always,
};

/// Bootstrap data in Secrets Manager, Parameter Store and S3. It shares one statement, because IAM limits the length of
/// a policy, and an action has no effect on the resources of another service. CAPA's policies allow the same names. The
/// bucket and the prefix of its keys may be any. A presigned URL has the permissions of its signer.
pub(super) const BOOTSTRAP_DATA: Grant = Grant {
    name: "KeepBootstrapData",
    resources: Resources::Arns(&[
        "secretsmanager:*:*:secret:aws.cluster.x-k8s.io/*",
        "ssm:*:*:parameter/cluster.x-k8s.io/*",
        "s3:::*/control-plane/*",
        "s3:::*/node/*",
    ]),
    condition: Condition::Always,
};
