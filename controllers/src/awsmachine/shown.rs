//! How the status of an AWSMachine shows its instance. Pure.

use capa_api::common::Initialization;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{InstanceState, MarketType};
use capa_cloud::{Instance, StateReason};

use super::scope::MachineScope;

/// Writes the instance into the status.
pub(super) fn show(scope: &mut MachineScope, instance: &Instance) {
    let status = &mut scope.status;
    status.instance_state = Some(instance.state);
    status.failure_domain = Some(instance.availability_zone.clone());
    let is_spot = scope.machine.spec.effective_market_type() == MarketType::Spot;
    status.interruptible = is_spot.then_some(true);
    if !instance.addresses.is_empty() {
        status.addresses.clone_from(&instance.addresses);
    }
    if instance.state == InstanceState::Running {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    if !instance.state.has_ended() && instance.state != InstanceState::Pending {
        status.has_run = Some(true);
    }
    status.ready = Some(status.provisioned());
    for condition in [ConditionType::BootstrapDataReady, ConditionType::NetworkReady] {
        scope.set_condition(condition.is_true(Reason::Ready));
    }
}

/// AWS's reason for the state of an instance. The end of a Spot instance is told by AWS's code, whose words leave open
/// who ended it.
fn in_words(reason: &StateReason) -> String {
    if reason.code.starts_with("Server.SpotInstance") {
        format!("EC2 has interrupted the Spot instance ({})", reason.code)
    } else {
        reason.message.clone()
    }
}

/// The condition `InstanceReady` in the state of the instance.
pub(super) fn instance_ready(instance: &Instance) -> ConditionUpdate {
    let id = &instance.id;
    let not_ready = |reason, message: String| ConditionType::InstanceReady.is_false(reason, message);
    let why = instance
        .state_reason
        .as_ref()
        .map(|reason| format!(": {}", in_words(reason)))
        .unwrap_or_default();
    match instance.state {
        InstanceState::Running => ConditionType::InstanceReady.is_true(Reason::Ready),
        InstanceState::Pending => not_ready(Reason::Pending, format!("instance {id} is starting")),
        InstanceState::Stopping | InstanceState::Stopped => not_ready(
            Reason::Stopped,
            format!("instance {id} is stopped{why}: start it or delete the Machine"),
        ),
        InstanceState::ShuttingDown | InstanceState::Terminated => not_ready(
            Reason::Terminated,
            format!(
                "instance {id} was terminated{why}: delete the Machine to replace it, or let a MachineHealthCheck do so"
            ),
        ),
    }
}
