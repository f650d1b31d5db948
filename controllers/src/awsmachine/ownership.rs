//! Decides which AWSMachine an instance belongs to: by the tags of the instance, its client token, the launch record,
//! the spec and the annotation `adopt-instance`. Launch, adoption, termination, registration and recovery all use
//! [`ownership`]. [`adopt`] chooses among the instances that a lookup found; it alone accepts an instance without tags,
//! if the launch record proves it. The client tokens of launches are here too: they are one of the proofs. Pure.

use std::fmt::{self, Display, Formatter};
use std::num::NonZeroU32;
use std::sync::Arc;

use capa_api::contract::Machine;
use capa_api::forms::IdKind;
use capa_api::machine::{AWSMachine, LaunchRecord, RecordedRequest};
use capa_api::meta;
use capa_cloud::lookups::InstanceLookup;
use capa_cloud::{Instance, Query};
use jiff::SignedDuration;
use kube::Resource as _;
use thiserror::Error;

/// The most by which the clock of the manager, which dates a recorded call, may be ahead of the clock of EC2, which
/// dates the launch. With a clock that is further ahead, the instance of a call counts as that of an earlier one.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// The ownership of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The instance belongs to the AWSMachine: it has the tags of the machine, and this proof.
    Ours(Proof),
    /// Nothing proves that the instance belongs to the AWSMachine.
    Foreign(NotOurs),
}

/// The proof, in addition to the tags, that an instance belongs to the AWSMachine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The launch record contains the id of the instance, or its client token.
    Recorded,
    /// The client token of the instance begins with the UID of this AWSMachine.
    Launched,
    /// The spec names the instance, and the AWSMachine has a verified owner.
    Named,
    /// The annotation `adopt-instance` names the instance, and the AWSMachine has a verified owner.
    Adopted,
}

/// The reason why an instance does not belong to the AWSMachine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum NotOurs {
    /// The tags of the machine are missing.
    #[error("it does not carry the tags of this machine")]
    Untagged(Proof),
    /// No proof exists.
    #[error("neither its client token nor this AWSMachine shows that it belongs to this machine")]
    Unnamed,
    /// The AWSMachine names the instance, but has no verified owner.
    #[error("this AWSMachine names it, and {0}")]
    WithoutOwner(OwnerProblem),
    /// Another AWSMachine names or records the instance too.
    #[error("AWSMachine {0} names or records it too")]
    Claimed(String),
}

/// The reason why an AWSMachine has no verified owner.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum OwnerProblem {
    /// The AWSMachine has no owner reference to a Machine.
    #[error("no Machine owns this AWSMachine")]
    Unreferenced,
    /// The owner does not exist.
    #[error("the Machine that owns this AWSMachine by its ownerReferences does not exist")]
    Missing,
    /// The UID in the reference differs from the UID of the Machine.
    #[error("its ownerReferences mean another Machine than the one of that name (the UIDs differ)")]
    OtherUid,
    /// The Machine names another infrastructure object.
    #[error("the Machine that it names in its ownerReferences names another object in spec.infrastructureRef")]
    NamesAnother,
}

/// The facts about the AWSMachine that an instance may belong to.
pub(super) struct Evidence<'a> {
    /// The AWSMachine.
    pub(super) machine: &'a AWSMachine,
    /// The result of [`verified_owner`].
    pub(super) owner: &'a Result<Arc<Machine>, OwnerProblem>,
    /// The tags of the AWSMachine's instance.
    pub(super) tags: MachineTags<'a>,
    /// The AWSMachines that name or record the instance. This AWSMachine may be among them.
    pub(super) claims: &'a [Claim],
}

/// An AWSMachine that names or records an instance ([`claimed_instances`]).
pub(super) struct Claim {
    /// The AWSMachine.
    pub(super) machine: Arc<AWSMachine>,
    /// Whether it has a verified owner.
    pub(super) has_owner: bool,
}

/// Decides whether an instance from AWS belongs to the AWSMachine.
pub(super) fn ownership(instance: &Instance, evidence: &Evidence<'_>) -> Ownership {
    match proof(instance, evidence) {
        Ok(proof) if evidence.tags.are_on(instance) => Ownership::Ours(proof),
        Ok(proof) => Ownership::Foreign(NotOurs::Untagged(proof)),
        Err(reason) => Ownership::Foreign(reason),
    }
}

/// The proof, besides the tags, that an instance belongs to the AWSMachine.
fn proof(instance: &Instance, evidence: &Evidence<'_>) -> Result<Proof, NotOurs> {
    let Evidence { machine, .. } = evidence;
    let launch = machine.status.as_ref().and_then(|status| status.launch.as_ref());
    let token = instance.client_token.as_deref().filter(|token| !token.is_empty());
    let recorded_token = launch.and_then(LaunchRecord::request);
    let recorded_token = recorded_token.map(|request| request.client_token.as_str());
    if machine.recorded_instance_id() == Some(&instance.id) || (token.is_some() && token == recorded_token) {
        return Ok(Proof::Recorded);
    }
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    if token.is_some_and(|token| attempt_number(token, uid).is_some()) {
        return Ok(Proof::Launched);
    }
    let named = if machine.spec.claimed_instance_id().as_deref() == Some(&instance.id) {
        Proof::Named
    } else if AdoptAnnotation::of(machine) == AdoptAnnotation::Instance(&instance.id) {
        Proof::Adopted
    } else {
        return Err(NotOurs::Unnamed);
    };
    if let Err(problem) = evidence.owner {
        return Err(NotOurs::WithoutOwner(problem.clone()));
    }
    match evidence.claims.iter().find(|other| has_claim(other, machine, &instance.id)) {
        Some(other) => Err(NotOurs::Claimed(name_of(&other.machine))),
        None => Ok(named),
    }
}

/// Whether another AWSMachine has a claim to the instance. An instance in the status of the other AWSMachine always
/// counts. An instance in its spec or annotation, which users write, counts only in the namespace that the tags of the
/// instance name, and only if the other AWSMachine has a verified owner: otherwise a copy of an AWSMachine would take
/// the instance from the original.
fn has_claim(other: &Claim, machine: &AWSMachine, id: &str) -> bool {
    let (metadata, has_owner) = (&other.machine.metadata, other.has_owner);
    let is_itself = metadata.name == machine.metadata.name;
    let is_neighbour = metadata.namespace == machine.metadata.namespace;
    let is_recorded = other.machine.recorded_instance_id() == Some(id);
    !(is_itself && is_neighbour) && (is_recorded || (is_neighbour && has_owner))
}

fn name_of(machine: &AWSMachine) -> String {
    let metadata = &machine.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&metadata.namespace), part(&metadata.name))
}

/// The instances that an AWSMachine names or records, without duplicates. The cache indexes AWSMachines by these ids.
pub fn claimed_instances(machine: &AWSMachine) -> Vec<String> {
    let mut ids: Vec<String> = machine.recorded_instance_id().map(str::to_owned).into_iter().collect();
    ids.extend(machine.spec.claimed_instance_id());
    if let AdoptAnnotation::Instance(id) = AdoptAnnotation::of(machine) {
        ids.push(id.to_owned());
    }
    ids.sort();
    ids.dedup();
    ids
}

/// Whether the call of a launch record launched the instance. A record that follows a restored backup may use the token
/// of an attempt that the backup has forgotten, also in another zone, where EC2 launches another instance for it. The
/// instance of the forgotten attempt was launched before the recorded call.
pub(super) fn launched_by(request: &RecordedRequest, instance: &Instance) -> bool {
    let earliest = request.requested_at.0 - CLOCK_TOLERANCE;
    instance.client_token.as_deref() == Some(&request.client_token)
        && instance.launch_time.is_none_or(|launched| launched >= earliest)
}

/// The verified owner of an AWSMachine: a Machine that exists, whose UID is in the owner reference, and whose
/// `infrastructureRef` names this AWSMachine. Users can write owner references, so a reference alone proves nothing.
/// `named` is the Machine with the name in the reference.
pub(super) fn verified_owner(machine: &AWSMachine, named: Option<Arc<Machine>>) -> Result<Arc<Machine>, OwnerProblem> {
    let reference = meta::owner(&machine.metadata, meta::CORE_GROUP, "Machine").ok_or(OwnerProblem::Unreferenced)?;
    let owner = named.ok_or(OwnerProblem::Missing)?;
    if owner.metadata.uid.as_deref() != Some(&reference.uid) || reference.uid.is_empty() {
        return Err(OwnerProblem::OtherUid);
    }
    let names_machine = owner.spec.infrastructure_ref.as_ref().is_some_and(|named| {
        named.api_group == meta::GROUP
            && named.kind == AWSMachine::kind(&())
            && Some(&named.name) == machine.metadata.name.as_ref()
    });
    if names_machine { Ok(owner) } else { Err(OwnerProblem::NamesAnother) }
}

/// The value of the annotation `adopt-instance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdoptAnnotation<'a> {
    /// The annotation is absent.
    Absent,
    /// The value `none`: an instance is launched although other instances have the tags of this machine.
    LaunchNew,
    /// The id of an instance: this instance is adopted.
    Instance(&'a str),
    /// The value is neither an instance id nor `none`.
    Unreadable(&'a str),
}

impl<'a> AdoptAnnotation<'a> {
    /// Reads the annotation.
    pub(super) fn of(machine: &'a AWSMachine) -> Self {
        match meta::annotation(&machine.metadata, meta::ADOPT_INSTANCE_ANNOTATION) {
            None => Self::Absent,
            Some(meta::ADOPT_NO_INSTANCE) => Self::LaunchNew,
            Some(id) if IdKind::Instance.is_id(id) => Self::Instance(id),
            Some(value) => Self::Unreadable(value),
        }
    }
}

/// The ids of instances in a message, at most ten of them.
pub(super) struct Ids<'a>(pub(super) &'a [String]);

impl Display for Ids<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 10;
        let named: Vec<&str> = self.0.iter().take(NAMED).map(String::as_str).collect();
        formatter.write_str(&named.join(", "))?;
        if self.0.len() > NAMED {
            formatter.write_str(" and others")?;
        }
        Ok(())
    }
}

/// Maximum length of an object name.
const NAME_LENGTH: usize = 253;
/// Maximum length of the value of a tag.
const TAG_LENGTH: usize = 256;

/// The tags of the instance of one machine. They prove nothing: a copy of the AWSMachine, another management cluster
/// and CAPA use the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineTags<'a> {
    /// Name of the cluster in tags.
    pub(super) cluster: &'a str,
    /// Namespace of the Machine.
    pub(super) namespace: &'a str,
    /// Name of the Machine.
    pub(super) machine: &'a str,
}

impl MachineTags<'_> {
    /// Whether an instance has exactly these tags.
    pub(super) fn are_on(&self, instance: &Instance) -> bool {
        let tag = |key: &str| instance.tags.get(key).map(String::as_str);
        tag(&meta::cluster_tag(self.cluster)) == Some(meta::OWNED_TAG_VALUE)
            && tag(meta::MACHINE_NAME_TAG) == Some(self.machine_name().as_str())
    }

    /// The query for the instances with these tags. EC2 interprets `*` and `?` in filters as wildcards, so only valid
    /// object names become filter values. If the cluster's name in tags is not valid, the query has no filter for it,
    /// and [`Self::are_on`] compares it. If the Machine's name is not valid, there is no query, because no such Machine
    /// exists.
    pub(super) fn query(&self) -> Option<Query> {
        if !is_name(self.namespace) || !is_name(self.machine) {
            return None;
        }
        let query = Query::filter(format!("tag:{}", meta::MACHINE_NAME_TAG), [self.machine_name()]);
        Some(if is_name(self.cluster) {
            let cluster = format!("tag:{}", meta::cluster_tag(self.cluster));
            query.and(cluster, [meta::OWNED_TAG_VALUE])
        } else {
            query
        })
    }

    /// The lookup of the instances with these tags that other machines share, before the call with this client token.
    /// `None` if the Machine's name is not valid, or too long for a tag: such a filter would make AWS refuse the lookup
    /// of all.
    pub(super) fn lookup(&self, client_token: &str) -> Option<InstanceLookup> {
        let machine_name = self.machine_name();
        let is_valid = is_name(self.namespace) && is_name(self.machine) && machine_name.len() <= TAG_LENGTH;
        is_valid.then(|| InstanceLookup { client_token: client_token.to_owned(), machine_name })
    }

    /// The tags in the form of messages.
    pub(super) fn described(&self) -> String {
        format!(
            "{}: {} and {}: {}",
            meta::MACHINE_NAME_TAG,
            self.machine_name(),
            meta::cluster_tag(self.cluster),
            meta::OWNED_TAG_VALUE
        )
    }

    fn machine_name(&self) -> String {
        meta::machine_name_tag_value(self.namespace, self.machine)
    }
}

/// Whether the text is a valid object name: a DNS subdomain according to RFC 1123.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= NAME_LENGTH && text.split('.').all(is_label)
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Adoption {
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
pub(super) fn adopt(found: &[(Instance, Ownership)], open: Option<&RecordedRequest>) -> Adoption {
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

/// The client token of an attempt to launch.
pub(super) fn launch_token(uid: &str, number: NonZeroU32) -> String {
    format!("{uid}-{number}")
}

/// The key of the search for the instance of a machine without a readable attempt: no attempt has the number 0.
pub(super) fn search_token(machine: &AWSMachine) -> String {
    format!("{}-0", machine.metadata.uid.as_deref().unwrap_or_default())
}

/// The number of the attempt in a client token of the AWSMachine with this UID. `None` for any other token.
pub(super) fn attempt_number(client_token: &str, uid: &str) -> Option<u32> {
    let number = client_token.strip_prefix(uid).filter(|_| !uid.is_empty())?;
    let number: i32 = number.strip_prefix('-')?.parse().ok()?;
    u32::try_from(number).ok()
}

/// The UID in the client token of an instance.
pub(super) fn uid_in(client_token: &str) -> Option<&str> {
    client_token.rsplit_once('-').map(|(uid, _)| uid)
}

#[cfg(test)]
mod tests;
