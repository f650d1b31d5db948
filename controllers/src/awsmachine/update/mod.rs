//! The update flow: applies to the instance those fields of the spec that can change after the launch.
//!
//! The flow finds changes by comparison with the record in the status, without a call to AWS. It blocks no other flow:
//! a condition shows a failed change, and the next pass tries it again.

pub(super) mod plan;

use std::collections::BTreeSet;

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AppliedSecurityGroups, InstanceState};
use capa_api::network::MachineNetwork;
use capa_cloud::{CloudError, DnsRecords, Instance, PrimaryInterface, additional_tags};
use capa_runtime::reconcile::{EventDraft, Next};

use self::plan::{GroupRecord, GroupStep, KnownGroups, KnownTags, TagChange};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::instance::observation;
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::awsmachine::write;
use crate::blocked::{Blocked, earlier};
use crate::launching::options::GROUPS_OF_BROUGHT_INTERFACES;
use crate::launching::{references, validation};

/// Updates a living instance of the machine. `network` is the present network of the machine's sources. Without it,
/// nothing is updated, and only the type of the instance is compared.
pub(super) async fn update(
    scope: &mut MachineScope,
    instance: &Instance,
    network: Option<&MachineNetwork>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    // AWS may not show the volumes of a starting instance yet, and an ending instance needs no change.
    let is_settled =
        matches!(instance.state, InstanceState::Running | InstanceState::Stopping | InstanceState::Stopped);
    if !is_settled {
        return Ok(());
    }
    let of_records = update_dns_records(scope, instance, location, context).await;
    let of_records = postponed(scope, of_records)?;
    let of_metadata = update_metadata_options(scope, instance, location).await;
    let of_metadata = postponed(scope, of_metadata)?;
    let others = of_records.or(of_metadata).or_else(|| other_type(scope, instance));
    let Some(network) = network else {
        // It is not known whether a failed change of tags is still wanted.
        if others.is_some() || lacks_tags(scope) {
            show_deviation(scope, others, location);
        }
        return Ok(());
    };
    let of_tags = update_tags(scope, instance, network, location, context).await;
    if let Some(deviation) = postponed(scope, of_tags)?.or(others) {
        show_deviation(scope, Some(deviation), location);
    }
    if let Some(interface) = own_interface(scope, instance) {
        let of_groups = update_groups(scope, instance, interface, network, location, context).await;
        if let Some(condition) = postponed(scope, of_groups)? {
            scope.set_condition(condition);
        }
    } else if !scope.machine.spec.network_interfaces.is_empty() {
        check_groups_of_brought_interfaces(scope);
    }
    Ok(())
}

/// Says that security groups for network interfaces of the user have no effect. A launch refuses them; the spec of a
/// running machine may change.
fn check_groups_of_brought_interfaces(scope: &mut MachineScope) {
    let has_groups = !scope.machine.spec.additional_security_groups.is_empty();
    let problem = has_groups.then(|| (Reason::InvalidSpec, GROUPS_OF_BROUGHT_INTERFACES.to_owned()));
    scope.report_problem(ConditionType::SecurityGroupsReady, problem);
}

/// Whether the instance may lack tags that its machine asks for.
fn lacks_tags(scope: &MachineScope) -> bool {
    let applied = scope.status.applied_tags.as_ref();
    let mut own = scope.machine.spec.additional_tags.iter();
    let lacks_own = own.any(|(key, value)| applied.and_then(|tags| tags.get(key)) != Some(value));
    lacks_own || !scope.status.pending_tags.is_empty()
}

/// Shows how the instance deviates from the spec; `None` leaves what was shown before. An overdue listing takes
/// precedence, because it may hide deviations.
fn show_deviation(scope: &mut MachineScope, deviation: Option<ConditionUpdate>, location: &InstanceLocation) {
    if observation::overdue(location).is_some() {
        return;
    }
    match deviation {
        Some(deviation) => scope.set_condition(deviation),
        None => scope.leave_condition(ConditionType::InstanceUpToDate),
    }
}

/// The condition of a change that has failed, which is tried again.
fn postponed(scope: &mut MachineScope, change: Result<(), FlowError>) -> Result<Option<ConditionUpdate>, FlowError> {
    match change {
        Ok(()) => Ok(None),
        Err(FlowError::Blocked(blocked)) => {
            scope.next = earlier(scope.next, blocked.next);
            Ok(Some(blocked.condition))
        }
        Err(failed) => Err(failed),
    }
}

/// Sets and removes tags of the instance, of its volumes and of its own network interface.
async fn update_tags(
    scope: &mut MachineScope,
    instance: &Instance,
    network: &MachineNetwork,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    if let Some(problem) = validation::validate_tags(&scope.machine.spec, network, &location.session.cluster_tag) {
        let message = format!("the tags of instance {} do not change: {}", instance.id, problem.message);
        let refused = ConditionType::InstanceUpToDate.is_false(problem.reason, message);
        return Err(Blocked::new(refused, Next::AwaitChange).into());
    }
    let wanted = additional_tags(&scope.machine.spec, network);
    let applied = scope.status.applied_tags.clone();
    let applied = applied.or_else(|| plan::tags_taken_over(&scope.machine));
    let name = scope.machine.metadata.name.as_deref().unwrap_or_default();
    let known = KnownTags { applied: applied.as_ref(), pending: &scope.status.pending_tags };
    let change = TagChange::between(known, &wanted, name);
    let before = scope.status.pending_tags.clone();
    await_outcome(scope, &change, context).await?;
    if let Err((done, error)) = make(&change, scope, instance, location).await {
        if error.class.is_refusal() {
            // A call that AWS has refused has changed nothing.
            scope.status.pending_tags = before;
            scope.status.pending_tags.extend(done);
        }
        let message = format!("the tags of instance {} cannot be changed: {error}", instance.id);
        return Err(Blocked::by_call(ConditionType::InstanceUpToDate, message, &error).into());
    }
    let changed: BTreeSet<&str> = change.tags().map(|(key, _)| key.as_str()).collect();
    if !changed.is_empty() {
        let changed: Vec<&str> = changed.into_iter().collect();
        let message = format!("changed tags of instance {}: {}", instance.id, changed.join(", "));
        scope.events.push(EventDraft::normal("TagsUpdated", message));
    }
    scope.status.applied_tags = Some(wanted);
    scope.status.pending_tags.clear();
    Ok(())
}

/// Records before the calls of a change that their outcome is unknown: they may take effect without an answer, and the
/// spec may be changed back meanwhile.
async fn await_outcome(
    scope: &mut MachineScope,
    change: &TagChange,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let pending = &mut scope.status.pending_tags;
    let before = pending.clone();
    pending.extend(change.tags().map(|(key, value)| (key.clone(), value.clone())));
    if *pending != before {
        write::store(scope, context).await?;
    }
    Ok(())
}

/// Makes the calls of a change. Tags are removed first, to stay within the limit of tags.
///
/// # Errors
/// A call has failed. The error contains the tags of the calls that succeeded before.
async fn make(
    change: &TagChange,
    scope: &MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
) -> Result<(), (Tags, CloudError)> {
    let (cloud, key, resources) = (&location.session.cloud, scope.key(), tagged(scope, instance));
    let mut done = Tags::new();
    for tags in &change.remove {
        let removed = cloud.remove_tags(&key, &resources, tags).await;
        removed.map_err(|error| (done.clone(), error))?;
        done.extend(tags.clone());
    }
    if !change.set.is_empty() {
        let set = cloud.set_tags(&key, &resources, &change.set).await;
        set.map_err(|error| (done, error))?;
    }
    Ok(())
}

/// Sets the records of the instance's resource-based name, if `spec.privateDnsName` has changed. Until AWS answers, it
/// is unknown which records the instance has.
async fn update_dns_records(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let wanted = scope.machine.spec.private_dns_name.clone();
    if scope.status.applied_private_dns_name == wanted {
        return Ok(());
    }
    let records = wanted.as_ref().map_or_else(DnsRecords::default, |name| DnsRecords {
        a: name.enable_resource_name_dns_a_record,
        aaaa: name.enable_resource_name_dns_aaaa_record,
    });
    if records != DnsRecords::default() {
        let before = scope.status.applied_private_dns_name.take();
        if before.is_some() {
            write::store(scope, context).await?;
        }
        let key = scope.key();
        let set = location.session.cloud.set_dns_records(&key, &instance.id, records).await;
        if let Err(error) = set {
            if error.class.is_refusal() {
                scope.status.applied_private_dns_name = before;
            }
            let message = format!("the DNS records of instance {} cannot be changed: {error}", instance.id);
            return Err(Blocked::by_call(ConditionType::InstanceUpToDate, message, &error).into());
        }
        let message = format!("changed the DNS records of instance {}", instance.id);
        scope.events.push(EventDraft::normal("DNSRecordsUpdated", message));
    }
    scope.status.applied_private_dns_name = wanted;
    Ok(())
}

/// Tightens the options of the metadata service to those of the spec, if somebody has loosened them in AWS, because
/// they protect the instance's credentials. Options that are tighter than the spec stay.
async fn update_metadata_options(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
) -> Result<(), FlowError> {
    let wanted = &scope.machine.spec.instance_metadata_options;
    let (Some(wanted), Some(actual)) = (wanted, &instance.metadata_options) else {
        return Ok(());
    };
    let tightened = actual.tightened(wanted);
    if tightened == *actual {
        return Ok(());
    }
    let key = scope.key();
    let set = location.session.cloud.set_metadata_options(&key, &instance.id, &tightened);
    set.await.map_err(|error| {
        let message = format!(
            "the options of the metadata service of instance {} are looser than spec.instanceMetadataOptions, and \
             cannot be changed: {error}",
            instance.id
        );
        Blocked::by_call(ConditionType::InstanceUpToDate, message, &error)
    })?;
    let message = format!("tightened the options of the metadata service of instance {}", instance.id);
    scope.events.push(EventDraft::normal("MetadataOptionsUpdated", message));
    Ok(())
}

/// The resources that have the tags of the machine: the instance and what its launch created.
fn tagged(scope: &MachineScope, instance: &Instance) -> Vec<String> {
    let interface = own_interface(scope, instance).map(|interface| interface.id.clone());
    let volumes = instance.volume_ids.iter().cloned();
    [instance.id.clone()].into_iter().chain(volumes).chain(interface).collect()
}

/// The primary network interface, unless the user brought it. The provider never changes an interface that the user
/// brought.
fn own_interface<'a>(scope: &MachineScope, instance: &'a Instance) -> Option<&'a PrimaryInterface> {
    let brought = &scope.machine.spec.network_interfaces;
    instance.primary_interface.as_ref().filter(|_| brought.is_empty())
}

/// The deviation of an instance whose type was changed in AWS.
fn other_type(scope: &MachineScope, instance: &Instance) -> Option<ConditionUpdate> {
    let (wanted, actual) = (&scope.machine.spec.instance_type, &instance.instance_type);
    if wanted == actual {
        return None;
    }
    let message = format!(
        "instance {} has type {actual}, and spec.instanceType is {wanted}: the type was changed in AWS, and stays; \
         replace the Machine to have what its template says",
        instance.id
    );
    Some(ConditionType::InstanceUpToDate.is_false(Reason::Drifted, message))
}

/// Gives the network interface the groups of `spec.additionalSecurityGroups`, if the spec has changed. A group that
/// somebody else removed is reported, and not added again.
async fn update_groups(
    scope: &mut MachineScope,
    instance: &Instance,
    interface: &PrimaryInterface,
    network: &MachineNetwork,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let recorded = scope.status.applied_security_groups.clone();
    let references = &scope.machine.spec.additional_security_groups;
    let given = given_groups(scope, interface, network);
    let is_done =
        |recorded: &AppliedSecurityGroups| recorded.pending != Some(true) && recorded.references == *references;
    if recorded.as_ref().is_some_and(is_done) {
        let facts = KnownGroups { actual: &interface.security_group_ids, given: &given, applied: recorded.as_ref() };
        scope.set_condition(groups_in_place(instance, interface, &facts.missing()));
        return Ok(());
    }
    let wanted = AppliedSecurityGroups {
        references: references.clone(),
        ids: references::additional_security_groups(
            &scope.machine.spec,
            network,
            instance.subnet_id.as_deref(),
            location.session.cloud.as_ref(),
        )
        .await?,
        pending: None,
    };
    let applied = recorded.or_else(|| plan::security_groups_taken_over(&scope.machine));
    let facts = KnownGroups { actual: &interface.security_group_ids, given: &given, applied: applied.as_ref() };
    let step = match facts.step_to(wanted.clone()) {
        step @ GroupStep::Record(_) => step,
        GroupStep::Replace { .. } | GroupStep::LeavesNone => {
            let actual = groups_now(scope, instance, location).await?;
            let facts = KnownGroups { actual: &actual, ..facts };
            facts.step_to(wanted)
        }
    };
    match step {
        GroupStep::Record(after) => record(scope, after),
        GroupStep::LeavesNone => return Err(leaves_none(instance).into()),
        GroupStep::Replace { before, groups, after } => {
            scope.status.applied_security_groups = Some(before);
            write::store(scope, context).await?;
            replace_groups(scope, instance, interface, groups, location).await?;
            record(scope, after);
        }
    }
    scope.set_condition(ConditionType::SecurityGroupsReady.is_true(Reason::Ready));
    Ok(())
}

/// The groups that the provider has given the instance. If the record was lost: those groups of the network that the
/// instance has.
fn given_groups(scope: &MachineScope, interface: &PrimaryInterface, network: &MachineNetwork) -> Vec<String> {
    let in_use = scope.status.network.as_ref();
    let recorded = in_use.map(|in_use| &in_use.security_group_ids);
    if let Some(recorded) = recorded.filter(|recorded| !recorded.is_empty()) {
        return recorded.clone();
    }
    let role = scope.owners.role(&scope.machine);
    let of_network = network.security_groups.iter();
    let of_network = of_network.flat_map(|groups| groups.of_machine(role));
    let has = |id: &&String| interface.security_group_ids.contains(id);
    of_network.filter(has).cloned().collect()
}

/// The groups of the network interface at the moment. The call replaces all groups, and the last listing may lack a
/// group that somebody else has added.
async fn groups_now(
    scope: &MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
) -> Result<Vec<String>, Blocked> {
    let failed = |error: &CloudError| {
        let message = format!("the security groups of instance {} cannot be looked up: {error}", instance.id);
        Blocked::by_call(ConditionType::SecurityGroupsReady, message, error)
    };
    let shown = observation::look_up_id(location.session.cloud.as_ref(), &instance.id).await;
    let shown = shown.map_err(|error| failed(&error))?;
    let interface = shown.as_ref().and_then(|shown| own_interface(scope, shown));
    interface.map(|interface| interface.security_group_ids.clone()).ok_or_else(|| {
        let message = format!(
            "AWS shows no network interface of instance {} at the moment, whose security groups are to change",
            instance.id
        );
        let waiting = ConditionType::SecurityGroupsReady.is_false(Reason::Failed, message);
        Blocked::new(waiting, Next::Retry)
    })
}

fn record(scope: &mut MachineScope, groups: GroupRecord) {
    scope.status.applied_security_groups = Some(groups.applied);
    if let Some(in_use) = &mut scope.status.network {
        in_use.security_group_ids = groups.given;
    }
}

async fn replace_groups(
    scope: &mut MachineScope,
    instance: &Instance,
    interface: &PrimaryInterface,
    security_group_ids: Vec<String>,
    location: &InstanceLocation,
) -> Result<(), Blocked> {
    let replaced = PrimaryInterface { id: interface.id.clone(), security_group_ids };
    let groups = replaced.security_group_ids.join(", ");
    let key = scope.key();
    let set = location.session.cloud.set_security_groups(&key, &instance.id, &replaced);
    set.await.map_err(|error| {
        let message = format!(
            "the security groups of network interface {} of instance {} cannot be set to {groups}: {error}",
            interface.id, instance.id
        );
        Blocked::by_call(ConditionType::SecurityGroupsReady, message, &error)
    })?;
    let message = format!("set the security groups of instance {} to {groups}", instance.id);
    scope.events.push(EventDraft::normal("SecurityGroupsUpdated", message));
    Ok(())
}

fn leaves_none(instance: &Instance) -> Blocked {
    let message = format!(
        "instance {} would have no security group without those of spec.additionalSecurityGroups, and keeps them: name \
         another one",
        instance.id
    );
    let refused = ConditionType::SecurityGroupsReady.is_false(Reason::InvalidSpec, message);
    Blocked::new(refused, Next::AwaitChange)
}

fn groups_in_place(instance: &Instance, interface: &PrimaryInterface, missing: &[&str]) -> ConditionUpdate {
    let missing: BTreeSet<&str> = missing.iter().copied().collect();
    if missing.is_empty() {
        return ConditionType::SecurityGroupsReady.is_true(Reason::Ready);
    }
    let missing: Vec<&str> = missing.into_iter().collect();
    let message = format!(
        "network interface {} of instance {} no longer has security group {}: it was taken away in AWS, and is not \
         added again; add it there, or replace the Machine",
        interface.id,
        instance.id,
        missing.join(", ")
    );
    ConditionType::SecurityGroupsReady.is_false(Reason::Drifted, message)
}
