//! Releases the Elastic IPs of a machine that is being deleted, and whose instance is gone.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{ElasticIp, ElasticIpPhase, LaunchRecord};
use capa_api::meta;
use capa_cloud::{ElasticIp as Address, ElasticIpCall, ErrorClass, Query};
use capa_runtime::reconcile::{EventDraft, Next};

use super::plan::{address_query, addresses_of};
use super::token;
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::deletion::plan::{DeletionCall, DependentResource};
use crate::awsmachine::inputs::location::{self, InstanceLocation};
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::blocked::Blocked;

/// What is released here.
const ADDRESS: DependentResource =
    DependentResource { removal: "Elastic IP is released", left: "the address allocated" };

/// The instances whose addresses are the machine's.
struct Owners {
    /// The ids of instances that are proven to be the machine's.
    proven: Vec<String>,
    /// The id of an instance that only the spec names. Users can write the spec, so only a free address with the name
    /// of the Machine is released.
    named: Option<String>,
}

impl Owners {
    /// `ended` has the instances that the deletion has ended, and `foreign` those that it leaves alone.
    fn of(scope: &MachineScope, ended: &[String], foreign: &[String]) -> Self {
        let recorded = scope.status.launch.as_ref().and_then(LaunchRecord::instance_id);
        let mut proven = ended.to_vec();
        proven.extend(recorded.map(str::to_owned).filter(|id| !ended.contains(id)));
        let named = scope.machine.instance_id();
        let named = named.filter(|id| !proven.contains(id) && !foreign.contains(id));
        Self { proven, named }
    }

    fn is_empty(&self) -> bool {
        self.proven.is_empty() && self.named.is_none()
    }
}

/// Releases all addresses of a machine: the recorded one, and those of its instances whose record was lost. `ended` has
/// the instances that the deletion has ended, and `foreign` those that it leaves alone.
///
/// # Errors
/// The deletion waits: an address is not released, or may still show.
pub(in crate::awsmachine) async fn release_all(
    scope: &mut MachineScope,
    ended: &[String],
    foreign: &[String],
    context: &MachineContext,
) -> Result<(), FlowError> {
    let record = scope.status.elastic_ip.clone().filter(|record| record.may_exist());
    let owners = Owners::of(scope, ended, foreign);
    if record.is_none() && (scope.machine.spec.elastic_ip_pool.is_none() || owners.is_empty()) {
        return Ok(());
    }
    let location = location::recorded_or_resolved(scope, context).await;
    let location = location.map_err(|error| ADDRESS.awaits_location(scope, error))?;
    context.await_change(scope, location.fingerprint(&DeletionCall::ReleaseAddresses, &()))?;
    let released = release_found(scope, record.as_deref(), &owners, &location, context).await;
    released.map_err(|blocked| context.remember_refusal(scope, blocked))?;
    scope.status.elastic_ip = None;
    Ok(())
}

async fn release_found(
    scope: &mut MachineScope,
    record: Option<&ElasticIp>,
    owners: &Owners,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), Blocked> {
    let found = find(scope, owners, location).await?;
    let mut kept = None;
    for address in &found {
        if let Err(blocked) = release(scope, &address.allocation_id, Some(address), owners, location, context).await {
            kept.get_or_insert(blocked);
        }
    }
    let recorded = record.and_then(|record| record.allocation_id.as_deref());
    if let Some(id) = recorded.filter(|id| !found.iter().any(|address| address.allocation_id == **id)) {
        let shown = look_up(scope, Query::filter("allocation-id", [id]), location).await?;
        let shown = shown.into_iter().find(|address| address.allocation_id == id);
        if let Err(blocked) = release(scope, id, shown.as_ref(), owners, location, context).await {
            kept.get_or_insert(blocked);
        }
    }
    match (kept, record) {
        (Some(blocked), _) => Err(blocked),
        (None, Some(record)) if found.is_empty() => await_absence(scope, record, context),
        (None, _) => Ok(()),
    }
}

/// The addresses with the tags of the machine's instances.
async fn find(scope: &MachineScope, owners: &Owners, location: &InstanceLocation) -> Result<Vec<Address>, Blocked> {
    let mut found = Vec::new();
    for id in owners.proven.iter().chain(&owners.named) {
        let shown = look_up(scope, address_query(id), location).await?;
        let mut of_instance = addresses_of(id, &location.session.cluster_tag, shown);
        if owners.named.as_ref() == Some(id) {
            let tag = meta::machine_name_tag_value(scope.namespace(), scope.machine.machine_name());
            let is_of_machine = |address: &Address| address.tags.get(meta::MACHINE_NAME_TAG) == Some(&tag);
            of_instance.retain(|address| is_of_machine(address) && address.association_id.is_none());
        }
        found.append(&mut of_instance);
    }
    Ok(found)
}

async fn look_up(scope: &MachineScope, query: Query, location: &InstanceLocation) -> Result<Vec<Address>, Blocked> {
    location.session.cloud.elastic_ips(&query).await.map_err(|error| {
        let why = format!("its Elastic IPs cannot be looked up in {}: {error}", location.session.region);
        ADDRESS.awaits_call(scope, &why, &error)
    })
}

/// Releases an address, unless it is associated. The association with the machine's own instance ends with that
/// instance. `shown` is absent if EC2 does not show the address.
async fn release(
    scope: &mut MachineScope,
    id: &str,
    shown: Option<&Address>,
    owners: &Owners,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), Blocked> {
    let described = shown.map_or_else(|| id.to_owned(), |address| format!("{} ({id})", address.public_ip));
    if let Some(address) = shown.filter(|address| address.association_id.is_some()) {
        return Err(is_associated(scope, &described, address, owners, context));
    }
    let call = ElasticIpCall::Release { allocation_id: id.to_owned() };
    match location.session.cloud.change_elastic_ip(&scope.key(), &call).await {
        Ok(_) => {
            let message = format!("released Elastic IP {id}");
            let event = EventDraft::normal("SuccessfulReleaseAddress", message);
            scope.events.push(event);
            Ok(())
        }
        Err(error) if error.class == ErrorClass::NotFound && !may_be_hidden(scope, context) => Ok(()),
        Err(error) => Err(ADDRESS.is_kept(scope, &described, &error)),
    }
}

/// The wait for the end of an association. EC2 ends the association with a terminated instance of the machine; a user
/// has to end every other one.
fn is_associated(
    scope: &MachineScope,
    described: &str,
    address: &Address,
    owners: &Owners,
    context: &MachineContext,
) -> Blocked {
    let condition = ConditionType::InstanceReady;
    let holder = address.instance_id.as_ref();
    if let Some(id) = holder.filter(|id| owners.proven.contains(id)) {
        let message = format!(
            "instance {id} has ended: its Elastic IP {described} is released once EC2 shows it without the instance"
        );
        let next = Next::Requeue(context.timing.absence_interval());
        return Blocked::new(condition.is_false(Reason::Terminating, message), next);
    }
    let holder = holder.map_or_else(|| "a network interface".to_owned(), |id| format!("instance {id}"));
    let why = format!("{described} is that of {holder} now: disassociate it");
    let taken = condition.is_false(Reason::Conflict, "");
    let next = Next::Requeue(context.timing.listing_interval);
    ADDRESS.awaits(scope, &why, &Blocked::new(taken, next))
}

/// Whether AWS may not show the recorded address yet.
fn may_be_hidden(scope: &MachineScope, context: &MachineContext) -> bool {
    let record = scope.status.elastic_ip.as_ref();
    context.may_be_hidden(record.and_then(|record| record.requested_at.as_ref()))
}

/// A call without an answer may have allocated an address although EC2 shows none. The AWSMachine is released once the
/// absence is proven.
fn await_absence(scope: &MachineScope, record: &ElasticIp, context: &MachineContext) -> Result<(), Blocked> {
    if record.effective_phase() != ElasticIpPhase::Requested {
        return Ok(());
    }
    let message = "EC2 may have allocated an Elastic IP, and none shows yet: it is looked for before the AWSMachine is \
                   released";
    context.await_absence(context.memory.elastic_ips(), scope, &token(scope), record.holder.as_deref(), message)
}
