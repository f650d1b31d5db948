//! What uses the network of a deleted cluster: its network interfaces.

use capa_cloud::ec2::NetworkInterface;
use capa_cloud::managed::{Scope, Seen};

use super::super::fake::{Answer, Call, answer};
use super::{assert_pages_of_vpc, observe_as, scope};

/// The network interfaces of a VPC on two pages, with one of another VPC.
fn interfaces(call: &Call) -> Answer {
    let (items, next) = match (call.action.as_str(), call.field("NextToken")) {
        ("DescribeNetworkInterfaces", "") => {
            let balancer = "<item><networkInterfaceId>eni-1</networkInterfaceId><subnetId>subnet-1</subnetId>\
                            <vpcId>vpc-1</vpcId><availabilityZone>us-test-1a</availabilityZone>\
                            <description>ELB net/web/0123</description><ownerId>111122223333</ownerId>\
                            <requesterId>amazon-elb</requesterId>\
                            <groupSet><item><groupId>sg-1</groupId></item></groupSet>\
                            <association><publicIp>203.0.113.7</publicIp></association></item>";
            let foreign = "<item><networkInterfaceId>eni-2</networkInterfaceId><vpcId>vpc-2</vpcId></item>";
            (format!("{balancer}{foreign}"), Some("page-2"))
        }
        ("DescribeNetworkInterfaces", _) => {
            let attached = "<item><networkInterfaceId>eni-3</networkInterfaceId><vpcId>vpc-1</vpcId>\
                            <attachment><instanceId>i-1</instanceId></attachment></item>";
            (attached.to_owned(), None)
        }
        _ => return answer(&call.action, "", None),
    };
    answer(&call.action, &format!("<networkInterfaceSet>{items}</networkInterfaceSet>"), next)
}

#[tokio::test]
async fn network_interfaces_of_a_vpc_are_shown_to_who_asks() {
    let asks = Scope { network_interfaces: true, ..scope(Some("vpc-1")) };
    let (fake, seen) = observe_as(&asks, interfaces).await;
    let balancer = NetworkInterface {
        id: "eni-1".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        subnet_id: "subnet-1".to_owned(),
        availability_zone: "us-test-1a".to_owned(),
        security_group_ids: vec!["sg-1".to_owned()],
        instance_id: None,
        description: "ELB net/web/0123".to_owned(),
        owner_id: "111122223333".to_owned(),
        requester_id: Some("amazon-elb".to_owned()),
        public_ip: Some("203.0.113.7".to_owned()),
    };
    let attached = NetworkInterface {
        id: "eni-3".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        instance_id: Some("i-1".to_owned()),
        ..NetworkInterface::default()
    };
    assert_eq!(seen.network_interfaces.shown(), Some(&vec![balancer, attached]));
    assert_pages_of_vpc(&fake, "DescribeNetworkInterfaces", "1000");
    let (_, seen) = observe_as(&scope(Some("vpc-1")), interfaces).await;
    assert_eq!(seen.network_interfaces, Seen::NotAsked);
}
