//! Tests of machines whose instances get Elastic IPs.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::{ElasticIp, ElasticIpPhase, InstanceState};
use capa_fake_aws::machines::AllocatedAddress;

use super::{FIRST, Pass, RETRY, SPEC, Scene};
use crate::testing::{refused, unanswered};

const READY: ConditionType = ConditionType::ElasticIPReady;
const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const POOL: &str = "ipv4pool-ec2-0123456789abcdef0";

fn scene(pool: &str) -> Scene {
    Scene::with_spec(&format!("{SPEC}, elasticIpPool: {{{pool}}}"))
}

/// Launches an instance, which runs at once.
async fn start(scene: &Scene) {
    scene.pass().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
}

fn recorded(pass: &Pass) -> &ElasticIp {
    pass.status().elastic_ip.as_deref().expect("a record of the address")
}

fn live(scene: &Scene) -> Vec<AllocatedAddress> {
    let mut addresses = scene.aws.addresses();
    addresses.retain(|address| address.released_by.is_none());
    addresses
}

#[tokio::test]
async fn an_address_is_recorded_allocated_and_associated_once_the_instance_runs() {
    let scene = scene("");
    let starting = scene.pass().await;
    assert!(!starting.called("AllocateAddress"), "{:?}", starting.calls);
    scene.aws.set_instance_state(FIRST, InstanceState::Running);
    let pass = scene.pass().await;
    pass.called_in_order(&["DescribeAddresses", "AllocateAddress", "AssociateAddress"]);
    let address = live(&scene).remove(0);
    let record = recorded(&pass);
    assert_eq!(record.effective_phase(), ElasticIpPhase::Associated);
    assert_eq!(record.allocation_id.as_ref(), Some(&address.id));
    assert_eq!(record.public_ip.as_ref(), Some(&address.public_ip));
    assert_eq!(pass.condition(READY), "True/Ready");
    for (key, value) in [
        ("sigs.k8s.io/cluster-api-provider-aws/cluster/dev", "owned".to_owned()),
        ("sigs.k8s.io/cluster-api-provider-aws/role", format!("ec2-{FIRST}")),
        ("Name", format!("dev-eip-ec2-{FIRST}")),
        ("MachineName", "team-a/m".to_owned()),
    ] {
        assert_eq!(address.tags.get(key), Some(&value), "{key}");
    }
    let told = pass.reasons_of_events();
    assert!(told.contains(&"SuccessfulAllocateAddress") && told.contains(&"SuccessfulAssociateAddress"), "{told:?}");
    let quiet = scene.after(Duration::from_secs(600)).await;
    for call in ["DescribeAddresses", "AllocateAddress", "AssociateAddress"] {
        assert!(!quiet.called(call), "{:?}", quiet.calls);
    }
    let shown = quiet.status().addresses.iter().map(|shown| shown.address.as_str());
    assert!(shown.collect::<Vec<_>>().contains(&address.public_ip.as_str()), "{:?}", quiet.status().addresses);
}

#[tokio::test]
async fn the_record_is_stored_before_the_call() {
    let scene = scene("");
    start(&scene).await;
    scene.aws.fail_next("AllocateAddress", unanswered("AllocateAddress"));
    let pass = scene.pass().await;
    assert_eq!(recorded(&pass).effective_phase(), ElasticIpPhase::Requested);
    assert_eq!(recorded(&pass).holder.as_deref(), Some("one"));
    assert_eq!(pass.condition(INSTANCE_READY), "True/Ready", "the instance runs all the same");
    assert!(pass.condition(READY).starts_with("False/"), "{}", pass.condition(READY));
    let soon = scene.after(Duration::from_secs(60)).await;
    assert!(!soon.called("AllocateAddress"), "no second call: {:?}", soon.calls);
    for _ in 0..3 {
        scene.after(Duration::from_secs(400)).await;
    }
    assert_eq!(live(&scene).len(), 1, "once the absence of the first is proven");
}

#[tokio::test]
async fn a_lost_answer_allocates_no_second_address() {
    for restarts in [false, true] {
        let mut scene = scene("");
        start(&scene).await;
        scene.aws.lose_next_answer("AllocateAddress");
        scene.pass().await;
        if restarts {
            scene.restart();
        }
        for _ in 0..3 {
            scene.after(Duration::from_secs(400)).await;
        }
        assert_eq!(scene.aws.addresses().len(), 1, "restarts: {restarts}");
        let pass = scene.pass().await;
        assert_eq!(pass.condition(READY), "True/Ready", "restarts: {restarts}");
    }
}

#[tokio::test]
async fn a_call_that_had_no_turn_is_made_at_its_turn() {
    let scene = scene("");
    scene.kubernetes.set_clock("2026-01-01T00:00:00.987654321Z".parse().unwrap());
    start(&scene).await;
    scene.aws.fail_next("AllocateAddress", refused("AllocateAddress", "RequestLimitExceeded"));
    let throttled = scene.pass().await;
    assert_eq!(throttled.condition(READY), "False/Throttled");
    assert_eq!(recorded(&throttled).effective_phase(), ElasticIpPhase::Requested);
    let later = scene.after(RETRY).await;
    assert_eq!(later.condition(READY), "True/Ready", "{:?}", later.calls);
    assert_eq!(scene.aws.addresses().len(), 1);
}

#[tokio::test]
async fn a_call_whose_record_was_lost_is_looked_for_first() {
    let mut scene = scene("");
    start(&scene).await;
    scene.aws.fail_next("AllocateAddress", unanswered("AllocateAddress"));
    scene.pass().await;
    scene.edit(|machine| machine.status = None);
    scene.restart();
    let mut calls = Vec::new();
    for _ in 0..3 {
        let pass = scene.after(Duration::from_secs(180)).await;
        assert!(!pass.condition(READY).starts_with("True"), "{}", pass.condition(READY));
        calls.extend(pass.calls);
    }
    assert!(!calls.contains(&"AllocateAddress".to_owned()), "{calls:?}");
    for _ in 0..2 {
        scene.after(Duration::from_secs(400)).await;
    }
    assert_eq!(live(&scene).len(), 1, "once its absence is proven");
}

#[tokio::test]
async fn the_interface_of_an_instance_keeps_the_address_that_a_user_gave_it() {
    let scene = scene("");
    start(&scene).await;
    let foreign = scene.aws.foreign_address(FIRST);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(READY), "False/Conflict");
    assert!(pass.message(READY).contains(&foreign), "{}", pass.message(READY));
    assert!(!pass.called("AssociateAddress"));
    scene.aws.disassociate(&foreign);
    let later = scene.after(RETRY).await;
    assert_eq!(later.condition(READY), "True/Ready");
    let own = live(&scene).into_iter().find(|address| address.id != foreign);
    scene.aws.disassociate(&own.unwrap().id);
    scene.aws.foreign_address(FIRST);
    let taken = scene.after(Duration::from_secs(600)).await;
    assert_eq!(taken.condition(READY), "False/Conflict");
    assert!(!taken.called("AssociateAddress"));
}

#[tokio::test]
async fn an_exhausted_pool_is_named_or_left_for_amazons() {
    for (order_of_pools, free, used) in
        [("none", 1, Some(Some(POOL))), ("amazon-pool", 0, Some(None)), ("none", 0, None)]
    {
        let scene = scene(&format!("publicIpv4Pool: {POOL}, publicIpv4PoolFallbackOrder: {order_of_pools}"));
        scene.aws.address_pool(POOL, free);
        start(&scene).await;
        let pass = scene.pass().await;
        let addresses = live(&scene);
        let pool = addresses.first().map(|address| address.pool.as_deref());
        assert_eq!(
            pool, used,
            "{} and {}: {order_of_pools}",
            "elasticIpPool.publicIpv4Pool", "elasticIpPool.publicIpv4PoolFallbackOrder"
        );
        if used.is_none() {
            assert_eq!(pass.condition(READY), "False/QuotaExceeded");
            assert!(pass.message(READY).contains(POOL), "{}", pass.message(READY));
            assert!(!pass.called("AllocateAddress"));
        }
    }
}

#[tokio::test]
async fn a_quota_is_a_condition_and_asked_again_seldom() {
    let scene = scene("");
    start(&scene).await;
    scene.aws.fail_next("AllocateAddress", refused("AllocateAddress", "AddressLimitExceeded"));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(READY), "False/QuotaExceeded");
    assert!(pass.message(READY).contains("AddressLimitExceeded"), "{}", pass.message(READY));
    assert_eq!(recorded(&pass).effective_phase(), ElasticIpPhase::Refused);
    let soon = scene.after(Duration::from_secs(5)).await;
    assert!(!soon.called("AllocateAddress"), "{:?}", soon.calls);
    let later = scene.after(RETRY).await;
    assert_eq!(later.condition(READY), "True/Ready");
    assert_eq!(live(&scene).len(), 1);
}

#[tokio::test]
async fn an_address_that_was_taken_away_is_given_again() {
    let scene = scene("").run().await;
    let address = live(&scene).remove(0);
    scene.aws.disassociate(&address.id);
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.extend(scene.after(Duration::from_secs(120)).await.calls);
    }
    assert!(calls.contains(&"AssociateAddress".to_owned()), "{calls:?}");
    assert_eq!(scene.aws.addresses().len(), 1);
}

#[tokio::test]
async fn the_address_is_released_once_the_instance_is_gone() {
    let scene = scene("").run().await;
    let address = live(&scene).remove(0);
    scene.delete();
    let terminating = scene.pass().await;
    assert!(!terminating.called("ReleaseAddress"), "{:?}", terminating.calls);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let released = scene.pass().await;
    assert!(released.machine.is_none(), "{}", released.message(INSTANCE_READY));
    assert_eq!(live(&scene).len(), 0);
    let told = released.events.iter().find(|event| event.reason == "SuccessfulReleaseAddress");
    assert!(told.unwrap().message.contains(&address.id));
}

#[tokio::test]
async fn a_lost_status_leaves_no_address_behind() {
    let scene = scene("").run().await;
    scene.edit(|machine| machine.status = None);
    let released = scene.delete_with_instance().await;
    assert!(released.machine.is_none(), "{}", released.message(INSTANCE_READY));
    assert_eq!(live(&scene).len(), 0);
}

/// A call without an answer: EC2 does not show the address yet, or there is none. The instance may lack the properties
/// from which its launch is recovered, like a terminated one.
#[tokio::test]
async fn a_lost_status_and_a_deletion_await_an_address_that_may_be_hidden() {
    for (is_allocated, has_ended) in [(true, false), (true, true), (false, false), (false, true)] {
        let case = format!("allocated: {is_allocated}, ended: {has_ended}");
        let mut scene = scene("");
        start(&scene).await;
        scene.aws.hide_changes(Duration::from_secs(120));
        if is_allocated {
            scene.aws.lose_next_answer("AllocateAddress");
        } else {
            scene.aws.fail_next("AllocateAddress", unanswered("AllocateAddress"));
        }
        scene.pass().await;
        scene.edit(|machine| machine.status = None);
        scene.restart();
        if has_ended {
            scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
        }
        let waiting = scene.delete_with_instance().await;
        assert!(waiting.machine.is_some(), "{case}");
        assert_eq!(waiting.condition(INSTANCE_READY), "False/LaunchUnconfirmed", "{case}");
        let released = scene.after(Duration::from_secs(700)).await;
        assert!(released.machine.is_none(), "{case}: {}", released.message(INSTANCE_READY));
        assert_eq!(live(&scene).len(), 0, "{case}");
    }
}

#[tokio::test]
async fn an_association_with_the_ended_instance_is_no_obstacle() {
    let scene = scene("").run().await;
    scene.after(Duration::from_secs(30)).await;
    scene.aws.hide_changes(Duration::from_secs(30));
    let waiting = scene.delete_with_instance().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/Terminating");
    assert!(waiting.message(INSTANCE_READY).contains(&live(&scene)[0].id));
    let released = scene.after(Duration::from_secs(60)).await;
    assert!(released.machine.is_none(), "{}", released.message(INSTANCE_READY));
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn the_deletion_waits_for_an_address_that_aws_keeps() {
    let scene = scene("").run().await;
    let address = live(&scene).remove(0);
    scene.aws.fail_next("ReleaseAddress", refused("ReleaseAddress", "UnauthorizedOperation"));
    let waiting = scene.delete_with_instance().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/DeletionBlocked");
    let message = waiting.message(INSTANCE_READY);
    for part in [address.id.as_str(), &address.public_ip, "abandon-instance"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let soon = scene.after(Duration::from_secs(5)).await;
    assert!(!soon.called("ReleaseAddress"), "it backs off: {:?}", soon.calls);
    let released = scene.after(Duration::from_secs(600)).await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn addresses_of_others_are_neither_taken_away_nor_released() {
    let scene = scene("").run().await;
    let address = live(&scene).remove(0);
    // A copy of the AWSMachine names the instance, and has no record of it.
    scene.edit(|machine| {
        machine.status = None;
        machine.metadata.owner_references = None;
    });
    scene.delete();
    for _ in 0..3 {
        let pass = scene.after(Duration::from_secs(120)).await;
        assert!(!pass.called("ReleaseAddress"), "{:?}", pass.calls);
    }
    assert_eq!(live(&scene), [address]);
}

#[tokio::test]
async fn an_address_that_no_listing_shows_yet_keeps_its_instance() {
    let scene = scene("");
    start(&scene).await;
    scene.aws.fail_next("AllocateAddress", refused("AllocateAddress", "AddressLimitExceeded"));
    scene.pass().await;
    let foreign = scene.aws.foreign_address(FIRST);
    scene.kubernetes.advance(RETRY);
    let pass = scene.pass_without_a_look("m").await.unwrap();
    assert_eq!(pass.condition(READY), "False/Conflict");
    assert!(pass.message(READY).contains(&foreign), "{}", pass.message(READY));
    assert!(!pass.called("AssociateAddress"));
}
