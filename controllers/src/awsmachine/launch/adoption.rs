//! Chooses the instance of a machine among those that a lookup found. Pure.

use capa_cloud::Instance;

use crate::awsmachine::ownership::Ownership;

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Adoption {
    /// There is none with the tags of this machine.
    Nothing,
    /// This one.
    One(Box<Instance>),
    /// More than one living instance is this machine's; their ids.
    Several(Vec<String>),
    /// Living instances have the tags of this machine, and none is proven to be its own; their ids.
    Foreign(Vec<String>),
}

/// Chooses among instances found by tags or token. One of the open attempt is the machine's whatever became of it
/// since: without its tags, too, and if it has ended the attempt has launched, and its end is what becomes of the
/// machine.
pub(in crate::awsmachine) fn adopt(found: &[(Instance, Ownership)], open_token: Option<&str>) -> Adoption {
    let is_of_attempt = |instance: &Instance| open_token.is_some() && instance.client_token.as_deref() == open_token;
    let is_ours = |(instance, ownership): &&(Instance, Ownership)| {
        matches!(ownership, Ownership::Ours(_)) || is_of_attempt(instance)
    };
    let alive = found.iter().filter(|(instance, _)| !instance.state.has_ended());
    let (ours, foreign): (Vec<_>, Vec<_>) = alive.partition(is_ours);
    match ours.as_slice() {
        [] => {}
        [(instance, _)] => return Adoption::One(Box::new(instance.clone())),
        several => return Adoption::Several(ids(several)),
    }
    if let Some((ended, _)) = found.iter().find(|(instance, _)| is_of_attempt(instance)) {
        return Adoption::One(Box::new(ended.clone()));
    }
    if foreign.is_empty() {
        Adoption::Nothing
    } else {
        Adoption::Foreign(ids(&foreign))
    }
}

fn ids(instances: &[&(Instance, Ownership)]) -> Vec<String> {
    let mut ids: Vec<String> = instances.iter().map(|(instance, _)| instance.id.clone()).collect();
    ids.sort();
    ids
}
