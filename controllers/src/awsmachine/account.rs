//! The AWS account of a machine's instance, as far as the AWSMachine tells it. Pure.

use capa_api::machine::{AWSMachine, AWSMachineStatus, LaunchRecord};
use capa_api::meta;

use super::scope::MachineScope;
use super::spec;

/// The number of digits of the id of an account
/// ([reference](https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html)).
const ACCOUNT_ID_DIGITS: usize = 12;

/// The account of the network in use.
pub(super) fn in_use(scope: &MachineScope) -> Option<&str> {
    scope.status.network.as_ref()?.account_id.as_deref()
}

/// The account of the machine's Dedicated Host.
pub(super) fn of_host(scope: &MachineScope) -> Option<&str> {
    let host = scope.status.dedicated_host.as_ref().filter(|host| host.may_exist())?;
    host.account_id.as_deref()
}

/// The recorded account: that of the network in use, or else that of an attempt whose status was lost.
pub(super) fn recorded(scope: &MachineScope) -> Option<&str> {
    in_use(scope).or_else(|| of_lost_attempt(&scope.machine, &scope.status))
}

/// The account of an attempt whose record was lost with the status. The annotation that blocks `clusterctl move` during
/// an attempt contains it. `None` if the record or the spec names the instance: then no attempt is open.
pub(super) fn of_lost_attempt<'a>(machine: &'a AWSMachine, status: &AWSMachineStatus) -> Option<&'a str> {
    let is_lost = match &status.launch {
        None => true,
        Some(record @ LaunchRecord::Unreadable(_)) => record.instance_id().is_none(),
        Some(_) => false,
    };
    let is_known = spec::claimed_instance_id(&machine.spec).is_some();
    let value = meta::annotation(&machine.metadata, meta::BLOCK_MOVE_ANNOTATION)?;
    let is_account = value.len() == ACCOUNT_ID_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit());
    (is_lost && !is_known && is_account).then_some(value)
}
