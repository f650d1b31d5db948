use aws_sdk_ec2::Client;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{InstanceNetworkInterfaceSpecification, InstanceType, ResourceType, Tag, TagSpecification};
use capa_e2e::moto::IMAGE_ID;

use super::network;

fn launch(ec2: &Client, subnet: &str, token: &str) -> RunInstancesFluentBuilder {
    let tag = Tag::builder().key("Name").value("m").build();
    let tags = TagSpecification::builder().resource_type(ResourceType::Instance).tags(tag).build();
    ec2.run_instances()
        .image_id(IMAGE_ID)
        .instance_type(InstanceType::T3Small)
        .min_count(1)
        .max_count(1)
        .subnet_id(subnet)
        .client_token(token)
        .tag_specifications(tags)
}

async fn launched(ec2: &Client, subnet: &str, token: &str) -> String {
    let answer = launch(ec2, subnet, token).send().await.unwrap();
    answer.instances()[0].instance_id.clone().unwrap()
}

#[tokio::test]
async fn equal_launches_at_the_same_time_make_one_instance() {
    let (_, user, network, ec2) = network().await;
    let subnet = network.private_subnet_ids()[0];
    let all = futures::future::join_all((0..5).map(|_| launched(&ec2, subnet, "uid-1"))).await;
    assert!(all.iter().all(|id| *id == all[0]), "{all:?}");
    assert_eq!(user.instances().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_launch_with_an_interface_has_the_zone_of_its_subnet() {
    let (_, user, network, ec2) = network().await;
    let before = user.dump().await.unwrap();
    let mut instances = Vec::new();
    for subnet in network.public_subnet_ids() {
        let interface = InstanceNetworkInterfaceSpecification::builder()
            .device_index(0)
            .subnet_id(subnet)
            .groups(&network.node_security_group_id)
            .associate_public_ip_address(true);
        let launch = launch(&ec2, subnet, "uid-1").set_subnet_id(None).network_interfaces(interface.build());
        let answer = launch.send().await.unwrap();
        instances.push(answer.instances()[0].instance_id.clone().unwrap());
        assert_eq!(answer.instances()[0].subnet_id.as_deref(), Some(subnet));
    }
    assert_ne!(instances[0], instances[1]);
    for instance in &instances {
        user.terminate(instance).await.unwrap();
    }
    assert_eq!(user.dump().await.unwrap(), before);
}
