//! Tests of the decisions of sessions. The tests of whole sessions are in the crate of the AWS fake (`capa_fake_aws`).

mod account;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::limits::{CallRequest, Caller, Flow, Priority, Shares};
use crate::{CloudError, ClusterKey, CredentialSource, MachineKey, Query, ResolvedIdentity, Timing};

const ACCOUNT: &str = "111122223333";
const OTHER_ACCOUNT: &str = "444455556666";
const REGION: &str = "eu-west-1";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn machine(name: &str) -> MachineKey {
    MachineKey { namespace: "default".into(), name: name.into() }
}

#[test]
fn a_machine_has_one_session_and_a_claim_names_the_former() {
    let mut assignments = SessionAssignments::default();
    let (one, two) = (machine("one"), machine("two"));
    assert_eq!(assignments.claim(&one, "a"), None);
    assert_eq!(assignments.claim(&one, "a"), None, "the same again");
    assert_eq!(assignments.claim(&two, "a"), None);
    assert_eq!(assignments.claim(&one, "b"), Some("a"));
    assert_eq!(assignments.release(&one), Some("b"));
    assert_eq!(assignments.release(&one), None);
    assert_eq!(assignments.release(&two), Some("a"));
}

fn rates() -> Arc<RateLimits> {
    Arc::new(RateLimits::new(Shares::default(), seconds(1)))
}

fn launch_turn(name: &str) -> CallRequest {
    CallRequest {
        action: "RunInstances",
        flow: Flow::Session("a".into()),
        caller: Caller::Task(name.to_owned()),
        priority: Priority::Launch,
        instances: 1,
    }
}

#[test]
fn sessions_of_one_account_share_its_rates_once_it_is_known() {
    let limits = rates();
    let sessions = ["a", "b"].map(|identity| RateLimiter::new(limits.clone(), identity, REGION));
    let launches = |session: &RateLimiter, names: [&str; 3]| {
        names.map(|name| {
            let request = launch_turn(name);
            let granted = session.acquire(&request, Duration::ZERO).is_ok();
            session.forget(&request.caller);
            granted
        })
    };
    assert_eq!(launches(&sessions[0], ["1", "2", "3"]), [true, true, false]);
    assert_eq!(launches(&sessions[1], ["4", "5", "6"]), [true, true, false]);
    for session in &sessions {
        session.belongs_to(ACCOUNT);
    }
    assert_eq!(launches(&sessions[0], ["7", "8", "9"]), [true, true, false]);
    assert_eq!(launches(&sessions[1], ["a", "b", "c"]), [false; 3]);
}

#[test]
fn a_lookup_by_token_continues_the_lookup_by_tags() {
    let session = RateLimiter::new(rates(), "a", REGION);
    let flow = Flow::Cluster(ClusterKey::default());
    let by_tags = |name: String| Query::filter("tag:MachineName", [name]);
    let turned_away = (0..100).find(|index| {
        let asked = session.acquire_lookup(&flow, &by_tags(index.to_string()), Duration::ZERO);
        asked.is_err()
    });
    assert!(turned_away.is_some(), "the rate is used up");
    let by_token = Query::filter("client-token", ["uid-1"]);
    assert!(session.acquire_lookup(&flow, &by_token, Duration::ZERO).is_ok());
}

#[test]
fn sessions_of_a_namespaces_clusters_are_one_tenant() {
    let session = RateLimiter::new(rates(), "a", REGION);
    let listing = |namespace: &str, number: usize| {
        let identity = ResolvedIdentity {
            key: format!("role/{namespace}/{number}"),
            source: CredentialSource::Controller,
            cluster: ClusterKey { namespace: namespace.to_owned(), name: number.to_string() },
            is_for_one_cluster: true,
        };
        let flow = SessionKey::new(&identity, REGION).flow();
        CallRequest::describe("DescribeInstances", &flow, &Query::default(), Priority::Describe)
    };
    for number in 0..1_000 {
        let _ = session.acquire(&listing("team-a", number), Duration::ZERO);
    }
    let deferred = session.acquire(&listing("team-b", 0), Duration::ZERO).err().unwrap();
    let wait = deferred.retry_after.unwrap();
    assert!(wait <= Duration::from_millis(201), "two turns of ten a second: {wait:?}");
}
