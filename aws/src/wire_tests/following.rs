//! Instances followed by an informer.

use std::sync::Arc;
use std::time::Duration;

use capa_cloud::{ErrorClass, InstanceState, MachineClouds, MachineKey, Observation, Query};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;

use super::fake::{Answer, CLUSTER, Call, Fake, REGION, answer, ec2_error, eventually, identity, instances, machine};

type Instances = Arc<Mutex<Vec<(&'static str, InstanceState)>>>;

fn shown(instances: &[(&'static str, InstanceState)]) -> Instances {
    Arc::new(Mutex::new(instances.to_vec()))
}

fn set(shown: &Instances, id: &str, state: InstanceState) {
    for (known, known_state) in shown.lock().iter_mut() {
        if *known == id {
            *known_state = state;
        }
    }
}

/// Lists one instance per page, and answers lookups by id.
fn serve(shown: &Instances, call: &Call) -> Answer {
    let known = shown.lock().clone();
    if call.action == "TerminateInstances" {
        let ids = terminated(call);
        if let Some(unknown) = ids.iter().find(|id| !known.iter().any(|(known, _)| known == id)) {
            let message = format!("The instance ID '{unknown}' does not exist");
            return ec2_error(400, "InvalidInstanceID.NotFound", &message);
        }
        let item = |id: &String| {
            format!("<item><instanceId>{id}</instanceId><currentState><name>shutting-down</name></currentState></item>")
        };
        let items: String = ids.iter().map(item).collect();
        let content = format!("<instancesSet>{items}</instancesSet>");
        return answer("TerminateInstances", &content, None);
    }
    if call.field("Filter.1.Name") == "instance-id" {
        let wanted = call.filter_values();
        let found: Vec<_> = known.into_iter().filter(|(id, _)| wanted.contains(id)).collect();
        return instances(&found, None);
    }
    let page: usize = call.field("NextToken").parse().unwrap_or_default();
    let next = (page + 1 < known.len()).then(|| (page + 1).to_string());
    let shown: Vec<_> = known.get(page).into_iter().copied().collect();
    instances(&shown, next.as_deref())
}

/// The instances that a TerminateInstances call names.
fn terminated(call: &Call) -> Vec<String> {
    let ids = (1..).map(|index| call.field(&format!("InstanceId.{index}")).to_owned());
    ids.take_while(|id| !id.is_empty()).collect()
}

async fn fake(shown: &Instances) -> Fake {
    let shown = shown.clone();
    Fake::start(move |call| serve(&shown, call)).await
}

async fn woken(changes: &mut (impl Stream<Item = MachineKey> + Unpin)) -> String {
    let next = tokio::time::timeout(Duration::from_mins(2), changes.next()).await;
    next.expect("no wake-up").expect("the stream ended").name
}

fn state(observation: &Observation) -> Option<InstanceState> {
    match observation {
        Observation::Seen(instance) => Some(instance.state),
        _ => None,
    }
}

#[tokio::test]
async fn a_whole_listing_wakes_machines_and_transitions_are_polled() {
    let shown = shown(&[("i-1", InstanceState::Running), ("i-2", InstanceState::Pending)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let mut changes = pool.changes();
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    assert_eq!(machines.observe_instance(&machine("one"), "i-1"), Observation::Unknown);
    assert_eq!(machines.observe_instance(&machine("two"), "i-2"), Observation::Unknown);
    assert_eq!(woken(&mut changes).await, "one");
    assert_eq!(woken(&mut changes).await, "two");
    set(&shown, "i-2", InstanceState::Running);
    assert_eq!(woken(&mut changes).await, "two");
    assert_eq!(state(&machines.observe_instance(&machine("two"), "i-2")), Some(InstanceState::Running));
    let calls = fake.calls();
    assert_eq!(calls[0].field("Filter.1.Name"), "tag-key");
    assert_eq!(calls[0].filter_values(), ["sigs.k8s.io/cluster-api-provider-aws/cluster/dev"]);
    assert_eq!(calls[1].field("NextToken"), "1");
    let polls = calls.iter().filter(|call| call.field("Filter.1.Name") == "instance-id");
    assert!(polls.into_iter().all(|poll| poll.filter_values() == ["i-2"]));
}

#[tokio::test]
async fn a_vanished_instance_is_absent_after_a_listing_and_a_lookup() {
    let shown = shown(&[("i-1", InstanceState::Running), ("i-2", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let mut changes = pool.changes();
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    machines.observe_instance(&machine("two"), "i-2");
    assert_eq!(woken(&mut changes).await, "two");
    shown.lock().pop();
    assert_eq!(woken(&mut changes).await, "two");
    assert_eq!(machines.observe_instance(&machine("two"), "i-2"), Observation::Absent);
    assert!(fake.calls().iter().any(|call| call.filter_values() == ["i-2"]));
}

#[tokio::test]
async fn a_termination_is_known_with_its_answer_and_followed() {
    let shown = shown(&[("i-1", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let mut changes = pool.changes();
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    machines.observe_instance(&machine("one"), "i-1");
    assert_eq!(woken(&mut changes).await, "one");
    machines.terminate(&machine("one"), "i-1").await.unwrap();
    assert_eq!(woken(&mut changes).await, "one");
    assert_eq!(state(&machines.observe_instance(&machine("one"), "i-1")), Some(InstanceState::ShuttingDown));
    set(&shown, "i-1", InstanceState::Terminated);
    assert_eq!(woken(&mut changes).await, "one");
    assert_eq!(state(&machines.observe_instance(&machine("one"), "i-1")), Some(InstanceState::Terminated));
}

#[tokio::test]
async fn terminations_are_batched_and_an_unknown_id_holds_up_no_other() {
    let ids = ["i-1", "i-2", "i-3", "i-4"];
    let shown =
        shown(&[("i-1", InstanceState::Running), ("i-3", InstanceState::Running), ("i-4", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let mut changes = pool.changes();
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    machines.observe_instance(&machine("i-1"), "i-1");
    assert_eq!(woken(&mut changes).await, "i-1", "the zone of each is known");
    for id in ids {
        assert_eq!(machines.terminate(&machine(id), id).await, Ok(()));
    }
    let mut told = Vec::new();
    while told.len() < 4 {
        told.push(woken(&mut changes).await);
        told.sort();
        told.dedup();
    }
    let mut calls: Vec<_> = fake.calls_of("TerminateInstances").iter().map(terminated).collect();
    calls.sort();
    assert_eq!(
        calls,
        [vec!["i-1", "i-2", "i-3", "i-4"], vec!["i-1", "i-3", "i-4"], vec!["i-2"]],
        "the zone of the unknown instance is unknown as well"
    );
    let refused = machines.terminate(&machine("i-2"), "i-2").await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::NotFound);
    for id in ["i-1", "i-3", "i-4"] {
        let observation = machines.observe_instance(&machine(id), id);
        assert_eq!(state(&observation), Some(InstanceState::ShuttingDown), "{id}");
    }
}

#[tokio::test]
async fn an_instance_that_a_lookup_found_is_known_at_once() {
    let shown = shown(&[("i-1", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    machines.find_instances(&Query::filter("instance-id", ["i-1"])).await.unwrap();
    assert_eq!(state(&machines.observe_instance(&machine("one"), "i-1")), Some(InstanceState::Running));
}

#[tokio::test]
async fn a_machine_with_a_new_identity_leaves_the_old_session_idle() {
    let shown = shown(&[("i-1", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let by = |key: &str| fake.calls().iter().filter(|call| call.access_key() == key).count();
    pool.machines(&identity("OLD"), REGION, CLUSTER).observe_instance(&machine("one"), "i-1");
    eventually("the old identity lists", || by("AKIAOLD") > 0).await;
    pool.machines(&identity("NEW"), REGION, CLUSTER).observe_instance(&machine("one"), "i-1");
    let before = by("AKIAOLD");
    eventually("the new identity lists three times", || by("AKIANEW") >= 3).await;
    assert!(by("AKIAOLD") <= before + 1, "at most a call that was under way");
}

#[tokio::test]
async fn refused_credentials_wake_the_machines() {
    let fake = Fake::start(|_| ec2_error(401, "AuthFailure", "refused")).await;
    let pool = fake.pool().await;
    let mut changes = pool.changes();
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    machines.observe_instance(&machine("one"), "i-1");
    assert_eq!(woken(&mut changes).await, "one");
    assert_eq!(machines.observe_instance(&machine("one"), "i-1"), Observation::Unknown);
}

#[tokio::test]
async fn forgotten_machines_and_a_dropped_pool_make_no_calls() {
    let shown = shown(&[("i-1", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let pool = fake.pool().await;
    let state = {
        let machines = pool.machines(&identity("A"), REGION, CLUSTER);
        machines.observe_instance(&machine("one"), "i-1");
        eventually("a listing", || !fake.calls().is_empty()).await;
        pool.forget(&machine("one"));
        pool.session(&identity("A"), REGION).state().clone()
    };
    assert_eq!(state.act(|session, _| session.next_due()), None);
    let stopped = Arc::downgrade(&state);
    drop((pool, state));
    eventually("the informer's task lets go of it", || stopped.strong_count() == 0).await;
}

#[tokio::test]
async fn the_informer_shows_in_the_metrics_while_machines_use_it() {
    let shown = shown(&[("i-1", InstanceState::Running), ("i-2", InstanceState::Running)]);
    let fake = fake(&shown).await;
    let (pool, registry) = fake.pool_and_metrics().await;
    let mut changes = pool.changes();
    let text = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    };
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    assert!(!text().contains("capa_instance_store_instances{"));
    machines.observe_instance(&machine("one"), "i-1");
    woken(&mut changes).await;
    let shown = text();
    assert!(shown.contains("capa_instance_store_instances{region=\"us-test-1\"} 2"), "{shown}");
    assert!(shown.contains("capa_instance_store_age_seconds{region=\"us-test-1\"}"));
    assert!(shown.contains("capa_instance_store_listing_seconds{region=\"us-test-1\"}"));
}
