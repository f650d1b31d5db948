//! Targets of load balancers: registrations, health checks, draining, and the instances behind a DNS name.

use std::time::Duration;

use aws_sdk_ec2::types::InstanceType;
use aws_sdk_elasticloadbalancing::types::Instance;
use aws_sdk_elasticloadbalancingv2::error::ProvideErrorMetadata;
use aws_sdk_elasticloadbalancingv2::types::{TargetDescription, TargetTypeEnum};
use capa_e2e::aws_proxy::{Account, Fault};
use capa_e2e::moto::IMAGE_ID;
use capa_e2e::user::{Network, NetworkPlan, User, elbv2_client};

use super::{REGION, account, aws};

const LONG: Duration = Duration::from_hours(1);

async fn world() -> (Account, User, Network) {
    let account = account().await;
    let user = User::new(&account, REGION);
    let network = user.create_network(&NetworkPlan::new("byo", REGION, 2)).await.unwrap();
    (account, user, network)
}

/// An instance and its private address.
async fn launched(user: &User, network: &Network) -> (String, String) {
    let launch = user.ec2().run_instances().image_id(IMAGE_ID);
    let launch = launch.instance_type(InstanceType::T3Small).min_count(1).max_count(1);
    let launched = launch.subnet_id(network.private_subnet_ids()[0]).send().await.unwrap();
    let instance = &launched.instances()[0];
    let text = |text: Option<&str>| text.unwrap().to_owned();
    (text(instance.instance_id()), text(instance.private_ip_address()))
}

async fn register(user: &User, group: &str, id: &str) -> Result<(), String> {
    let target = TargetDescription::builder().id(id).build();
    let register = user.elbv2().register_targets().target_group_arn(group).targets(target);
    let registered = register.send().await;
    registered
        .map(drop)
        .map_err(|error| error.code().unwrap_or_default().to_owned())
}

async fn states(user: &User, group: &str) -> Vec<String> {
    let targets = user.targets(group).await.unwrap();
    targets.into_iter().map(|(_, state)| state).collect()
}

async fn behind(host: &str, port: u16) -> Option<Vec<String>> {
    aws().await.healthy_targets(host, port).await.unwrap()
}

#[tokio::test]
async fn a_target_is_refused_until_running_then_healthy_as_its_node() {
    let (account, user, network) = world().await;
    let balancer = user.create_network_load_balancer(&network, "api").await.unwrap();
    let group = &balancer.target_group_arn;
    account.set_pending(LONG);
    let (instance, _) = launched(&user, &network).await;
    assert_eq!(register(&user, group, &instance).await, Err("InvalidTarget".to_owned()));
    account.set_pending(Duration::ZERO);
    account.set_initial(LONG);
    register(&user, group, &instance).await.unwrap();
    assert_eq!(states(&user, group).await, ["initial"]);
    assert_eq!(behind(&balancer.dns_name, 6443).await, Some(Vec::new()));
    account.set_initial(Duration::ZERO);
    assert_eq!(states(&user, group).await, ["healthy"]);
    assert_eq!(behind(&balancer.dns_name, 6443).await, Some(vec![instance.clone()]));
    assert_eq!(behind(&balancer.dns_name, 443).await, Some(Vec::new()), "no listener");
    account.set_nodes_report(true);
    assert_eq!(states(&user, group).await, ["unhealthy"]);
    account.set_serving(&instance, true);
    assert_eq!(states(&user, group).await, ["healthy"]);
    account.set_serving(&instance, false);
    assert_eq!(behind(&balancer.dns_name, 6443).await, Some(Vec::new()));
}

#[tokio::test]
async fn a_target_drains_as_long_as_its_group_says_and_then_is_gone() {
    let (account, user, network) = world().await;
    let balancer = user.create_network_load_balancer(&network, "api").await.unwrap();
    let group = &balancer.target_group_arn;
    let (instance, _) = launched(&user, &network).await;
    register(&user, group, &instance).await.unwrap();
    user.deregister_target(group, &instance).await.unwrap();
    assert_eq!(
        states(&user, group).await,
        ["draining"],
        "for its delay of five minutes"
    );
    assert_eq!(behind(&balancer.dns_name, 6443).await, Some(Vec::new()));
    register(&user, group, &instance).await.unwrap();
    assert_eq!(states(&user, group).await, ["healthy"]);
    user.set_deregistration_delay(group, 0).await.unwrap();
    account.set_stuck_draining(true);
    user.deregister_target(group, &instance).await.unwrap();
    assert_eq!(states(&user, group).await, ["draining"]);
    account.set_stuck_draining(false);
    assert!(states(&user, group).await.is_empty());
    user.deregister_target(group, &instance).await.unwrap();
}

#[tokio::test]
async fn an_address_is_as_healthy_as_its_instance_and_outlives_it() {
    let (_, user, network) = world().await;
    let balancer = user.create_network_load_balancer(&network, "api").await.unwrap();
    let addresses = user
        .create_target_group(&network, "addresses", TargetTypeEnum::Ip, &balancer.arn, 6444)
        .await
        .unwrap();
    let (instance, address) = launched(&user, &network).await;
    assert_eq!(
        register(&user, &addresses, &instance).await,
        Err("ValidationError".to_owned())
    );
    register(&user, &addresses, &address).await.unwrap();
    register(&user, &balancer.target_group_arn, &instance).await.unwrap();
    assert_eq!(behind(&balancer.dns_name, 6444).await, Some(vec![instance.clone()]));
    user.terminate(&instance).await.unwrap();
    assert_eq!(
        user.targets(&addresses).await.unwrap(),
        [(address, "unhealthy".to_owned())]
    );
    assert!(states(&user, &balancer.target_group_arn).await.is_empty());
}

#[tokio::test]
async fn classic_instances_are_in_service_while_they_serve() {
    let (account, user, network) = world().await;
    let balancer = user.create_classic_load_balancer(&network, "classic").await.unwrap();
    let (instance, _) = launched(&user, &network).await;
    let register = |id: &str| {
        let instance = Instance::builder().instance_id(id).build();
        let register = user.classic().register_instances_with_load_balancer();
        register.load_balancer_name(&balancer.name).instances(instance).send()
    };
    let unknown = register("i-00000000000000bad").await.unwrap_err();
    assert_eq!(unknown.code(), Some("InvalidInstance"));
    let registered = register(&instance).await.unwrap();
    assert_eq!(registered.instances()[0].instance_id(), Some(instance.as_str()));
    let seen = async || user.classic_instances(&balancer.name).await.unwrap();
    assert_eq!(seen().await, [(instance.clone(), "InService".to_owned())]);
    assert_eq!(behind(&balancer.dns_name, 6443).await, Some(vec![instance.clone()]));
    account.set_nodes_report(true);
    assert_eq!(seen().await, [(instance.clone(), "OutOfService".to_owned())]);
    let named = Instance::builder().instance_id(&instance).build();
    let deregister = user.classic().deregister_instances_from_load_balancer();
    let deregister = deregister.load_balancer_name(&balancer.name).instances(named).send();
    assert!(deregister.await.unwrap().instances().is_empty());
    assert!(seen().await.is_empty());
}

#[tokio::test]
async fn a_load_balancer_has_a_name_of_its_own_that_a_dump_shows() {
    let (_, user, network) = world().await;
    let (_, other, elsewhere) = world().await;
    let before = user.dump().await.unwrap();
    let balancer = user.create_network_load_balancer(&network, "api").await.unwrap();
    let theirs = other.create_network_load_balancer(&elsewhere, "api").await.unwrap();
    assert_ne!(balancer.dns_name, theirs.dns_name);
    let described = user
        .elbv2()
        .describe_load_balancers()
        .names("api")
        .send()
        .await
        .unwrap();
    assert_eq!(
        described.load_balancers()[0].dns_name(),
        Some(balancer.dns_name.as_str())
    );
    let (instance, _) = launched(&user, &network).await;
    register(&user, &balancer.target_group_arn, &instance).await.unwrap();
    assert_eq!(behind(&theirs.dns_name, 6443).await, Some(Vec::new()));
    assert_eq!(behind("api.example.com", 6443).await, None);
    let nobody = balancer.dns_name.replace("api-", "nothing-");
    assert_eq!(behind(&nobody, 6443).await, None);

    let with = user.dump().await.unwrap();
    assert_ne!(with, before);
    user.elbv2()
        .delete_load_balancer()
        .load_balancer_arn(&balancer.arn)
        .send()
        .await
        .unwrap();
    assert_ne!(user.dump().await.unwrap(), with);
}

#[tokio::test]
async fn calls_about_targets_are_recorded_and_meet_faults() {
    let (account, user, network) = world().await;
    let balancer = user.create_network_load_balancer(&network, "api").await.unwrap();
    let group = &balancer.target_group_arn;
    let manager = elbv2_client(account.url(), account.key(), REGION);
    let fault = account.fault(Fault::on("DescribeTargetHealth").error("AccessDenied"));
    let look = || manager.describe_target_health().target_group_arn(group).send();
    assert_eq!(look().await.unwrap_err().code(), Some("AccessDenied"));
    fault.lift();
    look().await.unwrap();
    let looks = account.manager_journal().of("DescribeTargetHealth");
    let recorded: Vec<_> = looks
        .calls()
        .iter()
        .map(|call| {
            (
                call.service.as_str(),
                call.parameter("TargetGroupArn"),
                call.error.as_deref(),
            )
        })
        .collect();
    let arn = Some(group.as_str());
    assert_eq!(
        recorded,
        [
            ("elasticloadbalancing", arn, Some("AccessDenied")),
            ("elasticloadbalancing", arn, None)
        ]
    );
}
