//! Every AWS permission that the provider needs, with its purpose. Policies and their documentation are generated from
//! this table. A test compares the whole table with the calls, and end-to-end tests fail on a call that the table
//! lacks. The rows for managed clusters are in a separate part.

mod grants;
mod managed;
mod table;

pub use managed::MANAGED_ACTIONS;
pub use table::ACTIONS;

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
    pub checked_by: CheckedBy,
    /// The resources and conditions of the permission; empty if AWS allows the action to every caller.
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
pub enum CheckedBy {
    /// The provider calls the action.
    Call,
    /// AWS checks the permission within these other actions, which may belong to another service.
    Actions(&'static [&'static str]),
    /// AWS checks the permission within RunInstances if the request has this property.
    Launch(AtLaunch),
    /// AWS checks the permission when somebody uses a URL that the provider has signed.
    Url,
}

/// A property of a launch request that needs a further permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtLaunch {
    /// An instance profile.
    InstanceProfile,
    /// A volume with an encryption key of the user.
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
    /// All resources, because the action does not support single resources.
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
    /// The created resource gets the tag that marks machines of the provider, or the addresses of their instances.
    MarkedAtLaunch,
    /// The changed resource has that tag. In a policy for single clusters, the resource also has the tag of a Machine
    /// in the namespaces of these clusters.
    Marked,
    /// Like `Marked`, and the request names none of the tags that identify the owner of a resource.
    MarkedForOtherTags,
    /// No condition in a policy for all clusters. In a policy for single clusters, the changed resource has the tag
    /// that assigns it to one of the clusters.
    GivenToCluster,
    /// The call is part of one that launches an instance, or allocates a host or an address.
    WithinLaunch,
    /// The created resource gets the tag that marks resources that the provider creates for a cluster. In a policy for
    /// a single cluster, it also gets the tag that marks this cluster as its owner.
    NetworkAtCreation,
    /// The changed resource has the same tags.
    Network,
    /// Like `Network`, and the request names none of the tags that identify the owner and the role of a resource.
    NetworkForOtherTags,
    /// The call is part of a call of one of these actions of the service.
    Within {
        /// Prefix of the service in IAM.
        service: &'static str,
        /// The actions, which create resources.
        actions: &'static [&'static str],
    },
    /// The role is passed to an EC2 instance.
    PassedToInstance,
    /// EC2 makes the call on behalf of the provider.
    ThroughEc2,
    /// The grant of the key is given to an AWS service.
    GrantedToAws,
}

/// The row of an action that the provider calls. `service` is the service of the request's signature, which for the
/// services of this provider equals the IAM prefix. `name` is the name of the permission, which differs from the name
/// in the API for one action: the permission for `GetPublicAccessBlock` of S3 is `GetBucketPublicAccessBlock`.
pub fn called(service: &str, name: &str) -> Option<&'static Action> {
    ACTIONS
        .iter()
        .chain(MANAGED_ACTIONS)
        .find(|action| action.checked_by == CheckedBy::Call && action.service == service && action.name == name)
}
