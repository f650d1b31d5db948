//! NAT gateways of managed clusters, and their Elastic IPs.

use capa_cloud::ec2::{NatGateway, NatGatewayState, nat_gateway};
use capa_cloud::managed::{self, ManagedClouds, Scope};
use capa_cloud::{ElasticIp, ErrorClass};

use super::super::fake::{Answer, Call, Fake, REGION, answer, ec2_error, identity};
use super::{OWNED, assert_pages_of_vpc, assert_sent, filters, observe_as, scope, tag_set, tags};

/// A call of each kind.
pub(super) fn calls() -> [managed::Call<String>; 4] {
    let create = nat_gateway::Call::CreateNatGateway {
        subnet: "subnet-1".to_owned(),
        address: "eipalloc-1".to_owned(),
        client_token: "token-1".to_owned(),
        tags: tags(),
    };
    let allocate =
        nat_gateway::Call::AllocateAddress { public_ipv4_pool: Some("ipv4pool-ec2-1".to_owned()), tags: tags() };
    let address = "eipalloc-1".to_owned();
    let gateway = "nat-1".to_owned();
    [
        allocate.into(),
        create.into(),
        nat_gateway::Call::DeleteNatGateway { gateway }.into(),
        nat_gateway::Call::ReleaseAddress { address }.into(),
    ]
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    let body = match call.action.as_str() {
        "AllocateAddress" => "<allocationId>eipalloc-1</allocationId><publicIp>203.0.113.1</publicIp>",
        "CreateNatGateway" => "<natGateway><natGatewayId>nat-1</natGatewayId><state>pending</state></natGateway>",
        _ => "",
    };
    answer(&call.action, body, None)
}

#[tokio::test]
async fn every_field_of_a_call_about_a_nat_gateway_is_sent() {
    assert_sent(
        &calls(),
        &[
            (
                "AllocateAddress",
                &[
                    ("Domain", "vpc"),
                    ("PublicIpv4Pool", "ipv4pool-ec2-1"),
                    ("TagSpecification.1.ResourceType", "elastic-ip"),
                ],
            ),
            (
                "CreateNatGateway",
                &[
                    ("SubnetId", "subnet-1"),
                    ("AllocationId", "eipalloc-1"),
                    ("ClientToken", "token-1"),
                    ("TagSpecification.1.ResourceType", "natgateway"),
                ],
            ),
            ("DeleteNatGateway", &[("NatGatewayId", "nat-1")]),
            ("ReleaseAddress", &[("AllocationId", "eipalloc-1")]),
        ],
    )
    .await;
}

fn gateway_xml(id: &str, vpc: &str, state: &str, rest: &str) -> String {
    format!(
        "<item><natGatewayId>{id}</natGatewayId><vpcId>{vpc}</vpcId><subnetId>subnet-1</subnetId>\
         <state>{state}</state>{rest}</item>"
    )
}

fn gateway(id: &str, state: NatGatewayState) -> NatGateway {
    NatGateway {
        id: id.to_owned(),
        vpc_id: "vpc-1".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        state,
        failure: None,
        created_at: None,
        allocation_ids: Vec::new(),
        public_ips: Vec::new(),
        tags: [].into(),
    }
}

/// The NAT gateways of a VPC on two pages, with a NAT gateway of another VPC.
fn gateways(call: &Call) -> Answer {
    let used = "<createTime>2026-01-02T03:04:05.000Z</createTime><natGatewayAddressSet>\
                <item><allocationId>eipalloc-1</allocationId><publicIp>203.0.113.1</publicIp></item>\
                <item><privateIp>10.0.0.9</privateIp></item>\
                <item><allocationId>eipalloc-2</allocationId></item></natGatewayAddressSet>";
    let used = format!("{used}{}", tag_set(OWNED, "owned"));
    let (code, message) =
        ("<failureCode>Gateway.NotAttached</failureCode>", "<failureMessage>no gateway</failureMessage>");
    let (items, next) = match (call.action.as_str(), call.field("NextToken")) {
        ("DescribeNatGateways", "") => {
            let items = gateway_xml("nat-1", "vpc-1", "available", &used)
                + &gateway_xml("nat-2", "vpc-1", "pending", "")
                + &gateway_xml("nat-foreign", "vpc-2", "available", &used)
                + &gateway_xml("nat-3", "vpc-1", "failed", &format!("{code}{message}"));
            (items, Some("page-2"))
        }
        ("DescribeNatGateways", _) => {
            let items = gateway_xml("nat-4", "vpc-1", "failed", code)
                + &gateway_xml("nat-5", "vpc-1", "failed", message)
                + &gateway_xml("nat-6", "vpc-1", "deleting", "<failureCode/><failureMessage/>")
                + &gateway_xml("nat-7", "vpc-1", "deleted", "")
                + &gateway_xml("nat-8", "vpc-1", "resting", "");
            (items, None)
        }
        _ => return answer(&call.action, "", None),
    };
    answer(&call.action, &format!("<natGatewaySet>{items}</natGatewaySet>"), next)
}

#[tokio::test]
async fn all_nat_gateways_of_a_vpc_are_shown_in_every_state() {
    let (fake, seen) = observe_as(&scope(Some("vpc-1")), gateways).await;
    let used = NatGateway {
        created_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        allocation_ids: ["eipalloc-1", "eipalloc-2"].map(str::to_owned).into(),
        public_ips: vec!["203.0.113.1".to_owned()],
        tags: tags(),
        ..gateway("nat-1", NatGatewayState::Available)
    };
    let failed = |id: &str, failure: &str| NatGateway {
        failure: Some(failure.to_owned()),
        ..gateway(id, NatGatewayState::Failed)
    };
    let expected = vec![
        used,
        gateway("nat-2", NatGatewayState::Pending),
        failed("nat-3", "Gateway.NotAttached: no gateway"),
        failed("nat-4", "Gateway.NotAttached"),
        failed("nat-5", "no gateway"),
        gateway("nat-6", NatGatewayState::Deleting),
        gateway("nat-7", NatGatewayState::Deleted),
        gateway("nat-8", NatGatewayState::Pending),
    ];
    assert_eq!(seen.nat_gateways.shown(), Some(&expected));
    assert_pages_of_vpc(&fake, "DescribeNatGateways", "1000");
}

fn address_xml(id: &str, rest: &str) -> String {
    format!("<item><allocationId>{id}</allocationId><publicIp>203.0.113.1</publicIp>{rest}</item>")
}

/// Addresses of the cluster, and addresses with known ids whose tags AWS does not show yet. Both answers also contain
/// addresses of others.
fn addresses(call: &Call) -> Answer {
    let items = match (call.action.as_str(), call.field("Filter.1.Name")) {
        ("DescribeAddresses", "allocation-id") => address_xml("eipalloc-foreign", "") + &address_xml("eipalloc-1", ""),
        ("DescribeAddresses", _) => {
            let used = "<associationId>eipassoc-1</associationId>";
            address_xml("eipalloc-3", &tag_set(OWNED, "owned"))
                + &address_xml("eipalloc-2", &format!("{used}{}", tag_set(OWNED, "owned")))
                + &address_xml("eipalloc-shared", &tag_set(OWNED, "shared"))
                + &address_xml("eipalloc-untagged", "")
        }
        _ => String::new(),
    };
    answer(&call.action, &format!("<addressesSet>{items}</addressesSet>"), None)
}

fn address(id: &str) -> ElasticIp {
    ElasticIp {
        allocation_id: id.to_owned(),
        public_ip: "203.0.113.1".to_owned(),
        association_id: None,
        instance_id: None,
        tags: tags(),
    }
}

#[tokio::test]
async fn an_observation_shows_the_free_addresses_of_the_pool_of_the_cluster() {
    let of_pool = Scope { public_ipv4_pool: Some("ipv4pool-ec2-1".to_owned()), ..scope(Some("vpc-1")) };
    let (fake, seen) = observe_as(&of_pool, super::super::elastic_ip::serve).await;
    assert_eq!(seen.free_addresses.shown(), Some(&3));
    assert_eq!(fake.calls_of("DescribePublicIpv4Pools").remove(0).field("PoolId.1"), "ipv4pool-ec2-1");
}

fn naming(ids: &[&str]) -> Scope {
    Scope { addresses: ids.iter().map(|id| (*id).to_owned()).collect(), ..scope(None) }
}

#[tokio::test]
async fn owned_addresses_are_shown_without_a_vpc() {
    let (fake, seen) = observe_as(&naming(&["eipalloc-2"]), addresses).await;
    let used = ElasticIp { association_id: Some("eipassoc-1".to_owned()), ..address("eipalloc-2") };
    assert_eq!(seen.addresses.shown(), Some(&vec![used, address("eipalloc-3")]));
    let by_tag = (format!("tag:{OWNED}"), "owned".to_owned());
    assert_eq!(filters(&fake, "DescribeAddresses"), [by_tag]);
}

#[tokio::test]
async fn known_addresses_are_asked_for_where_tags_show_none() {
    let (fake, seen) = observe_as(&naming(&["eipalloc-1", "eipalloc-3", "eipalloc-gone"]), addresses).await;
    let shown = seen.addresses.shown().unwrap();
    let ids: Vec<&str> = shown.iter().map(|address| address.allocation_id.as_str()).collect();
    assert_eq!(ids, ["eipalloc-1", "eipalloc-2", "eipalloc-3"]);
    let calls = fake.calls_of("DescribeAddresses");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[1].field("Filter.1.Name"), "allocation-id");
    assert_eq!(calls[1].filter_values(), ["eipalloc-1", "eipalloc-gone"]);
    assert!(calls.iter().all(|call| call.field("AllocationId.1").is_empty()));
}

#[tokio::test]
async fn a_refused_describe_in_a_vpc_leaves_the_others() {
    for action in ["DescribeNatGateways", "DescribeAddresses", "DescribeRouteTables"] {
        let refusing = move |call: &Call| match call.action.as_str() {
            refused if refused == action => ec2_error(403, "UnauthorizedOperation", "no"),
            other => answer(other, "", None),
        };
        let fake = Fake::start(refusing).await;
        let cloud = fake.pool().await.managed(&identity("A"), REGION);
        let seen = cloud.observe(&scope(Some("vpc-1"))).await.unwrap().ec2;
        let answers = [
            ("DescribeNatGateways", seen.nat_gateways.answer()),
            ("DescribeAddresses", seen.addresses.answer()),
            ("DescribeRouteTables", seen.route_tables.answer()),
            ("DescribeSubnets", seen.subnets.answer()),
        ];
        for (of, answer) in answers {
            let refused = answer.err().flatten().map(|error| error.class);
            let expected = (of == action).then_some(ErrorClass::Unauthorized);
            assert_eq!(refused, expected, "{of} where {action} is refused");
        }
    }
}

#[tokio::test]
async fn addresses_are_failed_where_the_second_describe_is() {
    let refusing = |call: &Call| match call.field("Filter.1.Name") {
        "allocation-id" => ec2_error(403, "UnauthorizedOperation", "no"),
        _ => addresses(call),
    };
    let (_fake, seen) = observe_as(&naming(&["eipalloc-1"]), refusing).await;
    assert!(seen.addresses.answer().is_err_and(|error| error.is_some()));
    assert!(seen.internet_gateways.shown().is_some());
}
