//! Lookups of a machine's instances by tags, client token and id. The instance informer does not make these lookups.

use capa_api::conditions::ConditionType;
use capa_cloud::lookups::{InstanceLookup, LookupAnswer};
use capa_cloud::{CloudError, Instance, InstanceLookups, MachineKey, Query, Timing};
use capa_runtime::reconcile::Next;

use crate::awsmachine::ownership::MachineTags;
use crate::awsmachine::scope::{Blocked, FlowError};

/// The longest client token that EC2 accepts.
const TOKEN_LENGTH: usize = 64;

/// Why a pass ends early: it waits for a lookup.
pub(in crate::awsmachine) const LOOKS_UP: &str =
    "the instances of the machine are being looked up, and the answer wakes the AWSMachine";

/// All instances with these tags, and all instances that were launched with this token, whatever their tags. The
/// instances of the answer are compared again, because filters may be patterns.
pub(in crate::awsmachine) async fn find(
    cloud: &dyn InstanceLookups,
    tags: &MachineTags<'_>,
    client_token: Option<&str>,
) -> Result<Vec<Instance>, CloudError> {
    let mut found = match tags.query() {
        Some(query) => cloud.find_instances(&query).await?,
        None => Vec::new(),
    };
    found.retain(|instance| tags.are_on(instance));
    if let Some(token) = client_token.filter(|token| is_token(token)) {
        for instance in cloud.find_instances(&Query::filter("client-token", [token])).await? {
            let is_launched_by_it = instance.client_token.as_deref() == Some(token);
            if is_launched_by_it && !found.iter().any(|known| known.id == instance.id) {
                found.push(instance);
            }
        }
    }
    Ok(found)
}

/// All instances with these tags, by a lookup that other machines share. Its answer wakes the machine.
pub(in crate::awsmachine) async fn find_with_others(
    cloud: &dyn InstanceLookups,
    machine: &MachineKey,
    tags: &MachineTags<'_>,
    wanted: &InstanceLookup,
    timing: &Timing,
) -> Result<Vec<Instance>, FlowError> {
    match cloud.look_up(machine, wanted).map_err(|error| failed(&error))? {
        LookupAnswer::Found(mut found) => {
            found.retain(|instance| tags.are_on(instance));
            Ok(found)
        }
        LookupAnswer::Expired => Ok(find(cloud, tags, None).await.map_err(|error| failed(&error))?),
        // The answer comes earlier than this, unless the session of the machine has changed meanwhile.
        LookupAnswer::Pending(None) => Err(FlowError::Waits(LOOKS_UP, Next::Deferred(timing.transition_interval))),
        LookupAnswer::Pending(Some(error)) => {
            // The lookup is repeated for all machines that wait for it.
            let condition = failed(&error).condition;
            Err(Blocked::new(condition, Next::Deferred(timing.listing_interval)).into())
        }
    }
}

/// The instance with this id. The text must have the form of an instance id, because a pattern would match other
/// instances.
pub(in crate::awsmachine) async fn by_id(
    cloud: &dyn InstanceLookups,
    id: &str,
) -> Result<Option<Instance>, CloudError> {
    let found = cloud.find_instances(&Query::filter("instance-id", [id])).await?;
    Ok(found.into_iter().find(|instance| instance.id == id))
}

/// The instance that a call with this client token has launched.
pub(in crate::awsmachine) async fn by_token(
    cloud: &dyn InstanceLookups,
    token: &str,
) -> Result<Option<Instance>, CloudError> {
    if !is_token(token) {
        return Ok(None);
    }
    let found = cloud.find_instances(&Query::filter("client-token", [token])).await?;
    Ok(found.into_iter().find(|instance| instance.client_token.as_deref() == Some(token)))
}

/// Whether a text is a client token and not a pattern.
fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=TOKEN_LENGTH).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The block of a launch or a deletion by a failed lookup.
pub(in crate::awsmachine) fn failed(error: &CloudError) -> Blocked {
    let message = format!("whether an instance of this machine exists could not be looked up: {error}");
    Blocked::by_call(ConditionType::InstanceReady, message, error)
}
