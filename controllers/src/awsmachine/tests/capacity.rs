//! Tests of a lack of capacity: the calls that it causes, and the other subnets that machines use.

use std::time::Duration;

use capa_api::conditions::ConditionType;
use capa_runtime::reconcile::Next;
use kube::ResourceExt as _;

use super::{CONTROL_PLANE_LABEL, NETWORK, SPEC, Scene};
use crate::testing::refused;

const INSTANCE_READY: ConditionType = ConditionType::InstanceReady;
const SHORT: &str = "InsufficientInstanceCapacity";
const BOOTSTRAP: &str = "bootstrap: {dataSecretName: boot}";
const PINNED: &str = "bootstrap: {dataSecretName: boot}, failureDomain: eu-west-1a";

fn subnets(scene: &Scene) -> Vec<String> {
    let launches = scene.aws.launches().into_iter();
    launches.map(|launch| launch.subnet_id).collect()
}

#[tokio::test]
async fn a_refusal_for_capacity_leads_to_the_next_zone() {
    let scene = Scene::new();
    let refused = scene.refused_with(SHORT).await;
    assert_eq!(refused.condition(INSTANCE_READY), "False/InsufficientCapacity");
    let message = refused.message(INSTANCE_READY);
    assert!(message.contains("t3.large in eu-west-1a"), "{message}");
    let launched = scene.pass().await;
    assert_eq!(subnets(&scene), ["subnet-0000000a", "subnet-0000000b"]);
    assert_eq!(scene.tokens(), ["uid-m-1", "uid-m-2"], "a token keeps its zone");
    assert_eq!(launched.condition(INSTANCE_READY), "False/Pending");
}

#[tokio::test]
async fn a_full_reservation_or_host_is_named_with_the_code() {
    let reservation = "capacityReservationId: cr-0123456789abcdef0";
    let host = "tenancy: host, hostID: h-0123456789abcdef0";
    for (code, field, names) in [
        ("ReservationCapacityExceeded", reservation, "capacity reservation cr-0123456789abcdef0"),
        ("InsufficientCapacityOnHost", host, "Dedicated Host h-0123456789abcdef0"),
        ("IncompatibleHostRequirements", host, "Dedicated Host h-0123456789abcdef0"),
        ("UnavailableHostRequirements", "tenancy: host", "no Dedicated Host"),
    ] {
        let scene = Scene::with_spec(&format!("{SPEC}, {field}"));
        let refused = scene.refused_with(code).await;
        assert_eq!(refused.condition(INSTANCE_READY), "False/InsufficientCapacity");
        let message = refused.message(INSTANCE_READY);
        assert!(message.contains(names) && message.contains(code), "{message}");
        scene.refused_with(code).await;
        assert_eq!(subnets(&scene), ["subnet-0000000a", "subnet-0000000b"], "each zone is tried");
        let exhausted = scene.pass().await;
        let message = exhausted.message(INSTANCE_READY);
        assert!(message.contains(&format!("({code}: ")), "with EC2's words: {message}");
    }
}

#[tokio::test]
async fn a_machine_without_a_usable_zone_waits_with_a_reason() {
    let scene = Scene::new();
    scene.refused_with(SHORT).await;
    scene.refused_with(SHORT).await;
    let exhausted = scene.pass().await;
    assert_eq!(exhausted.condition(INSTANCE_READY), "False/InsufficientCapacity");
    assert_eq!(exhausted.condition(ConditionType::NetworkReady), "True/Ready");
    let message = exhausted.message(INSTANCE_READY);
    assert!(message.contains("eu-west-1a, eu-west-1b for instance type t3.large"), "{message}");
    assert_eq!(exhausted.next, Next::Requeue(Duration::from_secs(60)));
    let waiting = scene.after(Duration::from_secs(59)).await;
    assert_eq!((waiting.calls, waiting.next), (vec![], Next::Requeue(Duration::from_secs(1))));
    scene.after(Duration::from_secs(1)).await;
    assert_eq!(subnets(&scene).len(), 3);
}

#[tokio::test]
async fn a_machine_with_its_own_zone_or_subnet_stays_there() {
    let own_subnet = format!("{SPEC}, subnet: {{id: subnet-0000000a}}");
    for (machine_spec, spec) in [(PINNED, SPEC), (BOOTSTRAP, own_subnet.as_str())] {
        let scene = Scene::new();
        scene.add("n", machine_spec, spec);
        scene.aws.fail_next("RunInstances", refused("RunInstances", SHORT));
        scene.pass_over("n").await.unwrap();
        let waiting = scene.pass_over("n").await.unwrap();
        assert_eq!(waiting.condition(INSTANCE_READY), "False/InsufficientCapacity", "{spec}");
        assert_eq!(subnets(&scene), ["subnet-0000000a"]);
        scene.kubernetes.advance(Duration::from_secs(60));
        scene.pass_over("n").await.unwrap();
        assert_eq!(subnets(&scene), ["subnet-0000000a", "subnet-0000000a"]);
    }
}

#[tokio::test]
async fn fifty_machines_of_a_broken_zone_make_a_call_after_a_minute_and_then_one_in_five() {
    let scene = Scene::new();
    let names: Vec<String> = (0..50).map(|number| format!("n{number}")).collect();
    for name in &names {
        scene.add(name, PINNED, SPEC);
    }
    for calls in [1, 2, 2, 2, 2, 2, 3, 3] {
        for name in &names {
            scene.aws.fail_next("RunInstances", refused("RunInstances", SHORT));
            scene.pass_over(name).await.unwrap();
        }
        assert_eq!(subnets(&scene).len(), calls);
        scene.kubernetes.advance(Duration::from_secs(60));
    }
}

#[tokio::test]
async fn capacity_found_by_one_machine_ends_all_waits() {
    let scene = Scene::new();
    for name in ["n", "o"] {
        scene.add(name, PINNED, SPEC);
    }
    scene.aws.fail_next("RunInstances", refused("RunInstances", SHORT));
    scene.pass_over("n").await.unwrap();
    scene.kubernetes.advance(Duration::from_secs(60));
    scene.pass_over("n").await.unwrap();
    let launched = scene.pass_over("o").await.unwrap();
    assert_eq!(launched.condition(INSTANCE_READY), "False/Pending");
}

#[tokio::test]
async fn a_shortage_does_not_affect_another_instance_type() {
    let scene = Scene::new();
    scene.refused_with(SHORT).await;
    scene.add("n", PINNED, &SPEC.replace("t3.large", "m5.large"));
    scene.pass_over("n").await.unwrap();
    assert_eq!(subnets(&scene), ["subnet-0000000a"; 2]);
}

#[tokio::test]
async fn a_full_subnet_leaves_its_zone_usable() {
    let scene = Scene::new();
    let subnet = "{id: subnet-0000000b, availabilityZone: eu-west-1b}";
    let twin = "{id: subnet-0000000c, availabilityZone: eu-west-1a}";
    scene.kubernetes.publish_network("dev", &NETWORK.replace(subnet, twin));
    scene.aws.subnet("subnet-0000000c", "vpc-00000001", "eu-west-1a");
    scene.refused_with("InsufficientFreeAddressesInSubnet").await;
    scene.pass().await;
    assert_eq!(subnets(&scene), ["subnet-0000000a", "subnet-0000000c"]);
}

#[tokio::test]
async fn control_plane_machines_are_spread_whatever_the_workers() {
    let scene = Scene::new();
    for (name, is_control_plane) in [("w1", false), ("c1", true), ("w2", false), ("c2", true)] {
        scene.add(name, BOOTSTRAP, SPEC);
        if is_control_plane {
            scene.in_control_plane(name);
        }
        scene.pass_over(name).await.unwrap();
        // The next launch has its turn a second later.
        scene.kubernetes.advance(Duration::from_secs(1));
    }
    let [a, b] = ["subnet-0000000a", "subnet-0000000b"];
    assert_eq!(subnets(&scene), [a, a, b, b], "w1, c1, w2, c2");
}

#[tokio::test]
async fn control_plane_machines_without_the_label_are_spread_too() {
    let scene = Scene::new();
    for name in ["w1", "c1", "c2"] {
        scene.add(name, BOOTSTRAP, SPEC);
        if name != "w1" {
            scene.in_control_plane(name);
            let mut machine = scene.machine(name).unwrap();
            machine.labels_mut().remove(CONTROL_PLANE_LABEL);
            scene.kubernetes.put_aws_machine(machine);
        }
        scene.pass_over(name).await.unwrap();
        // The next launch has its turn a second later.
        scene.kubernetes.advance(Duration::from_secs(1));
    }
    let [a, b] = ["subnet-0000000a", "subnet-0000000b"];
    assert_eq!(subnets(&scene), [a, a, b], "w1, c1, c2");
}
