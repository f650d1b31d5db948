use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::operation::run_instances::builders::RunInstancesFluentBuilder;
use aws_sdk_ec2::types::{
    Filter, IamInstanceProfileSpecification, InstanceNetworkInterfaceSpecification, InstanceStateName, InstanceType,
    Reservation, ResourceType, Tag, TagSpecification,
};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::aws_proxy::digest;
use capa_e2e::eventually;
use capa_e2e::moto::IMAGE_ID;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{REGION, network, state};

const LONG: Duration = Duration::from_hours(1);

fn launch(ec2: &Client, subnet: &str, token: &str) -> RunInstancesFluentBuilder {
    let tag = Tag::builder().key("Name").value("m").build();
    let tags = TagSpecification::builder()
        .resource_type(ResourceType::Instance)
        .tags(tag)
        .build();
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

async fn ids(ec2: &Client, filter: &str, value: &str) -> Vec<String> {
    let filter = Filter::builder().name(filter).values(value).build();
    let answer = ec2.describe_instances().filters(filter).send().await.unwrap();
    let instances = answer.reservations().iter().flat_map(Reservation::instances);
    instances
        .map(|instance| instance.instance_id.clone().unwrap())
        .collect()
}

#[tokio::test]
async fn a_token_launches_once_in_a_zone() {
    let (account, user, network, ec2) = network().await;
    let [first, second] = network.private_subnet_ids()[..] else {
        panic!("two zones")
    };
    let instance = launched(&ec2, first, "uid-1").await;
    assert_eq!(launched(&ec2, first, "uid-1").await, instance);
    assert_eq!(user.instances().await.unwrap().len(), 1);
    let calls = account.manager_journal().of("RunInstances");
    assert_eq!(
        calls.calls().iter().map(|call| call.replayed).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(calls.calls().iter().all(|call| call.instance_ids == [instance.clone()]));

    let other_type = launch(&ec2, first, "uid-1")
        .instance_type(InstanceType::T3Large)
        .send()
        .await;
    assert_eq!(other_type.unwrap_err().code(), Some("IdempotentParameterMismatch"));
    assert_eq!(user.instances().await.unwrap().len(), 1);

    assert_ne!(
        launched(&ec2, second, "uid-1").await,
        instance,
        "another zone launches again"
    );
    assert_ne!(launched(&ec2, first, "uid-2").await, instance);
    assert_eq!(user.instances().await.unwrap().len(), 3);
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
async fn a_client_that_hangs_up_launches_all_the_same() {
    let (account, user, network, _) = network().await;
    let subnet = network.private_subnet_ids()[0];
    let body = format!(
        "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1\
             &ImageId={IMAGE_ID}&SubnetId={subnet}&ClientToken=uid-1"
    );
    let (address, key) = (
        account.url().trim_start_matches("http://"),
        &account.key().access_key_id,
    );
    let credential = format!("{key}/20260101/{REGION}/ec2/aws4_request");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0\r\n\r\n{body}",
        body.len()
    );
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    drop(connection);
    let recorded = eventually(Duration::from_mins(2), "the launch to be recorded", async || {
        anyhow::ensure!(!account.manager_journal().is_empty(), "no call yet");
        Ok(())
    });
    recorded.await.unwrap();
    assert_eq!(user.live_instances().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_launch_leaves_its_token_unused() {
    let (_, user, network, ec2) = network().await;
    let subnet = network.private_subnet_ids()[0];
    let refused = launch(&ec2, "subnet-0123456789abcdef0", "uid-1")
        .send()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Some("InvalidSubnetID.NotFound"));
    launched(&ec2, subnet, "uid-1").await;
    assert_eq!(user.live_instances().await.unwrap().len(), 1);
}

#[tokio::test]
async fn references_of_a_launch_must_exist() {
    let (_, user, network, ec2) = network().await;
    let subnet = network.private_subnet_ids()[0];
    let code = |launch: RunInstancesFluentBuilder| async move {
        launch.send().await.unwrap_err().code().unwrap_or_default().to_owned()
    };
    assert_eq!(
        code(launch(&ec2, subnet, "1").image_id("ami-0123456789abcdef0")).await,
        "InvalidAMIID.NotFound"
    );
    assert_eq!(
        code(launch(&ec2, subnet, "2").key_name("nobody")).await,
        "InvalidKeyPair.NotFound"
    );
    let profile = IamInstanceProfileSpecification::builder().name("nobody").build();
    assert_eq!(
        code(launch(&ec2, subnet, "4").iam_instance_profile(profile)).await,
        "InvalidParameterValue"
    );
    let group = "sg-0123456789abcdef0";
    assert_eq!(
        code(launch(&ec2, subnet, "3").security_group_ids(group)).await,
        "InvalidGroup.NotFound"
    );
    assert!(user.instances().await.unwrap().is_empty());
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
        let launch = launch(&ec2, subnet, "uid-1")
            .set_subnet_id(None)
            .network_interfaces(interface.build());
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

#[tokio::test]
async fn an_instance_found_by_its_token_is_the_one_launched_with_it() {
    let (_, _, network, ec2) = network().await;
    let subnet = network.private_subnet_ids()[0];
    let instance = launched(&ec2, subnet, "uid-1").await;
    launched(&ec2, subnet, "uid-2").await;
    assert_eq!(ids(&ec2, "client-token", "uid-1").await, [instance]);
    assert!(ids(&ec2, "client-token", "uid-3").await.is_empty());
    assert_eq!(ids(&ec2, "tag:Name", "m").await.len(), 2);
}

#[tokio::test]
async fn instances_stay_in_transition_as_long_as_the_account_says() {
    let (account, user, network, ec2) = network().await;
    account.set_pending(LONG);
    account.set_shutting_down(LONG);
    let instance = launched(&ec2, network.private_subnet_ids()[0], "uid-1").await;
    assert_eq!(state(&user, &instance).await, InstanceStateName::Pending);
    assert_eq!(
        ids(&ec2, "instance-state-name", "pending").await,
        std::slice::from_ref(&instance)
    );
    assert!(ids(&ec2, "instance-state-name", "running").await.is_empty());
    account.set_pending(Duration::ZERO);
    assert_eq!(state(&user, &instance).await, InstanceStateName::Running);

    let terminate = || async {
        let answer = ec2.terminate_instances().instance_ids(&instance).send().await.unwrap();
        let changed = answer.terminating_instances()[0].clone();
        (
            changed.previous_state.unwrap().name.unwrap(),
            changed.current_state.unwrap().name.unwrap(),
        )
    };
    assert_eq!(
        terminate().await,
        (InstanceStateName::Running, InstanceStateName::ShuttingDown)
    );
    assert_eq!(state(&user, &instance).await, InstanceStateName::ShuttingDown);
    assert_eq!(
        terminate().await,
        (InstanceStateName::ShuttingDown, InstanceStateName::ShuttingDown)
    );
    assert_eq!(user.live_instances().await.unwrap().len(), 1);
    account.set_shutting_down(Duration::ZERO);
    assert_eq!(state(&user, &instance).await, InstanceStateName::Terminated);
    assert_eq!(
        terminate().await,
        (InstanceStateName::Terminated, InstanceStateName::Terminated)
    );
    assert!(user.live_instances().await.unwrap().is_empty());

    let replayed = launch(&ec2, network.private_subnet_ids()[0], "uid-1")
        .send()
        .await
        .unwrap();
    let replayed = replayed.instances()[0].state.as_ref().unwrap().name.clone();
    assert_eq!(
        replayed,
        Some(InstanceStateName::Terminated),
        "a token repeated tells the state of now"
    );
}

#[tokio::test]
async fn the_journal_shows_a_launch_without_its_user_data() {
    let (account, _, network, ec2) = network().await;
    let secret = "#cloud-config\npassword: hunter2";
    let encoded = BASE64_STANDARD.encode(secret);
    let subnet = network.private_subnet_ids()[0];
    let group = network.node_security_group_id.as_str();
    launch(&ec2, subnet, "uid-1")
        .security_group_ids(group)
        .user_data(&encoded)
        .send()
        .await
        .unwrap();
    let journal = account.manager_journal();
    let text = format!("{journal}{journal:?}{account:?}");
    assert!(!text.contains("hunter2") && !text.contains(&encoded), "{text}");
    let call = journal.calls()[0].clone();
    assert_eq!(call.parameter("UserData"), Some(digest(secret.as_bytes()).as_str()));
    assert_eq!(call.parameter("ClientToken"), Some("uid-1"));
    assert_eq!(call.parameter("SubnetId"), Some(subnet));
    assert_eq!(call.values("SecurityGroupId"), [group]);
    assert_eq!(call.tags("instance")["Name"], "m");
    assert!(call.is_mutating());
}
