//! Tests of the effect of each field in an AWSMachine's spec.

use capa_api::machine::InstanceState;
use serde_json::{Value, json};

use super::{FIRST, NETWORK, SPEC, Scene};
use crate::testing::fields::{assert_effect, effects, spec_with};

/// The result of one pass over a new machine with this spec: the status, and the call of RunInstances, if any.
async fn observed(spec: &str) -> Value {
    let scene = Scene::with_spec(spec);
    scene.aws.security_group("sg-0000000c", "vpc-00000001");
    scene.aws.network_interface("eni-0000000a", "subnet-0000000b", &["sg-0000000a"]);
    let elsewhere = scene.aws.in_region("us-east-1");
    elsewhere.subnet("subnet-0000000a", "vpc-00000001", "eu-west-1a");
    elsewhere.security_group("sg-0000000a", "vpc-00000001");
    elsewhere.image("ami-00000001", "/dev/sda1");
    shown(&scene).await
}

async fn shown(scene: &Scene) -> Value {
    let pass = scene.pass().await;
    let conditions = pass.status().conditions.iter().map(|condition| {
        let is = format!("{}/{}", condition.status, condition.reason);
        let shown = json!({"is": is, "message": condition.message});
        (condition.type_.clone(), shown)
    });
    json!({
        "call": scene.aws.launches().first(),
        "conditions": conditions.collect::<serde_json::Map<_, _>>(),
        "status": pass.status(),
    })
}

#[tokio::test]
async fn each_field_has_its_effect() {
    let without = observed(SPEC).await;
    for row in effects("AWSMachine") {
        assert_effect(&row, &without, &observed(&spec_with(SPEC, &row)).await);
    }
}

#[tokio::test]
async fn overrides_of_a_machine_replace_node_and_lb_together() {
    let observed = async |spec: &str| {
        let scene = Scene::with_spec(spec);
        let node_and_lb = NETWORK.replace("all: [sg-0000000a]", "all: [sg-0000000a, sg-0000000b]");
        scene.kubernetes.publish_network("dev", &node_and_lb);
        shown(&scene).await
    };
    let without = observed(SPEC).await;
    let both = json!(["sg-0000000a", "sg-0000000b"]);
    assert_eq!(without["call"]["security_group_ids"], both);
    for (set, used) in [
        ("securityGroupOverrides: {node: sg-0000000c}", json!(["sg-0000000c"])),
        ("securityGroupOverrides: {node: sg-0000000c, lb: sg-0000000b}", json!(["sg-0000000c", "sg-0000000b"])),
    ] {
        let row = ("securityGroupOverrides{}", set, "/call/security_group_ids", used);
        assert_effect(&row, &without, &observed(&spec_with(SPEC, &row)).await);
    }
    let only_lb = observed(&format!("{SPEC}, securityGroupOverrides: {{lb: sg-0000000c}}")).await;
    assert!(only_lb["call"].is_null(), "a worker without the group of nodes cannot join");
    assert_eq!(only_lb["conditions"]["InstanceReady"]["is"], "False/InvalidSpec");
}

#[tokio::test]
async fn an_instance_in_the_spec_is_followed_and_none_launched() {
    for row in [
        (
            "providerID",
            "providerID: 'aws:///eu-west-1a/i-00000000000000001'",
            "/status/instanceState",
            json!("running"),
        ),
        ("instanceID", "instanceID: i-00000000000000001", "/status/instanceState", json!("running")),
    ] {
        // The instance is found only by the spec, and its name tag decides about its ownership.
        let unnamed = Scene::new();
        unnamed.aws.instance(FIRST, InstanceState::Running, "team-a/other");
        let named = Scene::with_spec(&spec_with(SPEC, &row));
        named.aws.instance(FIRST, InstanceState::Running, "team-a/m");
        // The first pass starts the lookup of the instance.
        named.pass().await;
        let (without, with) = (shown(&unnamed).await, shown(&named).await);
        assert_effect(&row, &without, &with);
        assert!(without["call"].is_object() && with["call"].is_null(), "{with:#}");
    }
}
