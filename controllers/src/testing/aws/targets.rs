//! Load balancers and their targets in memory: what is wanted of an instance is so at once, unless a test says how it
//! stands.

use std::collections::BTreeMap;

use capa_cloud::targets::{Desired, Group, Health, RegistrationState, TargetInstance, TargetState};
use capa_cloud::{ApiLoadBalancer, ControlPlaneTarget};

use super::FakeAws;

/// The only classic load balancer there is.
pub(super) const CLASSIC_LOAD_BALANCER: &str = "classic";

/// What is wanted of an instance: its id and address, the groups, and in or out.
pub(crate) type TargetRequest = (String, Option<String>, Vec<Group>, Desired);

impl FakeAws {
    /// A network load balancer that forwards what comes to a port to a target group.
    pub(crate) fn load_balancer(&self, name: &str, port: i32, target_group: &str) {
        let listeners = BTreeMap::from([(port, vec![target_group.to_owned()])]);
        let balancer = ApiLoadBalancer {
            kind: "network".into(),
            listeners,
        };
        self.state().load_balancers.insert(name.into(), balancer);
    }

    /// Has every instance stand like this with every target, whatever is wanted of it.
    pub(crate) fn set_registration_state(&self, state: Option<RegistrationState>) {
        self.state().registration = state;
    }

    /// What was wanted of instances in targets since this was last asked.
    pub(crate) fn take_target_requests(&self) -> Vec<TargetRequest> {
        std::mem::take(&mut self.state().requests)
    }

    pub(super) fn registration_states(
        &self,
        instance: &TargetInstance,
        targets: &[ControlPlaneTarget],
        desired: Desired,
    ) -> Vec<RegistrationState> {
        let mut state = self.state();
        let groups = targets.iter().filter_map(Group::of).collect();
        state
            .requests
            .push((instance.id.clone(), instance.address.clone(), groups, desired));
        let healthy = Health {
            state: TargetState::Healthy,
            reason: None,
        };
        let as_wanted = match desired {
            Desired::Registered => RegistrationState::Registered {
                health: healthy,
                by_us: true,
            },
            Desired::Deregistered | Desired::Forgotten => RegistrationState::Out,
        };
        vec![state.registration.clone().unwrap_or(as_wanted); targets.len()]
    }
}
