//! The reasons of conditions.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Every reason that our conditions give.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum Reason {
    /// There is no error. The default reason of a condition with the status True.
    Ready,
    /// Reconciling is suspended.
    Paused,
    /// Reconciling is not suspended.
    NotPaused,
    /// The provider reconciles the object although a move of the object had begun.
    MoveInterrupted,
    /// AWS throttles the call; the provider retries it.
    Throttled,
    /// AWS refused the call because of missing permissions.
    Unauthorized,
    /// An AWS quota is used up.
    QuotaExceeded,
    /// The spec requests something impossible.
    InvalidSpec,
    /// The resource exists and does not belong to this provider.
    NotOwned,
    /// Two objects claim the same resource.
    Conflict,
    /// The actual state differs from the recorded or desired state.
    Drifted,
    /// The operation failed; the message contains the error.
    Failed,
    /// The object or the resource is being deleted.
    Deleting,
    /// The deletion waits for the object that the message names.
    DeletionBlocked,
    /// No Cluster owns the object yet.
    WaitingForOwnerCluster,
    /// The cluster's infrastructure is not provisioned yet.
    WaitingForClusterInfrastructure,
    /// The bootstrap data does not exist yet.
    WaitingForBootstrapData,
    /// No user or controller has set an endpoint yet.
    WaitingForEndpoint,
    /// The resource is being created.
    Creating,
    /// The VPC does not exist or cannot be used yet.
    WaitingForVpc,
    /// Subnets do not exist or cannot be used yet.
    WaitingForSubnets,
    /// NAT gateways do not exist or do not work yet.
    WaitingForNatGateways,
    /// The name of a load balancer does not resolve yet.
    WaitingForDNSName,
    /// The instance is not running yet.
    WaitingForRunning,
    /// The managed mode is not offered yet.
    NotManagedYet,
    /// An annotation restricts the provider to planning.
    PlanOnly,
    /// The resource does not exist.
    NotFound,
    /// The identity does not allow the namespace, or the Secret is not known to be bootstrap data.
    NotAllowed,
    /// An identity further up the chain of roles does not allow the namespace.
    SourceNotAllowed,
    /// AWS did not accept the credentials, or no credentials exist.
    CredentialsFailed,
    /// The credentials belong to another AWS account than before.
    AccountMismatch,
    /// The infrastructure breaks a rule whose finding is blocking.
    RulesFailing,
    /// The spec declares nothing, and nothing is required.
    NothingDeclared,
    /// The API server does not know the kind.
    NoKindMatch,
    /// The API server does not let the manager read the object.
    Forbidden,
    /// The object exists and is not ready.
    NotReady,
    /// A required field is absent.
    MissingField,
    /// A field has a wrong type.
    WrongType,
    /// A network source supplies a field that only trusted sources may supply.
    AuthorityNotAllowed,
    /// No subnet fits the machine.
    NoSubnetInFailureDomain,
    /// No security group applies to the machine.
    NoSecurityGroup,
    /// The bootstrap data exceeds the size limit of its delivery to the instance.
    TooLarge,
    /// Bootstrap data has a format that is not supported.
    UnsupportedFormat,
    /// The spec requests a storage for bootstrap data that this provider does not support.
    StorageNotSupported,
    /// The launch is in progress.
    Launching,
    /// A launch was requested, and the provider is finding out whether it took place.
    LaunchUnconfirmed,
    /// AWS has no capacity of the instance type in the zone.
    InsufficientCapacity,
    /// The instance is starting.
    Pending,
    /// The instance is stopped.
    Stopped,
    /// The instance is terminated.
    Terminated,
    /// The instance is being deregistered from its load balancer targets.
    Draining,
    /// The instance is being terminated.
    Terminating,
    /// All expressions of the mapping compile.
    Compiled,
    /// An expression of the mapping does not compile, or exceeds the limits of expressions.
    InvalidExpression,
    /// The registration in load balancer targets is in progress.
    Registering,
    /// The deregistration from load balancer targets is in progress.
    Deregistering,
}

impl Reason {
    /// The reason in the form of the API.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a condition with this reason shows a normal stage of an object's life, which needs no warning.
    pub const fn is_expected(self) -> bool {
        matches!(
            self,
            Self::WaitingForOwnerCluster
                | Self::WaitingForClusterInfrastructure
                | Self::WaitingForBootstrapData
                | Self::WaitingForEndpoint
                | Self::WaitingForRunning
                | Self::WaitingForVpc
                | Self::WaitingForSubnets
                | Self::WaitingForNatGateways
                | Self::WaitingForDNSName
                | Self::Creating
                | Self::Deleting
                | Self::Registering
                | Self::Deregistering
                | Self::Draining
                | Self::Launching
                | Self::Pending
                | Self::Terminating
                | Self::Paused
                | Self::NotPaused
                | Self::PlanOnly
        )
    }
}
