//! Elastic IPs of machines.

use capa_cloud::{CloudError, ElasticIpAnswer, ElasticIpCall, ErrorClass, MachineCloud, MachineClouds, Query};

use super::fake::{Answer, CLUSTER, Call, Fake, REGION, answer, at_its_turn, identity, machine};

const POOL: &str = "ipv4pool-ec2-1";

fn allocate() -> ElasticIpCall {
    ElasticIpCall::Allocate {
        pool: Some(POOL.to_owned()),
        tags: [("MachineName".to_owned(), "team-a/m".to_owned())].into(),
    }
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    let body = match call.action.as_str() {
        "AllocateAddress" => "<allocationId>eipalloc-1</allocationId><publicIp>203.0.113.1</publicIp>",
        "DescribePublicIpv4Pools" => {
            "<publicIpv4PoolSet><item><poolId>ipv4pool-ec2-1</poolId>\
             <totalAvailableAddressCount>3</totalAvailableAddressCount></item></publicIpv4PoolSet>"
        }
        _ => "",
    };
    answer(&call.action, body, None)
}

/// Makes each call about Elastic IPs.
pub(super) async fn allocate_and_release(machines: &dyn MachineCloud) {
    machines.elastic_ips(&Query::default()).await.unwrap();
    assert_eq!(machines.free_addresses(POOL).await.unwrap(), 3);
    let allocation_id = || "eipalloc-1".to_owned();
    let allocated = ElasticIpAnswer::Allocated { allocation_id: allocation_id(), public_ip: "203.0.113.1".to_owned() };
    let calls = [
        (allocate(), allocated),
        (
            ElasticIpCall::Associate { allocation_id: allocation_id(), interface_id: "eni-1".to_owned() },
            ElasticIpAnswer::Done,
        ),
        (ElasticIpCall::Release { allocation_id: allocation_id() }, ElasticIpAnswer::Done),
    ];
    for (call, expected) in calls {
        assert_eq!(change(machines, &call).await.unwrap(), expected, "{call:?}");
    }
}

async fn change(machines: &dyn MachineCloud, call: &ElasticIpCall) -> Result<ElasticIpAnswer, CloudError> {
    let key = machine("one");
    at_its_turn(async || machines.change_elastic_ip(&key, call).await).await
}

#[tokio::test]
async fn an_address_is_requested_from_its_pool_with_tags() {
    let fake = Fake::start(serve).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    allocate_and_release(machines.as_ref()).await;
    for (action, field, value) in [
        ("DescribePublicIpv4Pools", "PoolId.1", POOL),
        ("AllocateAddress", "Domain", "vpc"),
        ("AllocateAddress", "PublicIpv4Pool", POOL),
        ("AllocateAddress", "TagSpecification.1.ResourceType", "elastic-ip"),
        ("AllocateAddress", "TagSpecification.1.Tag.1.Key", "MachineName"),
        ("AssociateAddress", "AllocationId", "eipalloc-1"),
        ("AssociateAddress", "NetworkInterfaceId", "eni-1"),
        ("AssociateAddress", "AllowReassociation", "false"),
        ("ReleaseAddress", "AllocationId", "eipalloc-1"),
    ] {
        assert_eq!(fake.calls_of(action).remove(0).field(field), value, "{action} {field}");
    }
}

#[tokio::test]
async fn an_address_is_shown_with_its_association() {
    let fake = Fake::start(|call| {
        let used = "<item><publicIp>203.0.113.1</publicIp><allocationId>eipalloc-1</allocationId>\
                    <associationId>eipassoc-1</associationId><instanceId>i-1</instanceId>\
                    <tagSet><item><key>team</key><value>a</value></item></tagSet></item>";
        let free = "<item><publicIp>203.0.113.2</publicIp><allocationId>eipalloc-2</allocationId><instanceId/></item>";
        answer(&call.action, &format!("<addressesSet>{used}{free}</addressesSet>"), None)
    })
    .await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let shown = machines.elastic_ips(&Query::default()).await.unwrap();
    assert_eq!((shown[0].allocation_id.as_str(), shown[0].public_ip.as_str()), ("eipalloc-1", "203.0.113.1"));
    assert_eq!(shown[0].association_id.as_deref(), Some("eipassoc-1"));
    assert_eq!(shown[0].instance_id.as_deref(), Some("i-1"));
    assert_eq!(shown[0].tags.get("team").map(String::as_str), Some("a"));
    assert_eq!((&shown[1].association_id, &shown[1].instance_id), (&None, &None));
}

#[tokio::test]
async fn an_allocation_without_an_answer_is_not_repeated_by_itself() {
    let fake = Fake::start(|_| (503, String::new())).await;
    let machines = fake.pool().await.machines(&identity("A"), REGION, CLUSTER);
    let lost = change(machines.as_ref(), &allocate()).await;
    assert_eq!(lost.unwrap_err().class, ErrorClass::NoAnswer);
    assert_eq!(fake.calls_of("AllocateAddress").len(), 1);
}
