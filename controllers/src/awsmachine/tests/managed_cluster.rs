//! A control plane machine in the network of a managed cluster, in one account of AWS in memory.

use capa_cloud::targets::Group;

use super::*;
use crate::awscluster::ManagedWorld;

/// Passes that are enough to launch a machine, or to drain and end it.
const PASSES: usize = 20;

/// A managed cluster with a network load balancer, and a control plane machine that runs in its network.
async fn running_in_managed_cluster() -> (ManagedWorld, Scene) {
    let scene = Scene::new();
    for brought in ["subnet-0000000a", "subnet-0000000b", "sg-0000000a"] {
        scene.aws.remove(brought);
    }
    let spec = "region: eu-west-1, controlPlaneLoadBalancer: {loadBalancerType: nlb}";
    let mut cluster = ManagedWorld::in_account(spec, scene.aws.account());
    cluster.rest();
    scene.kubernetes.advance(cluster.account.elapsed());
    let network = serde_json::to_string(&cluster.status().network).expect("a network");
    scene.kubernetes.publish_network("dev", &network);
    scene.in_control_plane("m");
    let scene = scene.run().await;
    (cluster, scene)
}

/// The groups in which the instance is registered.
fn registered(scene: &Scene) -> Vec<Group> {
    scene.aws.registered_in(FIRST)
}

#[tokio::test]
async fn a_machine_is_launched_into_the_private_subnets_and_behind_the_load_balancer_of_its_cluster() {
    let (cluster, scene) = running_in_managed_cluster().await;
    let launches = scene.aws.launches();
    let subnets = cluster.account.subnets().into_iter();
    let subnet = subnets.filter(|subnet| !subnet.assigns_public_ip).find(|subnet| subnet.id == launches[0].subnet_id);
    assert!(subnet.is_some(), "{:?}", launches[0].subnet_id);
    let groups = cluster.account.security_groups();
    let own: Vec<&str> = launches[0].security_group_ids.iter().map(String::as_str).collect();
    let mut names: Vec<&str> =
        groups.iter().filter(|group| own.contains(&&*group.id)).map(|group| &*group.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["dev-controlplane", "dev-lb", "dev-node"]);
    let api = cluster.account.target_groups().remove(0);
    assert_eq!(registered(&scene), [Group::TargetGroup(api.arn)]);
}

#[tokio::test]
async fn a_cluster_that_is_deleted_by_force_before_its_machine_waits_for_the_instance_and_leaves_nothing() {
    let (mut cluster, scene) = running_in_managed_cluster().await;
    cluster.delete();
    cluster.rest_for(Duration::from_mins(15));
    assert_eq!(cluster.condition(ConditionType::SubnetsReady), "False/DeletionBlocked");
    let subnet = &scene.aws.launches()[0].subnet_id;
    let message = cluster.message(ConditionType::SubnetsReady);
    assert!(message.contains(&**subnet), "{message}");
    scene.delete();
    for _ in 0..PASSES {
        if scene.machine("m").is_none() {
            break;
        }
        let pass = scene.after(Duration::from_secs(60)).await;
        if pass.called("TerminateInstances") {
            scene.aws.set_instance_state(FIRST, InstanceState::Terminated);
        }
    }
    assert!(scene.machine("m").is_none(), "{:?}", scene.machine("m").and_then(|machine| machine.status));
    cluster.assert_gone();
}
