//! Conflicts that stop a launch until a user decides about instances. Pure.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::meta;
use capa_cloud::Instance;
use capa_runtime::reconcile::Next;

use crate::awsmachine::blocked::Blocked;
use crate::awsmachine::machine_tags::MachineTags;
use crate::awsmachine::ownership::{AdoptAnnotation, Ids, Ownership};

/// Maximum length of an invalid value in a condition.
const SHOWN: usize = 64;

/// Several living instances belong to this machine.
pub(super) fn several(ids: &[String]) -> Blocked {
    blocked(format!(
        "several instances carry the tags of this machine: {}: terminate all but one; nothing is launched",
        Ids(ids)
    ))
}

/// Living instances have the tags of this machine, but none is proven to belong to it. `refused` is the reason against
/// the instance that the annotation names.
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
pub(super) fn untagged(id: &str, tags: &MachineTags<'_>) -> Blocked {
    blocked(format!(
        "annotation {annotation} names instance {id}, which does not carry the tags of this machine: nothing is \
         launched; give it the tags {}, or say {annotation}: {none} to launch a new one",
        tags.described(),
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The instance that the annotation names does not show in the account of the credentials, and no account is recorded.
pub(super) fn unseen(id: &str, region: &str, account_id: &str) -> Blocked {
    blocked(format!(
        "annotation {annotation} names instance {id}, which does not show in {region} of account {account_id}, and whether it lives \
         there was never recorded: nothing is launched; correct identity or region if it lives elsewhere, or if it is \
         gone, say {annotation}: {none} to launch a new one",
        annotation = meta::ADOPT_INSTANCE_ANNOTATION,
        none = meta::ADOPT_NO_INSTANCE,
    ))
}

/// The value of the annotation is neither an instance id nor `none`.
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
    // No event reports the termination of an instance that this machine does not follow.
    Blocked::new(conflict, Next::Retry)
}
