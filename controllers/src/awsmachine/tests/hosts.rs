//! Tests of machines on Dedicated Hosts that are allocated for them.

use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::ConditionType;
use capa_api::machine::{DedicatedHost, HostAffinity, HostPhase, InstanceState, Tenancy};
use capa_api::meta;
use capa_cloud::HostRequest;
use capa_fake_aws::machines::AllocatedHost;

use kube::ResourceExt;

use super::{FIRST, Pass, RETRY, SPEC, Scene};
use crate::testing::{refused, unanswered};

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const ALLOCATES: &str = "tenancy: host, hostAffinity: host, dynamicHostAllocation: {tags: {licence: windows}}";

fn scene() -> Scene {
    Scene::with_spec(&format!("{SPEC}, {ALLOCATES}"))
}

fn recorded(pass: &Pass) -> &DedicatedHost {
    pass.status().dedicated_host.as_deref().expect("a record of the host")
}

fn live(scene: &Scene) -> Vec<AllocatedHost> {
    let mut hosts = scene.aws.hosts();
    hosts.retain(|host| host.released.is_none());
    hosts
}

/// A host as another AWSMachine, or another user, would have allocated it.
fn host_of(client_token: &str) -> HostRequest {
    HostRequest {
        client_token: client_token.to_owned(),
        availability_zone: "eu-west-1a".to_owned(),
        instance_type: "t3.large".to_owned(),
        tags: Tags::from([("MachineName".to_owned(), "team-a/m".to_owned())]),
    }
}

#[tokio::test]
async fn a_host_is_recorded_allocated_and_then_launched_on() {
    let scene = scene();
    let pass = scene.pass().await;
    pass.called_in_order(&["DescribeHosts", "AllocateHosts", "RunInstances"]);
    let record = recorded(&pass);
    assert_eq!(record.effective_phase(), HostPhase::Allocated);
    assert_eq!(record.client_token.as_deref(), Some("uid-m-host-1"));
    assert_eq!(record.account_id.as_deref(), Some("111122223333"));
    assert_eq!(record.tags, Tags::default(), "they are only kept for the call");
    let host = live(&scene).remove(0);
    assert_eq!(record.id.as_ref(), Some(&host.id), "status.dedicatedHost.id");
    for (source, key, value) in
        [("dynamicHostAllocation.tags{}", "licence", "windows"), ("the Machine", "MachineName", "team-a/m")]
    {
        assert_eq!(host.request.tags.get(key).map(String::as_str), Some(value), "{source}");
    }
    let launch = scene.aws.launches().remove(0);
    let placed = launch.options.host.unwrap();
    assert_eq!((placed.id, placed.affinity), (host.id, HostAffinity::Host));
    assert_eq!(launch.options.tenancy, Some(Tenancy::Host));
    assert_eq!(pass.reasons_of_events(), ["SuccessfulAllocateDedicatedHost", "SuccessfulCreate"]);
}

#[tokio::test]
async fn the_record_is_stored_before_the_call() {
    let scene = scene();
    scene.aws.fail_next("AllocateHosts", unanswered("AllocateHosts"));
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Launching");
    let record = recorded(&pass);
    assert_eq!(record.effective_phase(), HostPhase::Requested);
    assert_eq!(record.holder.as_deref(), Some("one"));
    assert_eq!(scene.aws.launches().len(), 0);
    scene.after(RETRY).await;
    let tokens: Vec<String> = scene.aws.hosts().into_iter().map(|host| host.request.client_token).collect();
    assert_eq!(tokens, ["uid-m-host-1"], "the same call again");
    assert_eq!(scene.aws.instance_ids().len(), 1);
}

#[tokio::test]
async fn a_lost_answer_allocates_no_second_host() {
    for restarts in [false, true] {
        let mut scene = scene();
        scene.aws.lose_next_answer("AllocateHosts");
        scene.pass().await;
        if restarts {
            scene.restart();
        }
        for _ in 0..3 {
            scene.after(Duration::from_secs(5)).await;
        }
        assert_eq!(scene.aws.hosts().len(), 1, "restarts: {restarts}");
        assert_eq!(scene.aws.instance_ids().len(), 1, "restarts: {restarts}");
    }
}

#[tokio::test]
async fn a_zone_without_hosts_is_left_for_another_one() {
    let scene = scene();
    let refusal = refused("AllocateHosts", "InsufficientHostCapacity");
    scene.aws.fail_next("AllocateHosts", refusal);
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/InsufficientCapacity");
    let first = recorded(&pass).clone();
    assert_eq!(first.effective_phase(), HostPhase::Refused);
    let pass = scene.after(Duration::from_secs(5)).await;
    let second = recorded(&pass);
    assert_eq!(second.client_token.as_deref(), Some("uid-m-host-2"));
    assert_ne!(second.availability_zone, first.availability_zone);
    let (host, launch) = (live(&scene).remove(0), scene.aws.launches().remove(0));
    assert_eq!(launch.options.host.map(|placed| placed.id), Some(host.id));
}

#[tokio::test]
async fn a_quota_is_a_condition_and_asked_again_seldom() {
    let scene = scene();
    for _ in 0..2 {
        let refusal = refused("AllocateHosts", "HostLimitExceeded");
        scene.aws.fail_next("AllocateHosts", refusal);
    }
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/QuotaExceeded");
    let message = pass.message(INSTANCE_READY);
    for part in ["Dedicated Host", "t3.large", "eu-west-1", "HostLimitExceeded"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let soon = scene.after(Duration::from_secs(5)).await;
    assert!(!soon.called("AllocateHosts"), "{:?}", soon.calls);
    scene.after(RETRY).await;
    scene.after(RETRY * 3).await;
    assert_eq!((live(&scene).len(), scene.aws.instance_ids().len()), (1, 1));
}

#[tokio::test]
async fn the_host_is_kept_for_the_next_attempt() {
    let scene = scene();
    scene.refused_with("InvalidAMIID.NotFound").await;
    let host = live(&scene).remove(0);
    scene.after(Duration::from_secs(400)).await;
    let launches = scene.aws.launches();
    let placed: Vec<_> =
        launches.iter().filter_map(|launch| launch.options.host.as_ref()).map(|placed| placed.id.as_str()).collect();
    assert_eq!(placed, [&host.id, &host.id]);
    assert_eq!(scene.aws.hosts().len(), 1);
    let zones: Vec<_> = launches.iter().map(|launch| &launch.subnet_id).collect();
    assert_eq!(zones[0], zones[1], "in the zone of the host");
}

#[tokio::test]
async fn a_host_without_room_is_released_before_another_one() {
    let scene = scene();
    let pass = scene.refused_with("InsufficientInstanceCapacity").await;
    assert_eq!(recorded(&pass).effective_phase(), HostPhase::Releasing);
    for _ in 0..2 {
        scene.after(Duration::from_secs(5)).await;
    }
    let hosts = scene.aws.hosts();
    assert_eq!(hosts.len(), 2);
    assert!(hosts[0].released.is_some() && hosts[1].released.is_none());
    assert_ne!(hosts[0].request.availability_zone, hosts[1].request.availability_zone, "the zone lacks capacity");
    assert_eq!(scene.aws.instance_ids().len(), 1);
}

#[tokio::test]
async fn a_fresh_host_that_ec2_does_not_know_yet_is_kept() {
    let scene = scene();
    let pass = scene.refused_with("InvalidHostID.NotFound").await;
    assert_eq!(recorded(&pass).effective_phase(), HostPhase::Allocated);
    scene.after(Duration::from_secs(400)).await;
    assert_eq!((scene.aws.hosts().len(), scene.aws.instance_ids().len()), (1, 1));
}

/// The record is older than the call of the process that claimed it.
#[tokio::test]
async fn a_host_of_an_old_record_may_be_fresh() {
    let mut scene = scene();
    scene.aws.fail_next("AllocateHosts", unanswered("AllocateHosts"));
    scene.pass().await;
    scene.restart();
    scene.kubernetes.advance(Duration::from_secs(660));
    scene.aws.hide_changes(Duration::from_secs(120));
    let pass = scene.after(Duration::from_secs(5)).await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/NotFound");
    assert_eq!(recorded(&pass).effective_phase(), HostPhase::Allocated);
    scene.after(Duration::from_secs(400)).await;
    assert_eq!((scene.aws.hosts().len(), scene.aws.instance_ids().len()), (1, 1));
}

#[tokio::test]
async fn no_other_host_is_allocated_while_a_fresh_one_is_unknown_to_its_release() {
    let scene = scene();
    scene.refused_with("InsufficientInstanceCapacity").await;
    let unknown = refused("ReleaseHosts", "InvalidHostID.NotFound");
    scene.aws.fail_next("ReleaseHosts", unknown);
    let pass = scene.after(Duration::from_secs(5)).await;
    assert_eq!(recorded(&pass).effective_phase(), HostPhase::Releasing);
    assert!(pass.message(INSTANCE_READY).contains(&live(&scene)[0].id));
    for _ in 0..3 {
        scene.after(RETRY).await;
    }
    let hosts = scene.aws.hosts();
    assert_eq!(hosts.len(), 2);
    assert!(hosts[0].released.is_some() && hosts[1].released.is_none());
}

#[tokio::test]
async fn a_host_whose_zone_has_no_subnet_any_more_is_released() {
    let scene = scene();
    scene.refused_with("InvalidAMIID.NotFound").await;
    let host = live(&scene).remove(0);
    let zones = [("subnet-0000000a", "eu-west-1a"), ("subnet-0000000b", "eu-west-1b")];
    let left = zones.iter().find(|(_, zone)| *zone != host.request.availability_zone).unwrap();
    let network = format!(
        "{{region: eu-west-1, clusterTag: dev, securityGroups: {{all: [sg-0000000a]}}, \
          subnets: [{{id: {}, availabilityZone: {}}}]}}",
        left.0, left.1
    );
    scene.kubernetes.publish_network("dev", &network);
    for _ in 0..3 {
        scene.after(Duration::from_secs(400)).await;
    }
    let hosts = scene.aws.hosts();
    assert!(hosts[0].released.is_some());
    assert_eq!((live(&scene).len(), scene.aws.instance_ids().len()), (1, 1));
    assert_eq!(live(&scene)[0].request.availability_zone, left.1);
}

#[tokio::test]
async fn no_other_host_is_allocated_before_a_kept_one_is_released() {
    let scene = scene();
    scene.refused_with("InsufficientInstanceCapacity").await;
    let host = live(&scene).remove(0);
    scene.aws.keep_host(&host.id, Duration::from_secs(60));
    let pass = scene.after(Duration::from_secs(5)).await;
    assert!(pass.message(INSTANCE_READY).contains(&host.id), "{}", pass.message(INSTANCE_READY));
    assert_eq!(scene.aws.hosts().len(), 1);
    for _ in 0..3 {
        scene.after(Duration::from_secs(400)).await;
    }
    assert_eq!((live(&scene).len(), scene.aws.hosts().len()), (1, 2));
}

#[tokio::test]
async fn the_host_is_released_once_the_instance_is_gone() {
    let scene = scene().run().await;
    let host = live(&scene).remove(0);
    scene.delete();
    let terminating = scene.pass().await;
    assert!(!terminating.called("ReleaseHosts"), "{:?}", terminating.calls);
    scene.aws.set_instance_state(FIRST, InstanceState::ShuttingDown);
    let ending = scene.pass().await;
    assert!(!ending.called("ReleaseHosts"), "{:?}", ending.calls);
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    let released = scene.pass().await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0);
    let told = released.events.iter().find(|event| event.reason == "SuccessfulReleaseDedicatedHost");
    assert!(told.unwrap().message.contains(&host.id));
}

#[tokio::test]
async fn a_machine_that_is_never_launched_releases_its_host() {
    let scene = scene();
    scene.refused_with("InvalidAMIID.NotFound").await;
    assert_eq!(live(&scene).len(), 1);
    scene.delete();
    let released = scene.pass().await;
    assert!(released.machine.is_none(), "{}", released.message(INSTANCE_READY));
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn the_deletion_waits_for_a_host_that_aws_keeps() {
    let scene = scene().run().await;
    let host = live(&scene).remove(0);
    scene.aws.keep_host(&host.id, Duration::from_secs(24 * 3600));
    let waiting = scene.delete_with_instance().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/DeletionBlocked");
    let message = waiting.message(INSTANCE_READY);
    for part in [host.id.as_str(), "minimum allocation period", "abandon-instance"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let soon = scene.after(Duration::from_secs(5)).await;
    assert!(!soon.called("ReleaseHosts"), "it backs off: {:?}", soon.calls);
    let released = scene.after(Duration::from_secs(24 * 3600)).await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn a_host_that_is_gone_holds_no_deletion_up() {
    let scene = scene().run().await;
    scene.kubernetes.advance(Duration::from_secs(600));
    scene.edit(|machine| {
        let status = machine.status.as_mut().unwrap();
        status.dedicated_host.as_mut().unwrap().id = Some("h-0123456789abcdef0".into());
    });
    let released = scene.delete_with_instance().await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0, "and the one that shows is released");
}

#[tokio::test]
async fn a_lost_status_leaves_no_host_behind() {
    let scene = scene().run().await;
    scene.edit(|machine| machine.status = None);
    let released = scene.delete_with_instance().await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn a_machine_deleted_after_a_move_leaves_no_host() {
    for is_known in [true, false] {
        let scene = scene().run().await;
        scene.edit(|machine| {
            machine.metadata.uid = Some("uid-moved".into());
            machine.status = None;
            if !is_known {
                (machine.spec.provider_id, machine.spec.instance_id) = (None, None);
                let annotations = machine.annotations_mut();
                annotations.insert(meta::ADOPT_INSTANCE_ANNOTATION.into(), FIRST.into());
            }
        });
        let released = scene.delete_with_instance().await;
        assert!(released.machine.is_none(), "{is_known}");
        assert_eq!(live(&scene).len(), 0, "{is_known}");
    }
}

#[tokio::test]
async fn a_machine_moved_after_its_end_leaves_no_host() {
    let scene = scene().run().await;
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.pass().await;
    scene.edit(|machine| {
        machine.metadata.uid = Some("uid-moved".into());
        machine.status = None;
    });
    assert!(recorded(&scene.pass().await).id.is_some());
    scene.aws.remove_instance(FIRST);
    scene.delete();
    for _ in 0..4 {
        if scene.machine("m").is_some() {
            scene.after(Duration::from_secs(600)).await;
        }
    }
    assert!(scene.machine("m").is_none());
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn an_unanswered_newer_host_is_looked_for() {
    let mut scene = scene();
    scene.aws.fail_next("AllocateHosts", unanswered("AllocateHosts"));
    scene.pass().await;
    scene.aws.host(&host_of("uid-m-host-1"));
    scene.edit(|machine| {
        let record = machine.status.as_mut().unwrap().dedicated_host.as_mut();
        let record = record.expect("a record of the host");
        (record.id, record.phase) = (None, Some(HostPhase::Requested));
        record.client_token = Some("uid-m-host-2".to_owned());
    });
    scene.restart();
    scene.delete();
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    assert_eq!(live(&scene).len(), 0, "the older one is released");
    scene.aws.host(&host_of("uid-m-host-2"));
    let released = scene.after(Duration::from_secs(30)).await;
    assert!(released.machine.is_none());
    assert_eq!(live(&scene).len(), 0);
}

#[tokio::test]
async fn a_lost_record_uses_the_host_that_is_there() {
    let mut scene = scene();
    scene.refused_with("InvalidAMIID.NotFound").await;
    scene.edit(|machine| machine.status.as_mut().unwrap().dedicated_host = None);
    scene.restart();
    for _ in 0..3 {
        scene.after(Duration::from_secs(400)).await;
    }
    assert_eq!(scene.aws.hosts().len(), 1);
    let launch = scene.aws.launches().pop().unwrap();
    assert_eq!(launch.options.host.map(|placed| placed.id), Some(scene.aws.hosts().remove(0).id));
}

#[tokio::test]
async fn an_unanswered_allocation_is_looked_for_before_the_release() {
    let mut scene = scene();
    scene.aws.fail_next("AllocateHosts", unanswered("AllocateHosts"));
    scene.pass().await;
    scene.restart();
    scene.delete();
    let waiting = scene.pass().await;
    assert_eq!(waiting.condition(INSTANCE_READY), "False/LaunchUnconfirmed");
    // The call of the other process takes effect late.
    let late = scene.aws.host(&host_of("uid-m-host-1"));
    let released = scene.after(Duration::from_secs(30)).await;
    assert!(released.machine.is_none());
    assert!(scene.aws.hosts().iter().all(|host| host.id == late && host.released.is_some()));
}

#[tokio::test]
async fn the_absence_of_an_unanswered_host_is_proven_in_time() {
    let mut scene = scene();
    scene.aws.fail_next("AllocateHosts", unanswered("AllocateHosts"));
    scene.pass().await;
    scene.restart();
    scene.delete();
    scene.pass().await;
    let still = scene.after(Duration::from_secs(590)).await;
    assert!(still.machine.is_some());
    let released = scene.after(Duration::from_secs(10)).await;
    assert!(released.machine.is_none());
}

#[tokio::test]
async fn hosts_of_others_are_neither_used_nor_released() {
    let scene = scene();
    for token in ["other-host-1", "", "uid-m-1", "uid-m2-host-1"] {
        scene.aws.host(&host_of(token));
    }
    let scene = scene.run().await;
    assert_eq!(scene.aws.hosts().len(), 5);
    scene.delete_with_instance().await;
    assert!(scene.machine("m").is_none());
    let released = scene.aws.hosts().into_iter().filter(|host| host.released.is_some());
    let tokens: Vec<String> = released.map(|host| host.request.client_token).collect();
    assert_eq!(tokens, ["uid-m-host-1"]);
}

#[tokio::test]
async fn an_abandoned_machine_names_the_host_that_is_left() {
    let scene = scene().run().await;
    let host = live(&scene).remove(0);
    scene.annotate("infrastructure.cluster.x-k8s.io/abandon-instance", FIRST);
    scene.delete();
    let released = scene.pass().await;
    assert!(released.machine.is_none());
    assert_eq!(released.reasons_of_events(), ["InstanceAbandoned"]);
    assert!(released.events[0].message.contains(&host.id), "{}", released.events[0].message);
    assert_eq!(live(&scene).len(), 1);
}

#[tokio::test]
async fn a_move_waits_for_the_instance_on_the_host() {
    let scene = scene();
    let annotation = capa_api::meta::BLOCK_MOVE_ANNOTATION;
    let blocks = |pass: &Pass| capa_api::meta::has_annotation(&pass.machine().metadata, annotation);
    assert!(blocks(&scene.refused_with("InvalidAMIID.NotFound").await));
    assert!(!blocks(&scene.after(Duration::from_secs(400)).await));
}

#[tokio::test]
async fn credentials_of_another_account_allocate_no_second_host() {
    let scene = scene();
    scene.refused_with("InvalidAMIID.NotFound").await;
    scene.aws.set_account("222222222222");
    scene.set_up_network();
    let pass = scene.after(Duration::from_secs(400)).await;
    assert_eq!(pass.condition(ConditionType::IdentityReady), "False/AccountMismatch");
    let message = pass.message(ConditionType::IdentityReady);
    assert!(message.contains("Dedicated Host") && message.contains("111122223333"), "{message}");
    assert_eq!(scene.aws.hosts().len(), 0, "in that account");
}

#[tokio::test]
async fn tags_of_the_provider_may_not_be_set_on_hosts() {
    let tags = "dynamicHostAllocation: {tags: {MachineName: team-b/other}}";
    let scene = Scene::with_spec(&format!("{SPEC}, tenancy: host, hostAffinity: host, {tags}"));
    let pass = scene.pass().await;
    let message = pass.message(ConditionType::NetworkReady);
    assert!(message.starts_with("dynamicHostAllocation.tags: MachineName"), "{message}");
    assert_eq!(scene.aws.hosts().len(), 0);
}

#[tokio::test]
async fn a_machine_with_its_host_makes_no_further_call() {
    let scene = scene().run().await;
    assert_eq!(scene.pass().await.calls, [""; 0]);
}
