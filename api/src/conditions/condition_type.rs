//! The types of conditions.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// Every condition type of our kinds, in the order in which objects list them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
pub enum ConditionType {
    /// The object is operational.
    Ready,
    /// Reconciling is suspended. True is the abnormal status.
    Paused,
    /// The credentials are known, allowed and accepted by AWS.
    IdentityReady,
    /// The network is known and complete.
    NetworkReady,
    /// The VPC of a managed cluster exists and has its attributes.
    VpcReady,
    /// The VPC of a managed cluster has the secondary IPv4 ranges of the spec.
    SecondaryCidrsReady,
    /// The subnets of a managed cluster exist and have their attributes.
    SubnetsReady,
    /// The internet gateway of a managed cluster exists and is attached to the VPC.
    InternetGatewayReady,
    /// The NAT gateways of a managed cluster work: one in each zone with private subnets.
    NatGatewaysReady,
    /// The security groups of a managed cluster exist and have their rules.
    ClusterSecurityGroupsReady,
    /// The load balancers of the API server of a managed cluster work.
    LoadBalancerReady,
    /// The route tables of a managed cluster have their routes and are associated with its subnets.
    RouteTablesReady,
    /// The network that a machine runs in still equals its network sources. The condition does not count for `Ready`.
    NetworkUpToDate,
    /// No blocking preflight rule fails. The condition does not count for `Ready`.
    PreflightPassed,
    /// The endpoint of the API server is known.
    ControlPlaneEndpointReady,
    /// Bootstrap data exists in a form that the instance can receive.
    BootstrapDataReady,
    /// The instance is running.
    InstanceReady,
    /// The status shows the current state of the instance, and the instance matches its spec. The condition does not
    /// count for `Ready`.
    InstanceUpToDate,
    /// The instance has the security groups of its spec. The condition does not count for `Ready`.
    SecurityGroupsReady,
    /// The instance has the Elastic IP that its spec asks for.
    ElasticIPReady,
    /// The control plane instance is registered in its load balancer targets.
    ControlPlaneTargetsReady,
    /// The capacity of a machine template is known.
    CapacityReady,
}

impl ConditionType {
    /// The type in the form of the API.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether `Ready` requires this condition to be True. `ControlPlaneEndpointReady` does not count, because other
    /// controllers set the endpoint late in the life of a cluster. The other conditions that do not count are
    /// informative.
    pub const fn counts_for_ready(self) -> bool {
        !matches!(
            self,
            Self::Ready
                | Self::Paused
                | Self::PreflightPassed
                | Self::NetworkUpToDate
                | Self::InstanceUpToDate
                | Self::SecurityGroupsReady
                | Self::ControlPlaneEndpointReady
        )
    }
}
