//! The condition `Ready` of an unmanaged AWSCluster. Pure.
//!
//! `Ready` becomes True once AWS has answered a lookup, and machines of both roles can be launched. MachineHealthCheck
//! remediates no machine of a cluster while `Ready` is not True. So `Ready` falls only if no machine at all can be
//! launched any more, and a remediation would delete a machine without a successor. Any other problem is in the reason
//! and the message of `Ready`.

use capa_api::conditions::{ConditionStatus, ConditionType, ConditionUpdate, Reason};

use super::facts::{Facts, IdentityFailure};
use super::network_problems::Blocked;
use super::resolve::{Resolution, Supply};
use crate::machine_networks::MachineNetworks;

/// The inputs of `Ready`.
pub(super) struct ReadyInputs<'a> {
    /// The facts of the reconcile.
    pub(super) facts: &'a Facts,
    /// The condition `IdentityReady`.
    pub(super) identity: &'a ConditionUpdate,
    /// The network with its problems.
    pub(super) resolution: &'a Resolution,
    /// The condition `PreflightPassed`, if findings prevent the AWSCluster from becoming provisioned.
    pub(super) preflight: Option<&'a ConditionUpdate>,
    /// The parts of a network that the machines of the cluster name in their own specs.
    pub(super) machines: MachineNetworks,
    /// Whether `Ready` of the provisioned AWSCluster was True before, in the region of the spec.
    pub(super) was_ready: bool,
    /// The other conditions of the AWSCluster, the more important first.
    pub(super) others: &'a [&'a ConditionUpdate],
    /// Fields of the spec that have no effect in this mode.
    pub(super) ignored: &'a [String],
}

impl ReadyInputs<'_> {
    /// The condition `Ready`.
    pub(super) fn condition(&self) -> ConditionUpdate {
        if let Some((reason, message)) = self.cause() {
            return ConditionType::Ready.is_false(reason, message);
        }
        let ignored = (!self.ignored.is_empty())
            .then(|| format!("of managed clusters only, ignored here: {}", self.ignored.join(", ")));
        let worst = self.worst();
        let reason = worst.map_or(Reason::Ready, |worst| worst.reason);
        let worst = worst.map(ConditionUpdate::text);
        let parts: Vec<String> = worst.into_iter().chain(ignored).collect();
        ConditionType::Ready.is_true(reason).with_message(parts.join("; "))
    }

    /// The reason why `Ready` is False; `None` if `Ready` is True.
    fn cause(&self) -> Option<(Reason, String)> {
        let repeated = |condition: &ConditionUpdate| Some((condition.reason, condition.message.clone()));
        match &self.facts.identity {
            Err(IdentityFailure::Objects(_)) => return repeated(self.identity),
            Err(IdentityFailure::Credentials(_) | IdentityFailure::Unread(_)) if !self.was_ready => {
                return repeated(self.identity);
            }
            Err(_) | Ok(()) => {}
        }
        let network = &self.resolution.condition;
        let is_unanswered = self.facts.lookup.is_unanswered();
        let is_blocked = match self.resolution.blocked {
            None => is_unanswered && !self.was_ready,
            Some(Blocked::ControlPlane) => !self.was_ready,
            Some(Blocked::All) => true,
        };
        if is_blocked {
            return repeated(network);
        }
        if let Some(preflight) = self.preflight {
            return repeated(preflight);
        }
        let lacked = [
            (self.resolution.subnets, self.machines.subnet, NO_SUBNET),
            (self.resolution.security_groups, self.machines.security_group, NO_SECURITY_GROUP),
        ];
        let lacked = lacked.into_iter().filter(|(supply, named, _)| self.is_lacked(*supply) && !named);
        let lacked: Vec<(Supply, &str)> = lacked.map(|(supply, _, said)| (supply, said)).collect();
        if lacked.is_empty() {
            return None;
        }
        let declared = lacked.iter().any(|(supply, _)| *supply != Supply::Undeclared);
        if declared || network.status != ConditionStatus::True {
            return repeated(network);
        }
        let said: Vec<&str> = lacked.into_iter().map(|(_, said)| said).collect();
        Some((Reason::NothingDeclared, said.join("; ")))
    }

    /// Whether `Ready` is False unless a machine names the part itself.
    fn is_lacked(&self, supply: Supply) -> bool {
        match supply {
            Supply::Usable => false,
            Supply::OneRole | Supply::Unverified => !self.was_ready,
            Supply::Unusable | Supply::Undeclared => true,
        }
    }

    /// The most important condition that is not True. One that shows a normal stage of the AWSCluster's life, for
    /// example the wait for an endpoint, needs no attention.
    fn worst(&self) -> Option<&ConditionUpdate> {
        let mut others = self.others.iter().copied();
        others.find(|other| other.status != ConditionStatus::True && !other.reason.is_expected())
    }
}

const NO_SUBNET: &str = "spec.network declares no subnet for machines outside of edge zones, and no AWSMachine or \
                         AWSMachineTemplate of the cluster names one: declare subnets, or set subnet in the machines";
const NO_SECURITY_GROUP: &str = "spec.network.securityGroupOverrides declares no security group for machines, and no \
                                 AWSMachine or AWSMachineTemplate of the cluster names one: declare node, or set \
                                 additionalSecurityGroups in the machines";
