//! Tests of the subnets and security groups that a machine's filters find in several VPCs.

use capa_api::cluster::subnet::ASSOCIATION_TAG;

use super::*;

/// Filters that match a security group of each VPC.
const GROUPS: &str = "additionalSecurityGroups: [{filters: [{name: group-id, values: [sg-0000000e, sg-0000000f]}]}]";

/// A machine whose cluster publishes this network. AWS has a second VPC with a subnet and a security group.
fn scene(spec: &str, network: &str) -> Scene {
    let scene = Scene::with_spec(&format!("{SPEC}, {spec}"));
    scene.kubernetes.publish_network("dev", network);
    scene.aws.subnet("subnet-0000000f", "vpc-00000002", "eu-west-1a");
    scene.aws.security_group("sg-0000000e", "vpc-00000001");
    scene.aws.security_group("sg-0000000f", "vpc-00000002");
    scene
}

/// The network of the scene, whose VPC is known.
fn in_first_vpc() -> String {
    NETWORK.replace("region: eu-west-1,", "region: eu-west-1, vpc: {id: vpc-00000001},")
}

/// The subnet and the security groups of the only launch.
async fn placed(scene: &Scene) -> (String, Vec<String>) {
    scene.pass().await;
    let mut launches = scene.aws.launches();
    assert_eq!(launches.len(), 1);
    let launch = launches.remove(0);
    (launch.subnet_id, launch.security_group_ids)
}

#[tokio::test]
async fn a_vpc_in_the_filters_of_a_machine_replaces_that_of_its_cluster() {
    let subnet = "subnet: {filters: [{name: vpc-id, values: [vpc-00000002]}]}";
    let own = "securityGroupOverrides: {node: sg-0000000f}";
    let scene = scene(&format!("{subnet}, {own}, {GROUPS}"), &in_first_vpc());
    let expected = ("subnet-0000000f".to_owned(), vec!["sg-0000000f".to_owned()]);
    assert_eq!(placed(&scene).await, expected);
}

#[tokio::test]
async fn filters_of_a_machine_find_no_subnet_for_pods_and_no_private_one_for_a_public_address() {
    let zone = "subnet: {filters: [{name: availability-zone, values: [eu-west-1a]}]}, publicIP: true";
    let subnet = "{id: subnet-0000000a, availabilityZone: eu-west-1a}";
    let private = "{id: subnet-0000000a, availabilityZone: eu-west-1a, public: false}";
    let network = in_first_vpc().replace(subnet, private);
    assert_ne!(network, in_first_vpc());
    let scene = scene(zone, &network);
    scene.aws.subnet("subnet-00000001", "vpc-00000001", "eu-west-1a");
    scene.aws.tag("subnet-00000001", ASSOCIATION_TAG, "secondary");
    let nowhere = scene.pass().await;
    assert_eq!(nowhere.condition(ConditionType::NetworkReady), "False/NotFound");
    let message = nowhere.message(ConditionType::NetworkReady);
    assert!(message.contains(ASSOCIATION_TAG) && message.contains("publicIP"), "{message}");
    scene.aws.subnet("subnet-0000000e", "vpc-00000001", "eu-west-1a");
    scene.after(Duration::from_mins(5)).await;
    assert_eq!(scene.aws.launches()[0].subnet_id, "subnet-0000000e");
}

#[tokio::test]
async fn groups_are_those_of_the_vpc_of_the_machines_subnet() {
    for network in [NETWORK.to_owned(), in_first_vpc()] {
        let scene = scene(&format!("subnet: {{id: subnet-0000000a}}, {GROUPS}"), &network);
        let (subnet, groups) = placed(&scene).await;
        assert_eq!(subnet, "subnet-0000000a");
        assert_eq!(groups, ["sg-0000000a", "sg-0000000e"]);
    }
}

#[tokio::test]
async fn matches_in_two_vpcs_are_a_conflict_with_their_ids() {
    let both = "values: [vpc-00000001, vpc-00000002]";
    let zone = "{name: availability-zone, values: [eu-west-1a]}";
    let table = [
        (
            format!("subnet: {{filters: [{zone}]}}"),
            NETWORK.to_owned(),
            ["subnet-0000000a of vpc-00000001", "subnet-0000000f of vpc-00000002"],
        ),
        (
            GROUPS.replace("filters: [", &format!("filters: [{{name: vpc-id, {both}}}, ")),
            in_first_vpc(),
            ["sg-0000000e of vpc-00000001", "sg-0000000f of vpc-00000002"],
        ),
    ];
    for (spec, network, ids) in table {
        let pass = scene(&spec, &network).pass().await;
        assert_eq!(pass.condition(ConditionType::NetworkReady), "False/Conflict");
        let message = pass.message(ConditionType::NetworkReady);
        assert!(ids.iter().all(|id| message.contains(id)), "{message}");
        assert!(message.contains("add the filter vpc-id"), "{message}");
    }
}
