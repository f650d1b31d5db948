//! Tests of the fields that say how capacity is bought and where the instance is placed, and of the machine's own
//! network interfaces.

use capa_api::conditions::ConditionType;
use capa_api::machine::{InstanceState, LaunchOptions, MarketType, SpotMarketOptions};
use capa_cloud::{CloudError, LaunchRequest};
use serde_json::{Value, json};

use super::{FIRST, NETWORK, SPEC, Scene};
use crate::testing::read;

const NETWORK_READY: ConditionType = ConditionType::NetworkReady;

#[tokio::test]
async fn only_a_spot_machine_is_interruptible() {
    for (market, expected) in [("Spot", Some(true)), ("OnDemand", None)] {
        let scene = Scene::with_spec(&format!("{SPEC}, marketType: {market}")).run().await;
        assert_eq!(scene.pass().await.status().interruptible, expected, "{market}");
    }
}

/// EC2 shows nothing of an interruption before the instance ends.
#[tokio::test]
async fn the_interruption_of_a_spot_instance_is_told_at_its_end() {
    let scene = Scene::with_spec(&format!("{SPEC}, marketType: Spot")).run().await;
    let code = "Server.SpotInstanceTermination";
    for state in [InstanceState::ShuttingDown, InstanceState::Terminated] {
        scene.aws.end_instance(FIRST, state, code, "Spot instance termination");
        let ended = scene.pass().await;
        assert_eq!(ended.condition(ConditionType::InstanceReady), "False/Terminated", "{state}");
        let message = ended.message(ConditionType::InstanceReady);
        assert!(message.contains("EC2 has interrupted the Spot instance") && message.contains(code), "{message}");
        assert_eq!(ended.condition(ConditionType::Ready), "False/Terminated", "{state}");
    }
    assert_eq!(scene.aws.launches().len(), 1, "the MachineHealthCheck replaces the machine");
}

fn options_by_subnet(launches: &[LaunchRequest]) -> Vec<(&str, &LaunchOptions)> {
    let launches = launches.iter();
    launches.map(|launch| (launch.subnet_id.as_str(), &launch.options)).collect()
}

#[tokio::test]
async fn spot_capacity_is_sought_elsewhere_and_never_bought_dearer() {
    let scene = Scene::with_spec(&format!("{SPEC}, spotMarketOptions: {{maxPrice: '0.01'}}"));
    let refusal = |code| CloudError::answered("RunInstances", code, "no capacity");
    scene.aws.fail_next("RunInstances", refusal("SpotMaxPriceTooLow"));
    scene.pass().await;
    scene.pass().await;
    let launches = scene.aws.launches();
    let spot = LaunchOptions {
        market_type: Some(MarketType::Spot),
        spot_market_options: Some(SpotMarketOptions { max_price: Some("0.01".into()) }),
        ..LaunchOptions::default()
    };
    assert_eq!(
        options_by_subnet(&launches),
        [("subnet-0000000a", &spot), ("subnet-0000000b", &spot)],
        "the other zone, at that price"
    );
}

#[tokio::test]
async fn own_interfaces_decide_subnet_groups_and_zone() {
    let spec = format!("{SPEC}, networkInterfaces: [eni-0000000a, eni-0000000b]");
    let scene = Scene::with_spec(&spec);
    scene.aws.security_group("sg-0000000d", "vpc-00000001");
    scene.aws.network_interface("eni-0000000a", "subnet-0000000b", &["sg-0000000d"]);
    scene.aws.network_interface("eni-0000000b", "subnet-0000000b", &[]);
    let scene = scene.run().await;
    let launch = scene.aws.launches().remove(0);
    assert_eq!(launch.options.network_interfaces, ["eni-0000000a", "eni-0000000b"]);
    let pass = scene.pass().await;
    let network = pass.status().network.as_ref().unwrap();
    assert_eq!(network.subnet_id.as_deref(), Some("subnet-0000000b"));
    assert_eq!(network.availability_zone.as_deref(), Some("eu-west-1b"));
    assert_eq!(network.security_group_ids, ["sg-0000000d"]);
    assert_eq!(network.sources["securityGroups"], "AWSMachine/m");
    assert_eq!(pass.condition(ConditionType::NetworkUpToDate), "True/Ready");
}

#[tokio::test]
async fn an_interface_in_use_or_missing_is_waited_for() {
    let scene = Scene::with_spec(&format!("{SPEC}, networkInterfaces: [eni-0000000a]"));
    let missing = scene.pass().await;
    assert_eq!(missing.condition(NETWORK_READY), "False/NotFound");
    scene.aws.network_interface("eni-0000000a", "subnet-0000000a", &["sg-0000000a"]);
    scene.pass().await;
    assert_eq!(scene.aws.launches().len(), 1);
    scene.add("other", "bootstrap: {dataSecretName: boot}", &format!("{SPEC}, networkInterfaces: [eni-0000000a]"));
    let taken = scene.pass_over("other").await.unwrap();
    assert_eq!(taken.condition(NETWORK_READY), "False/Conflict");
    assert!(taken.message(NETWORK_READY).contains(FIRST), "{}", taken.message(NETWORK_READY));
    scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
    scene.pass_over("other").await.unwrap();
    assert_eq!(scene.aws.launches().len(), 2, "the interface outlives the instance");
}

#[tokio::test]
async fn a_lost_answer_does_not_make_the_interface_look_taken() {
    let mut scene = Scene::with_spec(&format!("{SPEC}, networkInterfaces: [eni-0000000a]"));
    scene.aws.network_interface("eni-0000000a", "subnet-0000000a", &["sg-0000000a"]);
    scene.aws.lose_next_answer("RunInstances");
    scene.pass().await;
    scene.pass().await;
    scene.restart();
    let found = scene.pass().await;
    assert_eq!(scene.aws.instance_ids().len(), 1);
    assert_eq!(found.condition(NETWORK_READY), "True/Ready");
}

#[tokio::test]
async fn a_machine_that_needs_ipv6_avoids_subnets_without_it() {
    let scene = Scene::with_spec(&format!("{SPEC}, assignPrimaryIPv6: enabled"));
    let mut network: Value = read(NETWORK);
    network["subnets"][0]["ipv6"] = json!(false);
    network["subnets"][1]["ipv6"] = json!(true);
    scene.kubernetes.publish_network("dev", &network.to_string());
    scene.pass().await;
    assert_eq!(scene.aws.launches()[0].subnet_id, "subnet-0000000b");
    network["subnets"][1]["ipv6"] = json!(false);
    scene.kubernetes.publish_network("dev", &network.to_string());
    scene.add("other", "bootstrap: {dataSecretName: boot}", &format!("{SPEC}, assignPrimaryIPv6: enabled"));
    let nowhere = scene.pass_over("other").await.unwrap();
    assert_eq!(nowhere.condition(NETWORK_READY), "False/NoSubnetInFailureDomain");
}
