//! Chooses the instance of a machine among those that a lookup found, or says why a user has to decide. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::RecordedRequest;
use capa_api::meta;
use capa_cloud::Instance;
use capa_runtime::reconcile::Next;

use crate::awsmachine::ownership::{
    AdoptAnnotation, Ids, MachineTags, Ownership, Proof, Reason as NotOurs, launched_by,
};
use crate::awsmachine::scope::Blocked;
use crate::invalid_value::shortened;

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
/// without its tags too. The instance of the open attempt is adopted even after its end, because its end decides
/// whether the machine has failed.
pub(in crate::awsmachine) fn adopt(found: &[(Instance, Ownership)], open: Option<&RecordedRequest>) -> Adoption {
    let is_of_attempt = |instance: &Instance| open.is_some_and(|request| launched_by(request, instance));
    let is_ours = |(_, ownership): &&(Instance, Ownership)| {
        matches!(ownership, Ownership::Ours(_) | Ownership::Foreign(NotOurs::Untagged(Proof::Recorded)))
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
    if foreign.is_empty() { Adoption::Nothing } else { Adoption::Foreign(ids(&foreign)) }
}

fn ids(instances: &[&(Instance, Ownership)]) -> Vec<String> {
    let mut ids: Vec<String> = instances.iter().map(|(instance, _)| instance.id.clone()).collect();
    ids.sort();
    ids
}

/// Several living instances belong to this machine.
pub(super) fn conflict_of_several(ids: &[String]) -> Blocked {
    conflict(format!(
        "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
        Ids(ids)
    ))
}

/// Living instances have the tags of this machine, but none is proven to belong to it. `refused` is the reason against
/// the instance that the annotation names.
pub(super) fn conflict_of_foreign(ids: &[String], refused: Option<String>) -> Blocked {
    let why = refused.unwrap_or_else(|| "nothing proves that they are its own".to_owned());
    let first = ids.first().map_or("", String::as_str);
    conflict(format!(
        "instances {} carry the tags of this machine, and {why}: nothing is launched; annotation {annotation}: {first} \
         adopts that one, {annotation}: {none} launches a new one",
        Ids(ids),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The reason why the instance in the annotation is not adopted, if the lookup found this instance.
pub(super) fn refused_adoption(found: &[(Instance, Ownership)], wish: AdoptAnnotation<'_>) -> Option<String> {
    let AdoptAnnotation::Instance(id) = wish else {
        return None;
    };
    let (_, ownership) = found.iter().find(|(instance, _)| instance.id == id)?;
    match ownership {
        Ownership::Foreign(reason) => Some(format!("{id} is not adopted: {reason}")),
        Ownership::Ours(_) => None,
    }
}

/// The instance that the annotation names has other tags.
pub(super) fn conflict_of_untagged(id: &str, tags: &MachineTags<'_>) -> Blocked {
    conflict(format!(
        "annotation {annotation} names instance {id}, which does not carry the tags of this machine: nothing is \
         launched; give it the tags {}, or say {annotation}: {none} to launch a new one",
        tags.described(),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The instance that the annotation names does not show in the account of the credentials, and no account is recorded.
pub(super) fn conflict_of_unseen(id: &str, region: &str, account_id: &str) -> Blocked {
    conflict(format!(
        "annotation {annotation} names instance {id}, which does not show in {region} of account {account_id}, and whether it lives \
         there was never recorded: nothing is launched; correct identity or region if it lives elsewhere, or if it is \
         gone, say {annotation}: {none} to launch a new one",
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The value of the annotation is neither an instance id nor `none`.
pub(super) fn conflict_of_unreadable(value: &str) -> Blocked {
    let shown = shortened(value);
    conflict(format!(
        "annotation {} is {shown:?}: nothing is launched until it is the id of an instance, or {}, or gone",
        meta::ADOPT_INSTANCE_ANNOTATION,
        meta::ADOPT_NO_INSTANCE
    ))
}

fn conflict(message: String) -> Blocked {
    let conflict = ConditionType::InstanceReady.is_false(Reason::Conflict, message);
    // No event reports the termination of an instance that this machine does not follow.
    Blocked::new(conflict, Next::Retry)
}
