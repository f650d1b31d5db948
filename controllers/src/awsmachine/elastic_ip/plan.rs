//! The protocol of an allocation: decides the next step for the Elastic IP of a machine, and which addresses are its
//! own. Pure.
//!
//! The tags are CAPA's: the tag of the cluster, and a role that names the instance. They contain no UID of an
//! AWSMachine, so the address of an instance is found again after a move, after a loss of the status, and if CAPA
//! allocated it.

use capa_api::common::Tags;
use capa_api::machine::{ElasticIp, ElasticIpPhase};
use capa_api::meta;
use capa_cloud::{ElasticIp as Address, Query, Timing};
use jiff::Timestamp;

use crate::launch_memory::progress::{AbsenceProof, Progress};
use crate::time::{Moment, age};

/// The next step for the address of an instance that runs or has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressStep {
    /// The instance has the address.
    Keep,
    /// Wait until the instance runs.
    AwaitRunning,
    /// Look for an address of the instance. If there is none, write the record of a call, then make the call.
    Allocate,
    /// Confirm with the API server that the record of this process is unchanged, then make its call, which has had no
    /// effect so far.
    Repeat,
    /// Only look for the address until its absence is proven: a second call would allocate a second address.
    LookOnly,
    /// Give the instance the address with this allocation id.
    Associate(String),
    /// Look up the address with this allocation id: the instance no longer shows it, or shows it although the answer to
    /// the association was lost.
    Verify(String),
}

/// The known facts about an address besides its record.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownAddress {
    /// The progress of the recorded call, as far as this process knows.
    pub(in crate::awsmachine) progress: Progress,
    /// The lookups of the call's address so far.
    pub(in crate::awsmachine) absence: Option<AbsenceProof>,
    /// Whether the instance runs.
    pub(in crate::awsmachine) runs: bool,
    /// Whether the instance shows the recorded address as its own.
    pub(in crate::awsmachine) is_shown: bool,
}

/// Decides from the record. Each call is recorded before it is made, and no call follows a call that may have allocated
/// an address.
pub(super) fn plan_address(
    record: Option<&ElasticIp>,
    known: &KnownAddress,
    now: Moment,
    timing: &Timing,
) -> AddressStep {
    let begin = if known.runs { AddressStep::Allocate } else { AddressStep::AwaitRunning };
    let Some(record) = record else {
        return begin;
    };
    match (record.effective_phase(), &record.allocation_id) {
        (ElasticIpPhase::Requested, _) => after_request(known, begin, now, timing),
        // The answer to an association was lost.
        (ElasticIpPhase::Allocated, Some(id)) if known.is_shown => AddressStep::Verify(id.clone()),
        (ElasticIpPhase::Allocated, Some(id)) if known.runs => AddressStep::Associate(id.clone()),
        (ElasticIpPhase::Allocated, Some(_)) => AddressStep::AwaitRunning,
        (ElasticIpPhase::Associated, Some(id)) => {
            let is_settled = known.is_shown || is_recent(record, now.time, timing);
            if is_settled || !known.runs { AddressStep::Keep } else { AddressStep::Verify(id.clone()) }
        }
        (ElasticIpPhase::Refused | ElasticIpPhase::Allocated | ElasticIpPhase::Associated, _) => begin,
    }
}

fn after_request(known: &KnownAddress, begin: AddressStep, now: Moment, timing: &Timing) -> AddressStep {
    match known.progress {
        // Nothing was allocated.
        Progress::Refused => begin,
        Progress::Recorded if known.runs => AddressStep::Repeat,
        Progress::Recorded => AddressStep::AwaitRunning,
        Progress::Unknown | Progress::Unanswered | Progress::Unclear => {
            let proof = known.absence.map(|proof| proof.remaining(now.uptime, timing));
            if proof.is_some_and(|remaining| remaining.is_zero()) { begin } else { AddressStep::LookOnly }
        }
    }
}

/// Whether the listings of instances may not show the association yet.
fn is_recent(record: &ElasticIp, now: Timestamp, timing: &Timing) -> bool {
    let at = record.associated_at.as_ref();
    at.is_some_and(|at| age(at.0, now) < timing.listing_interval * 3)
}

/// The role of an address in its tags.
fn address_role(instance_id: &str) -> String {
    format!("ec2-{instance_id}")
}

/// The query for the addresses of an instance.
pub(super) fn address_query(instance_id: &str) -> Query {
    Query::filter(format!("tag:{}", meta::ROLE_TAG), [address_role(instance_id)])
}

/// The addresses that were allocated for an instance of the cluster, in the order of their ids.
pub(super) fn addresses_of(instance_id: &str, cluster_tag: &str, found: Vec<Address>) -> Vec<Address> {
    let (role, cluster) = (address_role(instance_id), meta::cluster_tag(cluster_tag));
    let has = |address: &Address, key: &str, value: &str| address.tags.get(key).is_some_and(|tag| tag == value);
    let found = found.into_iter();
    let mut ours: Vec<Address> = found
        .filter(|address| has(address, meta::ROLE_TAG, &role) && has(address, &cluster, meta::OWNED_TAG_VALUE))
        .collect();
    ours.sort_by(|one, other| one.allocation_id.cmp(&other.allocation_id));
    ours
}

/// The tags of the address of an instance. Those of the provider take precedence over `others`.
pub(in crate::awsmachine) fn address_tags(
    instance_id: &str,
    cluster_tag: &str,
    machine_name_tag: String,
    others: Tags,
) -> Tags {
    let mut tags =
        Tags::from([(meta::NAME_TAG.to_owned(), format!("{cluster_tag}-eip-{}", address_role(instance_id)))]);
    tags.extend(others);
    tags.extend([
        (meta::cluster_tag(cluster_tag), meta::OWNED_TAG_VALUE.to_owned()),
        (meta::ROLE_TAG.to_owned(), address_role(instance_id)),
        (meta::MACHINE_NAME_TAG.to_owned(), machine_name_tag),
    ]);
    tags
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    const NEW: KnownAddress = KnownAddress { progress: Progress::Unknown, absence: None, runs: true, is_shown: false };

    fn record(phase: ElasticIpPhase) -> ElasticIp {
        let is_allocated = matches!(phase, ElasticIpPhase::Allocated | ElasticIpPhase::Associated);
        ElasticIp {
            allocation_id: is_allocated.then(|| "eipalloc-1".to_owned()),
            phase: Some(phase),
            associated_at: Some(Time(Timestamp::UNIX_EPOCH)),
            ..ElasticIp::default()
        }
    }

    fn planned(record: Option<&ElasticIp>, known: KnownAddress, seconds: u64) -> AddressStep {
        let uptime = Duration::from_secs(seconds);
        let now = Moment { time: Timestamp::UNIX_EPOCH + uptime, uptime };
        plan_address(record, &known, now, &Timing::default())
    }

    #[test]
    fn each_state_of_the_record_has_its_step() {
        let by = |progress| KnownAddress { progress, ..NEW };
        let starting = KnownAddress { runs: false, ..NEW };
        let shown = KnownAddress { is_shown: true, ..NEW };
        let id = || "eipalloc-1".to_owned();
        let requested = record(ElasticIpPhase::Requested);
        let refused = record(ElasticIpPhase::Refused);
        let allocated = record(ElasticIpPhase::Allocated);
        let associated = record(ElasticIpPhase::Associated);
        let table = [
            (None, NEW, AddressStep::Allocate),
            (None, starting, AddressStep::AwaitRunning),
            (Some(&refused), NEW, AddressStep::Allocate),
            (Some(&requested), by(Progress::Unknown), AddressStep::LookOnly),
            (Some(&requested), by(Progress::Unanswered), AddressStep::LookOnly),
            (Some(&requested), by(Progress::Unclear), AddressStep::LookOnly),
            (Some(&requested), by(Progress::Recorded), AddressStep::Repeat),
            (Some(&requested), by(Progress::Refused), AddressStep::Allocate),
            (Some(&allocated), NEW, AddressStep::Associate(id())),
            (Some(&allocated), shown, AddressStep::Verify(id())),
            (Some(&allocated), starting, AddressStep::AwaitRunning),
            (Some(&associated), shown, AddressStep::Keep),
            (Some(&associated), starting, AddressStep::Keep),
            (Some(&associated), NEW, AddressStep::Verify(id())),
        ];
        for (record, known, expected) in table {
            assert_eq!(planned(record, known, 3600), expected, "{record:?}, {known:?}");
        }
    }

    #[test]
    fn another_call_follows_the_proof_of_absence() {
        let requested = record(ElasticIpPhase::Requested);
        let since = |second| {
            let at = Duration::from_secs(second);
            let absence = Some(AbsenceProof { since: at, first_empty: Some(at) });
            planned(Some(&requested), KnownAddress { absence, ..NEW }, 3600)
        };
        assert_eq!(since(3600 - 599), AddressStep::LookOnly);
        assert_eq!(since(3600 - 600), AddressStep::Allocate);
    }

    #[test]
    fn an_address_is_looked_for_once_listings_must_show_it() {
        let associated = record(ElasticIpPhase::Associated);
        assert_eq!(planned(Some(&associated), NEW, 179), AddressStep::Keep);
        assert_eq!(planned(Some(&associated), NEW, 180), AddressStep::Verify("eipalloc-1".to_owned()));
    }

    const INSTANCE: &str = "i-0000000000000000a";

    fn address(id: &str, tags: Tags) -> Address {
        Address {
            allocation_id: id.to_owned(),
            public_ip: "203.0.113.1".to_owned(),
            association_id: None,
            instance_id: None,
            tags,
        }
    }

    #[test]
    fn the_address_of_an_instance_is_known_by_cluster_and_role() {
        let own = || address_tags(INSTANCE, "dev", "team-a/m".to_owned(), Tags::new());
        let of_capa: Tags = [
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned"),
            ("sigs.k8s.io/cluster-api-provider-aws/role", "ec2-i-0000000000000000a"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let of_another = address_tags("i-0000000000000000b", "dev", "team-a/m".to_owned(), Tags::new());
        let of_another_cluster = address_tags(INSTANCE, "prod", "team-a/m".to_owned(), Tags::new());
        let found = vec![
            address("eipalloc-2", own()),
            address("eipalloc-1", of_capa),
            address("eipalloc-3", of_another),
            address("eipalloc-4", of_another_cluster),
            address("eipalloc-5", Tags::new()),
        ];
        let ours = addresses_of(INSTANCE, "dev", found).into_iter();
        let ids: Vec<String> = ours.map(|address| address.allocation_id).collect();
        assert_eq!(ids, ["eipalloc-1", "eipalloc-2"]);
    }

    #[test]
    fn tags_of_users_may_change_the_name_alone() {
        let others = Tags::from([
            (meta::NAME_TAG.to_owned(), "front door".to_owned()),
            (meta::ROLE_TAG.to_owned(), "ec2-i-other".to_owned()),
        ]);
        let tags = address_tags(INSTANCE, "dev", "team-a/m".to_owned(), others);
        assert_eq!(tags[meta::NAME_TAG], "front door");
        assert_eq!(tags[meta::ROLE_TAG], address_role(INSTANCE));
    }
}
