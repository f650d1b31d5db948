//! What AWS refuses to delete of a network, and what it answers to a repeated creation. Each case has its place in the
//! documentation of the action.

use std::time::Duration;

use anyhow::ensure;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ec2::types::NatGatewayState;
use aws_sdk_elasticloadbalancingv2::types::{Action, ActionTypeEnum, LoadBalancerTypeEnum, ProtocolEnum};
use capa_e2e::eventually_by_polling;
use capa_e2e::user::elbv2_client;

use super::{REGION, network};

/// The error code of a refused call.
fn code<T, E: ProvideErrorMetadata, R>(answer: Result<T, SdkError<E, R>>) -> Option<String> {
    answer.err().and_then(|error| error.code().map(str::to_owned))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSubnet.html>, `API_DeleteSecurityGroup`,
/// `API_DetachInternetGateway`, `API_ReleaseAddress`.
#[tokio::test]
async fn what_is_in_use_stays_until_it_is_not() {
    let (_account, user, network, _) = network().await;
    let ec2 = user.ec2();
    let subnet = &network.zones[0].public_subnet_id;
    let gateway = ec2.describe_nat_gateways().nat_gateway_ids(&network.nat_gateway_id).send().await.unwrap();
    let address = gateway.nat_gateways()[0].nat_gateway_addresses()[0].allocation_id.clone().unwrap();
    let delete_subnet = || ec2.delete_subnet().subnet_id(subnet).send();
    let delete_group = |id: &str| ec2.delete_security_group().group_id(id).send();
    let (internet_gateway, vpc) = (&network.internet_gateway_id, &network.vpc_id);
    let detach = || ec2.detach_internet_gateway().internet_gateway_id(internet_gateway).vpc_id(vpc).send();
    let release = || ec2.release_address().allocation_id(&address).send();

    ec2.delete_nat_gateway().nat_gateway_id(&network.nat_gateway_id).send().await.unwrap();
    assert_eq!(code(release().await).as_deref(), Some("InvalidIPAddress.InUse"), "the gateway is still deleting");
    assert_eq!(code(delete_subnet().await).as_deref(), Some("DependencyViolation"));
    assert_eq!(code(detach().await).as_deref(), Some("DependencyViolation"));
    let control_plane = delete_group(&network.control_plane_security_group_id).await;
    assert_eq!(code(control_plane).as_deref(), Some("DependencyViolation"), "rules of the nodes name it");

    let deleted = eventually_by_polling(Duration::from_mins(2), "the NAT gateway to be gone", async || {
        let shown = ec2.describe_nat_gateways().nat_gateway_ids(&network.nat_gateway_id).send().await?;
        ensure!(shown.nat_gateways()[0].state() == Some(&NatGatewayState::Deleted), "{shown:?}");
        Ok(())
    });
    deleted.await.unwrap();
    release().await.unwrap();
    delete_subnet().await.unwrap();
    detach().await.unwrap();
    delete_group(&network.node_security_group_id).await.unwrap();
    delete_group(&network.control_plane_security_group_id).await.unwrap();
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>
#[tokio::test]
async fn a_client_token_of_a_nat_gateway_belongs_to_one_call() {
    let (_account, user, network, _) = network().await;
    let [one, other] = [0, 1].map(|zone: usize| network.zones[zone].private_subnet_id.as_str());
    let create = |subnet: &str| {
        let create = user.ec2().create_nat_gateway().connectivity_type("private".into());
        create.subnet_id(subnet).client_token("token").send()
    };
    let first = create(one).await.unwrap().nat_gateway.unwrap();
    let again = create(one).await.unwrap().nat_gateway.unwrap();
    assert_eq!(first.nat_gateway_id, again.nat_gateway_id);
    assert_eq!(code(create(other).await).as_deref(), Some("IdempotentParameterMismatch"));
}

/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateListener.html>,
/// `API_CreateTargetGroup`, `API_CreateLoadBalancer`.
#[tokio::test]
async fn parts_of_load_balancers_are_made_once() {
    let (account, _, network, _) = network().await;
    let elb = elbv2_client(account.url(), account.user_key(), REGION);
    let group = |port| {
        let create = elb.create_target_group().name("api").protocol(ProtocolEnum::Tcp).port(port);
        create.vpc_id(&network.vpc_id).send()
    };
    let arn = group(6443).await.unwrap().target_groups()[0].target_group_arn.clone();
    assert_eq!(group(6443).await.unwrap().target_groups()[0].target_group_arn, arn);
    assert_eq!(code(group(22623).await).as_deref(), Some("DuplicateTargetGroupName"));

    let balancer = |kind| {
        let create = elb.create_load_balancer().name("api").r#type(kind);
        create.set_subnets(Some(network.private_subnet_ids().into_iter().map(str::to_owned).collect())).send()
    };
    let balancer_arn = balancer(LoadBalancerTypeEnum::Network).await.unwrap().load_balancers()[0].clone();
    let balancer_arn = balancer_arn.load_balancer_arn.unwrap();
    let other = balancer(LoadBalancerTypeEnum::Application).await;
    assert_eq!(code(other).as_deref(), Some("DuplicateLoadBalancerName"));

    let listener = |protocol| {
        let forward = Action::builder().r#type(ActionTypeEnum::Forward).set_target_group_arn(arn.clone()).build();
        let create = elb.create_listener().load_balancer_arn(&balancer_arn).protocol(protocol).port(6443);
        create.default_actions(forward).send()
    };
    let first = listener(ProtocolEnum::Tcp).await.unwrap().listeners()[0].listener_arn.clone();
    assert_eq!(listener(ProtocolEnum::Tcp).await.unwrap().listeners()[0].listener_arn, first);
    assert_eq!(code(listener(ProtocolEnum::Tls).await).as_deref(), Some("DuplicateListener"));
}
