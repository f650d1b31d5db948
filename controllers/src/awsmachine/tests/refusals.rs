//! Tests of permanent errors: the delay between calls grows, and a changed input ends it.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_api::machine::{InstanceState, LaunchRecord};
use capa_api::meta;
use capa_runtime::reconcile::Next;
use kube::ResourceExt;

use super::deletion::never_launched;
use super::{NETWORK, Pass, Scene};
use crate::testing::refused;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
/// Two instances of one machine, and the tokens of their attempts.
const INSTANCES: [(&str, &str); 2] = [("i-0000000000000000a", "uid-m-1"), ("i-0000000000000000b", "uid-m-2")];

/// Changes an input of a launch.
type Change = fn(&Scene);

fn has_called(pass: &Pass, action: &str) -> bool {
    pass.calls.iter().any(|call| call == action)
}

/// Runs passes at their due times for `long`. Returns the times between calls of an action. A pass without such a call
/// must make no other call.
async fn waits_between(scene: &Scene, action: &str, long: Duration) -> Vec<u64> {
    let (mut now, mut last, mut waits) = (Duration::ZERO, None, Vec::new());
    while now < long {
        let pass = scene.pass().await;
        if has_called(&pass, action) {
            waits.extend(last.replace(now).map(|last: Duration| now.saturating_sub(last).as_secs()));
        } else if last.is_some() {
            let calls = pass.calls.iter();
            // The account is looked up every ten minutes.
            let others: Vec<_> = calls.filter(|call| *call != "GetCallerIdentity").collect();
            assert!(others.is_empty(), "{others:?} after {now:?}");
        }
        let Next::Requeue(next) = pass.next else {
            panic!("{:?} after {now:?}", pass.next);
        };
        assert!(next <= Duration::from_secs(60), "sources and Secrets are read again: {next:?}");
        scene.kubernetes.advance(next);
        now += next;
    }
    waits
}

#[tokio::test]
async fn a_refused_launch_is_repeated_once_in_five_minutes() {
    let scene = Scene::new();
    scene.aws.remove("ami-00000001");
    let waits = waits_between(&scene, "RunInstances", Duration::from_secs(1_500)).await;
    assert_eq!(waits, [15, 45, 300, 300, 300, 300]);
    let standing = scene.pass().await;
    assert_eq!(standing.condition(INSTANCE_READY), "False/NotFound", "as long as it stands");
}

#[tokio::test]
async fn a_changed_input_of_a_launch_ends_its_back_off() {
    let changes: [(&str, Change); 4] = [
        ("spec", |scene| {
            scene.edit(|machine| machine.spec.instance_type = "t3.xlarge".into());
        }),
        ("source", |scene| {
            let network = NETWORK.replace("clusterTag: dev", "clusterTag: dev, sshKeyName: key");
            scene.kubernetes.publish_network("dev", &network);
        }),
        ("identity", |scene| {
            let spec = "allowedNamespaces: {}";
            scene.kubernetes.identity_object("AWSClusterControllerIdentity", "default", spec);
        }),
        ("Secret", |scene| {
            scene.kubernetes.put_secret("team-a", "boot", &[("value", "#cloud-config other")]);
        }),
    ];
    for (what, change) in changes {
        let scene = Scene::new();
        // The error is not about a parameter that machines share: bootstrap data belongs to one machine.
        for _ in 0..20 {
            let error = refused("RunInstances", "InvalidUserData.Malformed");
            scene.aws.fail_next("RunInstances", error);
        }
        waits_between(&scene, "RunInstances", Duration::from_secs(600)).await;
        assert!(!has_called(&scene.pass().await, "RunInstances"), "{what}");
        change(&scene);
        assert!(has_called(&scene.pass().await, "RunInstances"), "{what}");
        // The back-off begins anew here.
        let again = scene.after(super::RETRY).await;
        assert!(has_called(&again, "RunInstances"), "{what}");
    }
}

/// Machines of one template: the second and the third come when EC2 has refused the first one.
#[tokio::test]
async fn machines_of_one_template_ask_ec2_together() {
    let scene = Scene::new();
    for name in ["n", "o"] {
        scene.add(name, "bootstrap: {dataSecretName: boot}", super::SPEC);
    }
    scene.aws.remove("ami-00000001");
    let mut calls = Vec::new();
    for second in 0..700 {
        for name in ["m", "n", "o"] {
            let pass = scene.pass_over(name).await.unwrap();
            assert_eq!(pass.condition(INSTANCE_READY), "False/NotFound", "{name}");
            assert!(pass.message(INSTANCE_READY).contains("ami-00000001"), "{name}");
            calls.extend(has_called(&pass, "RunInstances").then_some(second));
        }
        scene.kubernetes.advance(Duration::from_secs(1));
    }
    assert_eq!(calls, [0, 15, 60, 360, 660]);
    // Another template is another kind.
    scene.add("other", "bootstrap: {dataSecretName: boot}", &super::SPEC.replace("ami-00000001", "ami-00000002"));
    assert!(has_called(&scene.pass_over("other").await.unwrap(), "RunInstances"));
    // Once EC2 accepts the parameters, all follow within a minute.
    scene.aws.image("ami-00000001", "/dev/sda1");
    scene.kubernetes.advance(Duration::from_secs(260));
    for name in ["m", "n", "o"] {
        let _ = scene.pass_over(name).await;
    }
    scene.kubernetes.advance(Duration::from_secs(60));
    for name in ["m", "n", "o"] {
        let pass = scene.pass_over(name).await.unwrap();
        assert!(pass.launch().instance_id().is_some(), "{name}");
    }
}

#[tokio::test]
async fn an_instance_that_is_there_is_found_despite_a_refused_template() {
    let mut scene = Scene::new();
    scene.add("n", "bootstrap: {dataSecretName: boot}", super::SPEC);
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.restart();
    scene.aws.remove("ami-00000001");
    assert_eq!(scene.pass_over("n").await.unwrap().condition(INSTANCE_READY), "False/NotFound");
    // The record of the machine is lost.
    scene.edit(|machine| machine.status.get_or_insert_default().launch = Some(LaunchRecord::Planned));
    assert_eq!(scene.pass().await.launch().instance_id(), Some(super::FIRST));
}

#[tokio::test]
async fn a_refused_lookup_before_a_launch_is_asked_less_often() {
    let scene = Scene::new();
    for _ in 0..20 {
        let error = refused("DescribeInstances", "UnauthorizedOperation");
        scene.aws.fail_next("DescribeInstances", error);
    }
    let mut calls = Vec::new();
    for second in 0..1_000 {
        scene.journal.take();
        scene.aws.settle().await;
        let repeated = scene.journal.take().iter().any(|call| call == "DescribeInstances");
        let pass = scene.pass().await;
        assert_eq!(pass.condition(INSTANCE_READY), "False/Unauthorized");
        calls.extend((repeated || has_called(&pass, "DescribeInstances")).then_some(second));
        scene.kubernetes.advance(Duration::from_secs(1));
    }
    assert_eq!(calls, [0, 15, 60, 360, 660, 960]);
    assert!(scene.aws.launches().is_empty());
}

#[tokio::test]
async fn a_refused_termination_is_repeated_once_in_five_minutes() {
    let scene = Scene::running().await;
    scene.delete();
    for _ in 0..20 {
        let error = refused("TerminateInstances", "UnauthorizedOperation");
        scene.aws.fail_next("TerminateInstances", error);
    }
    // The machine receives the answer to the first call before the call is repeated.
    assert!(has_called(&scene.pass().await, "TerminateInstances"));
    let refusal = scene.pass().await;
    assert_eq!(refusal.condition(INSTANCE_READY), "False/Unauthorized");
    let waits = waits_between(&scene, "TerminateInstances", Duration::from_secs(1_200)).await;
    assert_eq!(waits, [45, 300, 300, 300]);
}

#[tokio::test]
async fn an_instance_that_ends_releases_its_machine_during_a_refusal() {
    let scene = Scene::running().await;
    scene.delete();
    let error = refused("TerminateInstances", "UnauthorizedOperation");
    scene.aws.fail_next("TerminateInstances", error);
    scene.pass().await;
    assert_eq!(scene.pass().await.condition(INSTANCE_READY), "False/Unauthorized");
    scene.aws.remove_instance(super::FIRST);
    scene.kubernetes.advance(Duration::from_secs(300));
    for _ in 0..3 {
        if scene.pass().await.machine.is_none() {
            return;
        }
    }
    panic!("the machine is there still");
}

/// Runs passes at their due times for `long`. Returns the number of calls of an action.
async fn calls_within(scene: &Scene, action: &str, long: Duration) -> usize {
    let (mut now, mut calls) = (Duration::ZERO, 0);
    while now < long {
        let pass = scene.pass().await;
        calls += pass.calls.iter().filter(|call| *call == action).count();
        let next = match pass.next {
            Next::Requeue(next) | Next::Deferred(next) => next,
            Next::Retry | Next::AwaitChange => Duration::from_secs(1),
        };
        scene.kubernetes.advance(next);
        now += next;
    }
    calls
}

#[tokio::test]
async fn refused_terminations_of_two_instances_back_off() {
    let scene = never_launched().await;
    for (id, token) in INSTANCES {
        scene.aws.launched_instance(id, InstanceState::Running, "team-a/m", token);
    }
    for _ in 0..5_000 {
        let error = refused("TerminateInstances", "UnauthorizedOperation");
        scene.aws.fail_next("TerminateInstances", error);
    }
    calls_within(&scene, "TerminateInstances", Duration::from_secs(1_200)).await;
    let calls = calls_within(&scene, "TerminateInstances", Duration::from_secs(1_200)).await;
    assert!((1..=2 * 5).contains(&calls), "{calls} calls in 20 minutes");
    let standing = scene.pass().await;
    assert_eq!(standing.condition(INSTANCE_READY), "False/Unauthorized");
}

#[tokio::test]
async fn a_refused_instance_does_not_keep_another_from_ending() {
    let scene = never_launched().await;
    for (id, token) in INSTANCES {
        scene.aws.launched_instance(id, InstanceState::Running, "team-a/m", token);
    }
    let error = refused("TerminateInstances", "UnauthorizedOperation");
    scene.aws.fail_next("TerminateInstances", error);
    scene.pass().await;
    // The first instance is refused, and the second one is terminated.
    scene.pass().await;
    let pass = scene.pass().await;
    assert_eq!(pass.condition(INSTANCE_READY), "False/Unauthorized");
    let said = pass.message(INSTANCE_READY);
    assert!(said.contains(&format!("the termination of instance {} is under way", INSTANCES[1].0)), "{said}");
}

/// Changes of the identity of a deletion, as [`Scene::with_static_identity`] makes it.
const CHANGED_IDENTITIES: [(&str, Change); 2] = [
    ("identity", |scene| {
        let spec = "secretRef: keys, allowedNamespaces: {}";
        scene.kubernetes.identity_object("AWSClusterStaticIdentity", "static", spec);
    }),
    ("Secret", |scene| scene.put_keys()),
];

#[tokio::test]
async fn a_changed_identity_ends_the_back_off_of_a_termination() {
    for (what, change) in CHANGED_IDENTITIES {
        let scene = Scene::with_static_identity().run().await;
        scene.delete();
        for _ in 0..20 {
            let error = refused("TerminateInstances", "UnauthorizedOperation");
            scene.aws.fail_next("TerminateInstances", error);
        }
        calls_within(&scene, "TerminateInstances", Duration::from_secs(600)).await;
        for _ in 0..2 {
            assert!(!has_called(&scene.pass().await, "TerminateInstances"), "{what}");
        }
        change(&scene);
        // The session of the changed identity lists the instance first.
        scene.pass().await;
        assert!(has_called(&scene.pass().await, "TerminateInstances"), "{what}");
    }
}

#[tokio::test]
async fn a_changed_identity_ends_the_back_off_of_a_search() {
    for (what, change) in CHANGED_IDENTITIES {
        let scene = Scene::with_static_identity();
        // It was restored without its status.
        scene.edit(|machine| machine.finalizers_mut().push(meta::MACHINE_FINALIZER.into()));
        scene.delete();
        for _ in 0..20 {
            let error = refused("DescribeInstances", "UnauthorizedOperation");
            scene.aws.fail_next("DescribeInstances", error);
        }
        calls_within(&scene, "DescribeInstances", Duration::from_secs(600)).await;
        let standing = scene.pass().await;
        assert!(!has_called(&standing, "DescribeInstances"), "{what}");
        assert_eq!(standing.condition(INSTANCE_READY), "False/DeletionBlocked", "{what}");
        change(&scene);
        assert!(has_called(&scene.pass().await, "DescribeInstances"), "{what}");
    }
}
