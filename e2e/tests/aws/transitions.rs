//! Instances that are hidden, stop, or end in `pending`.

use std::time::Duration;

use aws_sdk_ec2::Client;
use aws_sdk_ec2::error::ProvideErrorMetadata;
use aws_sdk_ec2::types::{Filter, InstanceStateChange, InstanceStateName, InstanceType};
use capa_e2e::aws_proxy::Fault;
use capa_e2e::moto::IMAGE_ID;

use super::{network, state};

const LONG: Duration = Duration::from_hours(1);

async fn launched(ec2: &Client, subnet: &str, token: &str) -> String {
    let launch = ec2
        .run_instances()
        .image_id(IMAGE_ID)
        .instance_type(InstanceType::T3Small);
    let launch = launch.min_count(1).max_count(1).subnet_id(subnet).client_token(token);
    let answer = launch.send().await.unwrap();
    answer.instances()[0].instance_id.clone().unwrap()
}

fn states(change: &InstanceStateChange) -> (InstanceStateName, InstanceStateName) {
    let name = |state: &Option<aws_sdk_ec2::types::InstanceState>| state.clone().unwrap().name.unwrap();
    (name(&change.previous_state), name(&change.current_state))
}

#[tokio::test]
async fn the_user_alone_sees_a_fresh_instance() {
    let (account, user, network, ec2) = network().await;
    account.set_hidden(LONG);
    let instance = launched(&ec2, network.private_subnet_ids()[0], "uid-1").await;
    for (name, value) in [
        ("client-token", "uid-1"),
        ("instance-id", instance.as_str()),
        ("instance-state-name", "running"),
    ] {
        let filter = Filter::builder().name(name).values(value).build();
        let found = ec2.describe_instances().filters(filter).send().await.unwrap();
        assert!(found.reservations().is_empty(), "{name} finds {found:?}");
    }
    let by_id = || ec2.describe_instances().instance_ids(&instance).send();
    assert_eq!(by_id().await.unwrap_err().code(), Some("InvalidInstanceID.NotFound"));
    assert_eq!(user.live_instances().await.unwrap().len(), 1);
    account.set_hidden(Duration::ZERO);
    assert_eq!(by_id().await.unwrap().reservations().len(), 1);
}

#[tokio::test]
async fn an_instance_takes_its_time_to_stop_and_to_start_again() {
    use InstanceStateName::{Pending, Running, Stopped, Stopping};
    let (account, user, network, ec2) = network().await;
    let instance = launched(&ec2, network.private_subnet_ids()[0], "uid-1").await;
    account.set_stopping(LONG);
    let stopped = ec2.stop_instances().instance_ids(&instance).send().await.unwrap();
    assert_eq!(states(&stopped.stopping_instances()[0]), (Running, Stopping));
    assert_eq!(state(&user, &instance).await, Stopping);
    let start = || ec2.start_instances().instance_ids(&instance).send();
    assert_eq!(start().await.unwrap_err().code(), Some("IncorrectInstanceState"));
    account.set_stopping(Duration::ZERO);
    assert_eq!(state(&user, &instance).await, Stopped);
    account.set_pending(LONG);
    assert_eq!(
        states(&start().await.unwrap().starting_instances()[0]),
        (Stopped, Pending)
    );
    assert_eq!(state(&user, &instance).await, Pending);
    account.set_pending(Duration::ZERO);
    assert_eq!(state(&user, &instance).await, Running);

    user.terminate(&instance).await.unwrap();
    let stopped = ec2.stop_instances().instance_ids(&instance).send().await;
    assert_eq!(stopped.unwrap_err().code(), Some("IncorrectInstanceState"));
}

#[tokio::test]
async fn a_launch_ends_in_pending_with_its_reason_without_leaks() {
    let (account, user, network, ec2) = network().await;
    let before = user.dump().await.unwrap();
    let [first, second] = network.private_subnet_ids()[..] else {
        panic!("two zones")
    };
    let dies = Fault::on("RunInstances").in_subnet(first);
    account.fault(
        dies.dies_in_pending("Server.InsufficientInstanceCapacity", LONG)
            .times(1),
    );
    let slow = launched(&ec2, first, "uid-1").await;
    assert_eq!(state(&user, &slow).await, InstanceStateName::Pending);
    let dies = Fault::on("RunInstances").in_subnet(first);
    account.fault(
        dies.dies_in_pending("Client.VolumeLimitExceeded", Duration::ZERO)
            .times(1),
    );
    let dead = launched(&ec2, first, "uid-2").await;
    let lives = launched(&ec2, second, "uid-3").await;
    let seen = user.instance(&dead).await.unwrap();
    assert_eq!(seen.state.unwrap().name, Some(InstanceStateName::Terminated));
    assert_eq!(
        seen.state_reason.unwrap().code.as_deref(),
        Some("Client.VolumeLimitExceeded")
    );
    assert_eq!(state(&user, &lives).await, InstanceStateName::Running);
    assert_eq!(
        launched(&ec2, first, "uid-2").await,
        dead,
        "its token still stands for it"
    );
    assert_eq!(user.live_instances().await.unwrap().len(), 2);
    for instance in [&slow, &lives] {
        user.terminate(instance).await.unwrap();
    }
    assert_eq!(user.dump().await.unwrap(), before);
}
