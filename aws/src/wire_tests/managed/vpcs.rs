//! Lookups of the VPC of a managed cluster, its subnets and its internet gateways.

use capa_api::common::{HostnameType, Tags};
use capa_cloud::ec2::{InternetGateway, Observed, Subnet, Vpc, VpcDns};
use capa_cloud::managed::Seen;
use capa_cloud::{Availability, ErrorClass};

use super::super::fake::{Answer, Call, Fake, answer, ec2_error};
use super::{OWNED, filters, observe_as, scope, tag_set, tags};

/// Observes what there is in this VPC, or in the one with the tag of the cluster.
async fn observe(vpc: Option<&str>, serve: fn(&Call) -> Answer) -> (Fake, Observed) {
    observe_as(&scope(vpc), serve).await
}

/// A VPC with resources, and resources that the filters should have excluded.
fn network(call: &Call) -> Answer {
    let owned = tag_set(OWNED, "owned");
    let block = |range: &str, state: &str| {
        format!("<item><cidrBlock>{range}</cidrBlock><cidrBlockState><state>{state}</state></cidrBlockState></item>")
    };
    let gateway = |id: &str, attachment: &str, tags: &str| {
        let attachments = format!("<attachmentSet>{attachment}</attachmentSet>");
        format!("<item><internetGatewayId>{id}</internetGatewayId>{attachments}{tags}</item>")
    };
    let attached = |vpc: &str, state: &str| format!("<item><vpcId>{vpc}</vpcId><state>{state}</state></item>");
    let body = match call.action.as_str() {
        "DescribeVpcs" => {
            let blocks = block("10.1.0.0/16", "associated")
                + &block("10.2.0.0/16", "disassociated")
                + &block("10.3.0.0/16", "associating")
                + &block("10.0.0.0/16", "associated");
            let vpc = format!(
                "<item><vpcId>vpc-1</vpcId><state>available</state><cidrBlock>10.0.0.0/16</cidrBlock>\
                 <cidrBlockAssociationSet>{blocks}</cidrBlockAssociationSet>{owned}</item>"
            );
            let shared = tag_set(OWNED, "shared");
            let longer = tag_set(&format!("{OWNED}-2"), "owned");
            let foreign = [("vpc-2", shared), ("vpc-3", longer)];
            let foreign = foreign.map(|(id, tags)| format!("<item><vpcId>{id}</vpcId>{tags}</item>"));
            format!("<vpcSet>{vpc}{}</vpcSet>", foreign.concat())
        }
        "DescribeVpcAttribute" if call.field("Attribute") == "enableDnsSupport" => {
            "<enableDnsSupport><value>true</value></enableDnsSupport>".to_owned()
        }
        "DescribeVpcAttribute" => "<enableDnsHostnames><value>false</value></enableDnsHostnames>".to_owned(),
        "DescribeSubnets" => {
            let names = "<privateDnsNameOptionsOnLaunch><hostnameType>resource-name</hostnameType>\
                         </privateDnsNameOptionsOnLaunch>";
            let subnet = |id: &str, vpc: &str, state: &str, rest: &str| {
                format!(
                    "<item><subnetId>{id}</subnetId><vpcId>{vpc}</vpcId><state>{state}</state>\
                     <cidrBlock>10.0.0.0/24</cidrBlock><availabilityZone>us-test-1a</availabilityZone>{rest}</item>"
                )
            };
            let public = format!("<mapPublicIpOnLaunch>true</mapPublicIpOnLaunch>{names}{owned}");
            let subnets = subnet("subnet-1", "vpc-1", "available", &public)
                + &subnet("subnet-2", "vpc-1", "pending", "")
                + &subnet("subnet-3", "vpc-2", "available", &owned);
            format!("<subnetSet>{subnets}</subnetSet>")
        }
        "DescribeInternetGateways" => {
            let gateways = gateway("igw-3", &attached("vpc-2", "available"), "")
                + &gateway("igw-2", &attached("vpc-1", "available"), "")
                + &gateway("igw-1", &attached("vpc-1", "detached"), &owned);
            format!("<internetGatewaySet>{gateways}</internetGatewaySet>")
        }
        _ => String::new(),
    };
    answer(&call.action, &body, None)
}

fn expected() -> Observed {
    let subnet = Subnet {
        id: "subnet-1".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        state: Availability::Available,
        cidr_block: "10.0.0.0/24".to_owned(),
        zone: "us-test-1a".to_owned(),
        assigns_public_ip: true,
        hostname_type: Some(HostnameType::ResourceName),
        tags: tags(),
        ..Subnet::default()
    };
    let pending = Subnet {
        id: "subnet-2".to_owned(),
        state: Availability::Pending,
        assigns_public_ip: false,
        hostname_type: None,
        tags: Tags::new(),
        ..subnet.clone()
    };
    let gateway = |id: &str, vpc: Option<&str>, tags: Tags| InternetGateway {
        id: id.to_owned(),
        vpc_id: vpc.map(str::to_owned),
        tags,
    };
    Observed {
        vpcs: Seen::Shown(vec![Vpc {
            id: "vpc-1".to_owned(),
            state: Availability::Available,
            cidr_blocks: ["10.0.0.0/16", "10.1.0.0/16"].map(str::to_owned).into(),
            associating_cidr_blocks: vec!["10.3.0.0/16".to_owned()],
            tags: tags(),
            ..Vpc::default()
        }]),
        dns: Seen::Shown(VpcDns { support: true, hostnames: false }),
        subnets: Seen::Shown(vec![subnet, pending]),
        internet_gateways: Seen::Shown(vec![
            gateway("igw-1", None, tags()),
            gateway("igw-2", Some("vpc-1"), Tags::new()),
        ]),
        nat_gateways: Seen::Shown(Vec::new()),
        addresses: Seen::Shown(Vec::new()),
        free_addresses: Seen::NotAsked,
        route_tables: Seen::Shown(Vec::new()),
        security_groups: Seen::Shown(Vec::new()),
        network_interfaces: Seen::NotAsked,
    }
}

#[tokio::test]
async fn an_observation_at_a_known_vpc_shows_what_is_in_it_alone() {
    let (fake, seen) = observe(Some("vpc-1"), network).await;
    assert_eq!(seen, expected());
    let by_vpc = |name: &str| (name.to_owned(), "vpc-1".to_owned());
    let by_tag = || (format!("tag:{OWNED}"), "owned".to_owned());
    assert_eq!(filters(&fake, "DescribeVpcs"), [by_vpc("vpc-id")]);
    assert_eq!(filters(&fake, "DescribeSubnets"), [by_vpc("vpc-id")]);
    assert_eq!(filters(&fake, "DescribeInternetGateways"), [by_vpc("attachment.vpc-id"), by_tag()]);
    let attributes = fake.calls_of("DescribeVpcAttribute");
    assert!(attributes.len() == 2 && attributes.iter().all(|call| call.field("VpcId") == "vpc-1"));
    for action in ["DescribeVpcs", "DescribeSubnets", "DescribeInternetGateways"] {
        let mut calls = fake.calls_of(action).into_iter();
        assert!(calls.all(|call| call.field("MaxResults") == "1000"), "{action}");
    }
}

#[tokio::test]
async fn a_vpc_is_found_by_its_tag_and_then_observed() {
    let (fake, seen) = observe(None, network).await;
    assert_eq!(seen, expected());
    assert_eq!(filters(&fake, "DescribeVpcs"), [(format!("tag:{OWNED}"), "owned".to_owned())]);
    assert_eq!(fake.calls()[0].action, "DescribeVpcs");
    assert_eq!(fake.calls().len(), 10);
}

/// Asserts that nothing in a VPC is read if AWS shows this number of VPCs.
async fn assert_asks_for_nothing_in(count: usize, serve: fn(&Call) -> Answer) {
    let (fake, seen) = observe(None, serve).await;
    assert_eq!(seen.vpcs.shown().map(Vec::len), Some(count));
    let nothing = Observed {
        vpcs: seen.vpcs.clone(),
        internet_gateways: Seen::Shown(Vec::new()),
        addresses: Seen::Shown(Vec::new()),
        ..Observed::default()
    };
    assert_eq!(seen, nothing);
    assert_eq!(fake.calls().len(), 3);
}

#[tokio::test]
async fn nothing_in_a_vpc_is_asked_for_without_the_only_vpc() {
    assert_asks_for_nothing_in(0, |call| answer(&call.action, "", None)).await;
    assert_asks_for_nothing_in(2, |call| match call.action.as_str() {
        "DescribeVpcs" => {
            let tag = tag_set(OWNED, "owned");
            let vpcs = ["vpc-1", "vpc-2"].map(|id| format!("<item><vpcId>{id}</vpcId>{tag}</item>"));
            answer(&call.action, &format!("<vpcSet>{}</vpcSet>", vpcs.concat()), None)
        }
        action => answer(action, "", None),
    })
    .await;
}

#[tokio::test]
async fn a_vpc_that_is_gone_has_no_attributes() {
    let gone = |call: &Call| match call.action.as_str() {
        "DescribeVpcAttribute" => ec2_error(400, "InvalidVpcID.NotFound", "gone"),
        action => answer(action, "", None),
    };
    let (_fake, seen) = observe(Some("vpc-1"), gone).await;
    assert_eq!((seen.vpcs, seen.dns), (Seen::Shown(Vec::new()), Seen::NotAsked));
    let unseen = |call: &Call| match call.action.as_str() {
        "DescribeVpcAttribute" => ec2_error(400, "InvalidVpcID.NotFound", "not seen here yet"),
        _ => network(call),
    };
    let (_fake, seen) = observe(Some("vpc-1"), unseen).await;
    assert_eq!(seen.dns.answer().err().flatten().map(|error| error.class), Some(ErrorClass::NotFound));
}

#[tokio::test]
async fn a_refused_describe_leaves_the_others() {
    let refusing = |call: &Call| match call.field("Filter.1.Name") {
        "attachment.vpc-id" => ec2_error(403, "UnauthorizedOperation", "no"),
        _ => network(call),
    };
    let (_fake, seen) = observe(Some("vpc-1"), refusing).await;
    let refused = seen.internet_gateways.answer().err().flatten().map(|error| error.class);
    assert_eq!(refused, Some(ErrorClass::Unauthorized));
    let others = Observed { internet_gateways: seen.internet_gateways.clone(), ..expected() };
    assert_eq!(seen, others);
}
