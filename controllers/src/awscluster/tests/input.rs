//! Tests that user input is checked before any AWS call.

use capa_api::conditions::ConditionType;

use super::{LOOKUP, NETWORK, Scene, aws_cluster};

const NETWORK_READY: ConditionType = ConditionType::NetworkReady;

#[tokio::test]
async fn an_invalid_region_creates_no_client() {
    for region in ["../x", "US EAST", "*", "r"] {
        let scene = Scene::new();
        let spec = NETWORK.replace("region: eu-west-1", &format!("region: '{region}'"));
        let pass = scene.pass(&aws_cluster(&spec)).await;
        assert_eq!(pass.condition(NETWORK_READY), "False/InvalidSpec", "{region}");
        assert_eq!(pass.condition(ConditionType::Ready), "False/InvalidSpec", "nothing can be launched");
        assert_eq!((pass.calls, scene.aws.regions()), (vec![], vec![]), "{region}");
        let published = pass.cluster.status.and_then(|status| status.network?.region);
        assert_eq!(published, None, "{region}");
    }
}

#[tokio::test]
async fn an_id_that_is_a_pattern_is_named_and_not_asked_for() {
    for (id, pattern) in [("subnet-0000000a", "subnet-*"), ("sg-0000000a", "sg-?"), ("vpc-00000001", "vpc-*")] {
        let scene = Scene::new();
        let spec = NETWORK.replace(id, &format!("'{pattern}'"));
        let pass = scene.pass(&aws_cluster(&spec)).await;
        assert_eq!(pass.condition(NETWORK_READY), "False/InvalidSpec", "{pattern}");
        assert!(pass.message(NETWORK_READY).contains(pattern), "{}", pass.message(NETWORK_READY));
        assert_eq!(pass.calls, LOOKUP, "the rest is looked up");
        let network = serde_json::to_string(&pass.status().network).unwrap();
        assert!(!network.contains(pattern), "{network}");
    }
    let scene = Scene::new();
    let spec = "region: eu-west-1, unmanaged: true, network: {subnets: [{id: 'subnet-*'}], \
                securityGroupOverrides: {node: 'sg-*'}}";
    let pass = scene.pass(&aws_cluster(spec)).await;
    assert_eq!(pass.calls, ["GetCallerIdentity"], "a pattern alone asks for nothing");
    assert_eq!(pass.subnet_ids(), [""; 0]);
}
