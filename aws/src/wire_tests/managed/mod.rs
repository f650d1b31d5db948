//! Managed clusters: looks at their resources, and the calls that change them.

mod classic_load_balancers;
pub(super) mod load_balancers;
mod nat_gateways;
mod route_tables;
mod security_groups;
mod tags;

use capa_api::common::{HostnameType, Tags};
use capa_cloud::ec2::{InternetGateway, Observed, Subnet, Vpc, VpcDns, internet_gateway, subnet, vpc};
use capa_cloud::managed::{
    Answer as Outcome, Call as ManagedCall, Effect, ManagedCloud, ManagedClouds, Repeat, Scope, Seen,
};
use capa_cloud::{CloudError, ErrorClass, elb as balancing};

use super::fake::{Answer, Call, Fake, REGION, answer, at_its_turn, ec2_error, identity};
use super::targets::elb;

pub(super) const OWNED: &str = "sigs.k8s.io/cluster-api-provider-aws/cluster/dev";

pub(super) fn tags() -> Tags {
    [(OWNED.to_owned(), "owned".to_owned())].into()
}

/// A call of each kind, with each attribute that a call may set.
pub(super) fn all_calls() -> Vec<ManagedCall<String>> {
    let (vpc, gateway, subnet) = (|| "vpc-1".to_owned(), || "igw-1".to_owned(), || "subnet-1".to_owned());
    let of_vpc = [vpc::DnsAttribute::Support, vpc::DnsAttribute::Hostnames];
    let of_vpc = of_vpc.map(|attribute| vpc::Call::ModifyVpcAttribute { vpc: vpc(), attribute }.into());
    let of_subnet = [
        subnet::Attribute::MapPublicIpOnLaunch(true),
        subnet::Attribute::MapPublicIpOnLaunch(false),
        subnet::Attribute::HostnameType(HostnameType::ResourceName),
    ];
    let of_subnet = of_subnet.map(|attribute| {
        let subnet = subnet();
        subnet::Call::ModifySubnetAttribute { subnet, attribute }.into()
    });
    let create_subnet = subnet::Call::CreateSubnet {
        vpc: vpc(),
        cidr_block: "10.0.0.0/24".to_owned(),
        zone: "us-test-1a".to_owned(),
        tags: tags(),
    };
    let create_vpc = vpc::Call::CreateVpc {
        cidr_block: "10.0.0.0/16".to_owned(),
        tags: tags(),
    };
    let add_range = vpc::Call::AssociateVpcCidrBlock {
        vpc: vpc(),
        cidr_block: "100.64.0.0/16".to_owned(),
    };
    let attach = internet_gateway::Call::AttachInternetGateway {
        gateway: gateway(),
        vpc: vpc(),
    };
    let detach = internet_gateway::Call::DetachInternetGateway {
        gateway: gateway(),
        vpc: vpc(),
    };
    let others: [ManagedCall<String>; 9] = [
        create_vpc.into(),
        add_range.into(),
        create_subnet.into(),
        internet_gateway::Call::CreateInternetGateway { tags: tags() }.into(),
        attach.into(),
        detach.into(),
        internet_gateway::Call::DeleteInternetGateway { gateway: gateway() }.into(),
        subnet::Call::DeleteSubnet { subnet: subnet() }.into(),
        vpc::Call::DeleteVpc { vpc: vpc() }.into(),
    ];
    let others = others.into_iter().chain(of_vpc).chain(of_subnet);
    others
        .chain(nat_gateways::calls())
        .chain(route_tables::calls())
        .chain(security_groups::calls())
        .chain(load_balancers::calls())
        .chain(classic_load_balancers::calls())
        .chain(tags::calls())
        .collect()
}

/// The answers to the calls, and to a look at their effect.
pub(super) fn serve(call: &Call) -> Answer {
    let tag = tag_set(OWNED, "owned");
    let body = match call.action.as_str() {
        _ if call.service() == "elasticloadbalancing" => return load_balancers::serve(call),
        "CreateVpc" => "<vpc><vpcId>vpc-1</vpcId><state>pending</state></vpc>".to_owned(),
        "CreateSubnet" => "<subnet><subnetId>subnet-1</subnetId></subnet>".to_owned(),
        "CreateInternetGateway" => {
            let id = "<internetGatewayId>igw-1</internetGatewayId>";
            format!("<internetGateway>{id}</internetGateway>")
        }
        "DescribeVpcs" => format!("<vpcSet><item><vpcId>vpc-1</vpcId><state>pending</state>{tag}</item></vpcSet>"),
        action if action.ends_with("Address") || action.ends_with("NatGateway") => return nat_gateways::serve(call),
        action if action.contains("SecurityGroup") => return security_groups::serve(call),
        _ => return route_tables::serve(call),
    };
    answer(&call.action, &body, None)
}

/// Makes each call of managed clusters.
pub(super) async fn look_and_change(cloud: &dyn ManagedCloud) {
    cloud.zones().await.unwrap();
    let scope = Scope {
        load_balancers: vec!["api".to_owned()],
        target_groups: vec![],
        classic_load_balancers: vec!["api".to_owned()],
        ..scope(None)
    };
    cloud.observe(&scope).await.unwrap();
    for call in all_calls() {
        let answer = make(cloud, &call).await.unwrap();
        assert_eq!(call.effect() == Effect::Create, answer != Outcome::Done, "{call:?}");
    }
}

async fn make(cloud: &dyn ManagedCloud, call: &ManagedCall<String>) -> Result<Outcome, CloudError> {
    at_its_turn(async || cloud.call(call).await).await
}

pub(super) fn scope(vpc: Option<&str>) -> Scope {
    Scope {
        cluster: "dev".to_owned(),
        vpc: vpc.map(str::to_owned),
        has_addresses: true,
        ..Scope::default()
    }
}

/// Runs a look at a cluster whose calls get these answers.
async fn look(vpc: Option<&str>, serve: fn(&Call) -> Answer) -> (Fake, Observed) {
    look_as(&scope(vpc), serve).await
}

/// Runs a look with any scope.
pub(super) async fn look_as(scope: &Scope, serve: fn(&Call) -> Answer) -> (Fake, Observed) {
    let fake = Fake::start(serve).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    let seen = cloud.observe(scope).await.unwrap();
    (fake, seen.ec2)
}

/// A set of one tag.
pub(super) fn tag_set(key: &str, value: &str) -> String {
    format!("<tagSet><item><key>{key}</key><value>{value}</value></item></tagSet>")
}

/// The names and values of the filters of the calls of an action, sorted.
pub(super) fn filters(fake: &Fake, action: &str) -> Vec<(String, String)> {
    let calls = fake.calls_of(action).into_iter();
    let field = |call: &Call, name: &str| call.field(name).to_owned();
    let mut filters: Vec<_> = calls
        .map(|call| (field(&call, "Filter.1.Name"), field(&call, "Filter.1.Value.1")))
        .collect();
    filters.sort_unstable();
    filters
}

/// The requests that these calls send.
pub(super) async fn sent_of(calls: &[ManagedCall<String>]) -> Vec<Call> {
    let fake = Fake::start(serve).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    for call in calls {
        make(cloud.as_ref(), call).await.unwrap();
    }
    fake.calls()
}

/// Asserts that each of these actions is called once with these fields, and creations with the tag of the cluster.
pub(super) async fn assert_sent(calls: &[ManagedCall<String>], expected: &[(&str, &[(&str, &str)])]) {
    let sent = sent_of(calls).await;
    for (action, fields) in expected {
        let calls: Vec<_> = sent.iter().filter(|call| call.action == *action).collect();
        assert_eq!(calls.len(), 1, "{action}");
        for (field, value) in *fields {
            assert_eq!(calls[0].field(field), *value, "{action} {field}");
        }
        if action.starts_with("Create") || action.starts_with("Allocate") {
            assert_eq!(calls[0].field("TagSpecification.1.Tag.1.Key"), OWNED, "{action}");
            assert_eq!(calls[0].field("TagSpecification.1.Tag.1.Value"), "owned", "{action}");
        }
    }
}

#[tokio::test]
async fn every_field_of_a_managed_call_is_sent() {
    assert_sent(
        &all_calls(),
        &[
            (
                "CreateVpc",
                &[("CidrBlock", "10.0.0.0/16"), ("TagSpecification.1.ResourceType", "vpc")],
            ),
            (
                "AssociateVpcCidrBlock",
                &[("VpcId", "vpc-1"), ("CidrBlock", "100.64.0.0/16")],
            ),
            ("CreateSubnet", &[("VpcId", "vpc-1"), ("CidrBlock", "10.0.0.0/24")]),
            ("CreateSubnet", &[("AvailabilityZone", "us-test-1a")]),
            ("CreateSubnet", &[("TagSpecification.1.ResourceType", "subnet")]),
            (
                "CreateInternetGateway",
                &[("TagSpecification.1.ResourceType", "internet-gateway")],
            ),
            (
                "AttachInternetGateway",
                &[("InternetGatewayId", "igw-1"), ("VpcId", "vpc-1")],
            ),
            (
                "DetachInternetGateway",
                &[("InternetGatewayId", "igw-1"), ("VpcId", "vpc-1")],
            ),
            ("DeleteInternetGateway", &[("InternetGatewayId", "igw-1")]),
            ("DeleteSubnet", &[("SubnetId", "subnet-1")]),
            ("DeleteVpc", &[("VpcId", "vpc-1")]),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_attribute_is_changed_by_a_call_of_its_own() {
    let all = sent_of(&all_calls()).await;
    let sent = |action: &str, resource: &str, id: &str| {
        let attributes = |call: &Call| {
            assert_eq!(call.field(resource), id, "{action}");
            let others = ["Action", "Version", resource];
            let left = call.form.iter().filter(|(name, _)| !others.contains(&name.as_str()));
            left.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let calls = all.iter().filter(|call| call.action == action);
        calls.map(attributes).collect::<Vec<_>>()
    };
    assert_eq!(
        sent("ModifyVpcAttribute", "VpcId", "vpc-1"),
        [["EnableDnsSupport.Value=true"], ["EnableDnsHostnames.Value=true"]]
    );
    assert_eq!(
        sent("ModifySubnetAttribute", "SubnetId", "subnet-1"),
        [
            ["MapPublicIpOnLaunch.Value=true"],
            ["MapPublicIpOnLaunch.Value=false"],
            ["PrivateDnsHostnameTypeOnLaunch=resource-name"],
        ]
    );
}

#[tokio::test]
async fn the_answer_to_a_creation_is_the_id() {
    let fake = Fake::start(serve).await;
    let cloud = fake.pool().await.managed(&identity("A"), REGION);
    let ids = [
        "vpc-1",
        "subnet-1",
        "igw-1",
        "eipalloc-1",
        "nat-1",
        "rtb-1",
        "sg-1",
        "arn:lb/1",
        "arn:tg/1",
        "dev-apiserver",
    ]
    .map(str::to_owned);
    let calls = all_calls().into_iter();
    let creations: Vec<_> = calls.filter(|call| call.effect() == Effect::Create).collect();
    assert_eq!(creations.len(), ids.len());
    for (call, id) in creations.into_iter().zip(ids) {
        assert_eq!(make(cloud.as_ref(), &call).await, Ok(Outcome::Made(id)), "{call:?}");
    }
    let without_id = Fake::start(|call| match call.service() {
        "elasticloadbalancing" => elb(&call.action, ""),
        _ => answer(&call.action, "", None),
    })
    .await;
    let cloud = without_id.pool().await.managed(&identity("A"), REGION);
    // The id of a Classic Load Balancer is its name in the call.
    let is_named =
        |call: &ManagedCall<String>| matches!(call, ManagedCall::Elb(balancing::Call::ClassicLoadBalancer(_)));
    let creations = |call: &&ManagedCall<String>| call.effect() == Effect::Create && !is_named(call);
    for call in all_calls().iter().filter(creations) {
        let error = make(cloud.as_ref(), call).await.unwrap_err();
        assert_eq!((error.class, error.operation), (ErrorClass::NoAnswer, call.action()));
    }
}

#[tokio::test]
async fn a_call_that_would_double_is_not_repeated_by_itself() {
    let calls = all_calls().into_iter();
    for call in calls.filter(|call| call.effect() == Effect::Create) {
        let fake = Fake::start(|_| (503, String::new())).await;
        let cloud = fake.pool().await.managed(&identity("A"), REGION);
        let lost = make(cloud.as_ref(), &call).await.unwrap_err();
        assert_eq!(lost.class, ErrorClass::NoAnswer);
        let sent = fake.calls_of(call.action());
        assert_eq!(sent.len() == 1, call.repeat() == Repeat::Doubles, "{}", call.action());
        if let Repeat::Token(token) = call.repeat() {
            assert!(
                sent.iter().all(|sent| sent.field("ClientToken") == token),
                "{}",
                call.action()
            );
        }
    }
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
        is_available: true,
        cidr_block: "10.0.0.0/24".to_owned(),
        zone: "us-test-1a".to_owned(),
        maps_public_ips: true,
        hostname_type: Some(HostnameType::ResourceName),
        tags: tags(),
    };
    let pending = Subnet {
        id: "subnet-2".to_owned(),
        is_available: false,
        maps_public_ips: false,
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
        vpcs: Seen::Got(vec![Vpc {
            id: "vpc-1".to_owned(),
            is_available: true,
            cidr_blocks: ["10.0.0.0/16", "10.1.0.0/16"].map(str::to_owned).into(),
            associating_cidr_blocks: vec!["10.3.0.0/16".to_owned()],
            tags: tags(),
        }]),
        dns: Seen::Got(VpcDns {
            support: true,
            hostnames: false,
        }),
        subnets: Seen::Got(vec![subnet, pending]),
        internet_gateways: Seen::Got(vec![
            gateway("igw-1", None, tags()),
            gateway("igw-2", Some("vpc-1"), Tags::new()),
        ]),
        nat_gateways: Seen::Got(Vec::new()),
        addresses: Seen::Got(Vec::new()),
        free_addresses: Seen::NotAsked,
        route_tables: Seen::Got(Vec::new()),
        security_groups: Seen::Got(Vec::new()),
    }
}

#[tokio::test]
async fn a_look_at_a_known_vpc_shows_what_is_in_it_alone() {
    let (fake, seen) = look(Some("vpc-1"), network).await;
    assert_eq!(seen, expected());
    let by_vpc = |name: &str| (name.to_owned(), "vpc-1".to_owned());
    let by_tag = || (format!("tag:{OWNED}"), "owned".to_owned());
    assert_eq!(filters(&fake, "DescribeVpcs"), [by_vpc("vpc-id")]);
    assert_eq!(filters(&fake, "DescribeSubnets"), [by_vpc("vpc-id")]);
    assert_eq!(
        filters(&fake, "DescribeInternetGateways"),
        [by_vpc("attachment.vpc-id"), by_tag()]
    );
    let attributes = fake.calls_of("DescribeVpcAttribute");
    assert!(attributes.len() == 2 && attributes.iter().all(|call| call.field("VpcId") == "vpc-1"));
    for action in ["DescribeVpcs", "DescribeSubnets", "DescribeInternetGateways"] {
        let mut calls = fake.calls_of(action).into_iter();
        assert!(calls.all(|call| call.field("MaxResults") == "1000"), "{action}");
    }
}

#[tokio::test]
async fn a_vpc_is_found_by_its_tag_and_then_looked_into() {
    let (fake, seen) = look(None, network).await;
    assert_eq!(seen, expected());
    assert_eq!(
        filters(&fake, "DescribeVpcs"),
        [(format!("tag:{OWNED}"), "owned".to_owned())]
    );
    assert_eq!(fake.calls()[0].action, "DescribeVpcs");
    assert_eq!(fake.calls().len(), 10);
}

/// Asserts that nothing in a VPC is read if AWS shows this number of VPCs.
async fn assert_asks_for_nothing_in(count: usize, serve: fn(&Call) -> Answer) {
    let (fake, seen) = look(None, serve).await;
    assert_eq!(seen.vpcs.got().map(Vec::len), Some(count));
    let nothing = Observed {
        vpcs: seen.vpcs.clone(),
        internet_gateways: Seen::Got(Vec::new()),
        addresses: Seen::Got(Vec::new()),
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
    let (_fake, seen) = look(Some("vpc-1"), gone).await;
    assert_eq!((seen.vpcs, seen.dns), (Seen::Got(Vec::new()), Seen::NotAsked));
    let unseen = |call: &Call| match call.action.as_str() {
        "DescribeVpcAttribute" => ec2_error(400, "InvalidVpcID.NotFound", "not seen here yet"),
        _ => network(call),
    };
    let (_fake, seen) = look(Some("vpc-1"), unseen).await;
    assert_eq!(
        seen.dns.answer().err().flatten().map(|error| error.class),
        Some(ErrorClass::NotFound)
    );
}

#[tokio::test]
async fn a_refused_describe_leaves_the_others() {
    let refusing = |call: &Call| match call.field("Filter.1.Name") {
        "attachment.vpc-id" => ec2_error(403, "UnauthorizedOperation", "no"),
        _ => network(call),
    };
    let (_fake, seen) = look(Some("vpc-1"), refusing).await;
    let refused = seen.internet_gateways.answer().err().flatten().map(|error| error.class);
    assert_eq!(refused, Some(ErrorClass::Unauthorized));
    let others = Observed {
        internet_gateways: seen.internet_gateways.clone(),
        ..expected()
    };
    assert_eq!(seen, others);
}
