//! Chooses the instance of a machine among those that a lookup found. Pure.

use capa_api::machine::RecordedRequest;
use capa_cloud::Instance;

use crate::awsmachine::ownership::{Ownership, Proof, Reason, launched_by};

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::awsmachine) enum Adoption {
    /// No instance with the tags of this machine was found.
    Nothing,
    /// This instance is adopted.
    One(Box<Instance>),
    /// Several living instances belong to this machine; their ids.
    Several(Vec<String>),
    /// Living instances have the tags of this machine, but none is proven to belong to it; their ids.
    Foreign(Vec<String>),
}

/// Chooses among instances that were found by tags or token. An instance that the launch record proves is adopted
/// without its tags too. That of the open attempt is adopted also after its end, because its end decides about the
/// machine.
pub(in crate::awsmachine) fn adopt(found: &[(Instance, Ownership)], open: Option<&RecordedRequest>) -> Adoption {
    let is_of_attempt = |instance: &Instance| open.is_some_and(|request| launched_by(request, instance));
    let is_ours = |(_, ownership): &&(Instance, Ownership)| {
        matches!(
            ownership,
            Ownership::Ours(_) | Ownership::Foreign(Reason::Untagged(Proof::Recorded))
        )
    };
    let alive = found.iter().filter(|(instance, _)| !instance.state.has_ended());
    let (ours, foreign): (Vec<_>, Vec<_>) = alive.partition(is_ours);
    match ours.as_slice() {
        [] => {}
        [(instance, _)] => return Adoption::One(Box::new(instance.clone())),
        several => return Adoption::Several(ids(several)),
    }
    let mut ours = found.iter().filter(is_ours);
    if let Some((ended, _)) = ours.find(|(instance, _)| is_of_attempt(instance)) {
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
