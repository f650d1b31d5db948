//! Why a launch does not go on although no instance is adopted: what its user has to decide. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::meta;
use capa_cloud::Instance;
use capa_runtime::reconcile::Next;

use crate::awsmachine::blocked::Blocked;
use crate::awsmachine::machine_tags::MachineTags;
use crate::awsmachine::ownership::{AdoptionWish, Ids, Ownership};

/// The longest part of an unreadable value that a condition repeats.
const SHOWN: usize = 64;

/// Several living instances are this machine's.
pub(super) fn several(ids: &[String]) -> Blocked {
    blocked(format!(
        "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
        Ids(ids)
    ))
}

/// Living instances carry the tags of this machine, and none is proven to be its own. `refused` is why the one is not
/// adopted that the annotation names.
pub(super) fn foreign(ids: &[String], refused: Option<String>) -> Blocked {
    let why = refused.unwrap_or_else(|| "nothing proves that they are its own".to_owned());
    let first = ids.first().map_or("", String::as_str);
    blocked(format!(
        "instances {} carry the tags of this machine, and {why}: nothing is launched; annotation {annotation}: {first} \
         adopts that one, {annotation}: {none} launches a new one",
        Ids(ids),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// Why the instance that the annotation names is not adopted, where it is among those that were found.
pub(super) fn refused_wish(found: &[(Instance, Ownership)], wish: AdoptionWish<'_>) -> Option<String> {
    let AdoptionWish::Instance(id) = wish else {
        return None;
    };
    let (_, ownership) = found.iter().find(|(instance, _)| instance.id == id)?;
    match ownership {
        Ownership::Foreign(reason) => Some(format!("{id} is not adopted: {reason}")),
        Ownership::Ours(_) => None,
    }
}

/// The instance that the annotation names has other tags.
pub(super) fn untagged(id: &str, tags: &MachineTags<'_>) -> Blocked {
    blocked(format!(
        "annotation {annotation} names instance {id}, which does not carry the tags of this machine: nothing is \
         launched; give it the tags {}, or say {annotation}: {none} to launch a new one",
        tags.described(),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The annotation says something else than an instance id or `none`.
pub(super) fn unreadable(value: &str) -> Blocked {
    let shown: String = value.chars().take(SHOWN).collect();
    blocked(format!(
        "annotation {} is {shown:?}: nothing is launched until it is the id of an instance, or {}, or gone",
        meta::ADOPT_INSTANCE_ANNOTATION,
        meta::ADOPT_NO_INSTANCE
    ))
}

fn blocked(message: String) -> Blocked {
    let conflict = ConditionType::InstanceReady.is_false(Reason::Conflict, message);
    // Somebody may terminate an instance, of which nobody tells.
    Blocked::new(conflict, Next::Retry)
}
