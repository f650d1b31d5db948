//! The types of conditions.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Every condition type of our kinds, in the order in which objects list them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum ConditionType {
    /// The object does what it is there for.
    Ready,
    /// Reconciling is suspended; True is bad news.
    Paused,
    /// The credentials to work with are known, allowed and accepted.
    IdentityReady,
    /// The network to work in is known and complete.
    NetworkReady,
    /// The network a machine runs in is still what its sources say. Outside `Ready`.
    NetworkUpToDate,
    /// No blocking preflight rule fails. Outside `Ready`.
    PreflightPassed,
    /// The API server's endpoint is known.
    ControlPlaneEndpointReady,
    /// Bootstrap data is there in a form that can be handed to the instance.
    BootstrapDataReady,
    /// The instance runs.
    InstanceReady,
    /// What is shown of the instance is not old. Outside `Ready`.
    InstanceUpToDate,
    /// The control plane instance is registered in its load balancer targets.
    ControlPlaneTargetsReady,
    /// Capacity of a machine template is known.
    CapacityReady,
}

impl ConditionType {
    /// The type as it stands in objects.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether `Ready` may only be True while this condition is. A cluster's `ControlPlaneEndpointReady` is set by
    /// others late in its life, and the rest are news, not faults.
    pub const fn counts_for_ready(self) -> bool {
        !matches!(
            self,
            Self::Ready
                | Self::Paused
                | Self::PreflightPassed
                | Self::NetworkUpToDate
                | Self::InstanceUpToDate
                | Self::ControlPlaneEndpointReady
        )
    }
}
