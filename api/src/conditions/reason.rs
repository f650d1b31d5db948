//! The reasons of conditions.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Every reason that our conditions give.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum Reason {
    /// All is well; the reason of a condition that is True, where no other is named.
    Ready,
    /// Reconciling is suspended.
    Paused,
    /// Reconciling is not suspended.
    NotPaused,
    /// Reconciling goes on although a move of the object had begun.
    MoveInterrupted,
    /// AWS is throttling; it is tried again by itself.
    Throttled,
    /// AWS refused the call for lack of rights.
    Unauthorized,
    /// An AWS quota is used up.
    QuotaExceeded,
    /// The spec asks for something impossible.
    InvalidSpec,
    /// The spec asks for something that has no effect yet.
    UnsupportedField,
    /// The thing exists and is not ours.
    NotOwned,
    /// Two things claim the same place.
    Conflict,
    /// Reality differs from what was recorded or asked for.
    Drifted,
    /// It failed; the message says how.
    Failed,
    /// Deletion waits for something that the message names.
    DeletionBlocked,
    /// No Cluster owns the object yet.
    WaitingForOwnerCluster,
    /// The cluster's infrastructure is not provisioned yet.
    WaitingForClusterInfrastructure,
    /// There is no bootstrap data yet.
    WaitingForBootstrapData,
    /// Nobody has given an endpoint yet.
    WaitingForEndpoint,
    /// The instance does not run yet.
    WaitingForRunning,
    /// The managed mode is not offered yet.
    NotManagedYet,
    /// The thing does not exist.
    NotFound,
    /// The identity does not allow the namespace, or the Secret is not known to be bootstrap data.
    NotAllowed,
    /// An identity further up the chain of roles does not allow the namespace.
    SourceNotAllowed,
    /// AWS did not accept the credentials, or there are none.
    CredentialsFailed,
    /// The credentials belong to another AWS account than before.
    AccountMismatch,
    /// Nothing is declared, and nothing has to be.
    NothingDeclared,
    /// The API server does not know the kind.
    NoKindMatch,
    /// The API server does not let the manager read the object.
    Forbidden,
    /// The object is there and not ready.
    NotReady,
    /// A field that is needed is absent.
    MissingField,
    /// A field has another type than it should.
    WrongType,
    /// A source offers a field that only trusted sources may give.
    AuthorityNotAllowed,
    /// No subnet fits the machine.
    NoSubnetInFailureDomain,
    /// No security group results.
    NoSecurityGroup,
    /// Bootstrap data is larger than its way to the instance allows.
    TooLarge,
    /// Bootstrap data has a format that is not supported.
    UnsupportedFormat,
    /// The storage that the spec asks for is not offered.
    StorageNotSupported,
    /// The launch is under way.
    Launching,
    /// A launch was asked for, and whether it took place is being found out.
    LaunchUnconfirmed,
    /// AWS has no capacity of that instance type there.
    InsufficientCapacity,
    /// The instance is starting.
    Pending,
    /// The instance is stopped.
    Stopped,
    /// The instance is terminated.
    Terminated,
    /// The instance is being taken out of its load balancer targets.
    Draining,
    /// The instance is being terminated.
    Terminating,
    /// Registration in load balancer targets is under way.
    Registering,
    /// Deregistration from load balancer targets is under way.
    Deregistering,
}

impl Reason {
    /// The reason as it stands in objects and events.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
