//! Chooses the instance of a machine among those that a lookup found. Pure.

use capa_api::machine::InstanceState;
use capa_cloud::Instance;

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Adoption {
    /// There is none.
    Nothing,
    /// This one.
    One(Box<Instance>),
    /// More than one instance lives under the name of this machine; their ids.
    Several(Vec<String>),
}

/// Chooses among instances found by tags or token. One that has ended counts only if it is the one of the open attempt:
/// then the attempt has launched, and its end is what becomes of the machine.
pub(in crate::awsmachine) fn adopt(found: &[Instance], open_token: Option<&str>) -> Adoption {
    let has_ended =
        |instance: &&Instance| matches!(instance.state, InstanceState::Terminated | InstanceState::ShuttingDown);
    let mut alive: Vec<&Instance> = found.iter().filter(|instance| !has_ended(instance)).collect();
    alive.sort_by_key(|instance| &instance.id);
    match alive.as_slice() {
        [] => {}
        [instance] => return Adoption::One(Box::new((*instance).clone())),
        several => return Adoption::Several(several.iter().map(|instance| instance.id.clone()).collect()),
    }
    let of_attempt = |instance: &&Instance| open_token.is_some() && instance.client_token.as_deref() == open_token;
    match found.iter().find(of_attempt) {
        Some(ended) => Adoption::One(Box::new(ended.clone())),
        None => Adoption::Nothing,
    }
}
