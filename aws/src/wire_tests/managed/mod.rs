//! Managed clusters: lookups of their resources, and the calls that change them.

mod classic_load_balancers;
mod load_balancers;
mod nat_gateways;
mod network_interfaces;
pub(super) mod observed_load_balancers;
mod route_tables;
mod security_groups;
mod tags;
mod vpcs;

use capa_api::common::{HostnameType, Tags};
use capa_cloud::ec2::{Observed, internet_gateway, subnet, vpc};
use capa_cloud::managed::{Call as ManagedCall, ChangeAnswer, Effect, ManagedCloud, ManagedClouds, Repeat, Scope};
use capa_cloud::{CloudError, ErrorClass, elb as balancing};

use super::fake::{Answer, Call, Fake, REGION, answer, at_its_turn, identity};
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
    let create_vpc = vpc::Call::CreateVpc { cidr_block: "10.0.0.0/16".to_owned(), tags: tags() };
    let add_range = vpc::Call::AssociateVpcCidrBlock { vpc: vpc(), cidr_block: "100.64.0.0/16".to_owned() };
    let attach = internet_gateway::Call::AttachInternetGateway { gateway: gateway(), vpc: vpc() };
    let detach = internet_gateway::Call::DetachInternetGateway { gateway: gateway(), vpc: vpc() };
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

/// The answers to the calls, and to an observation of their effect.
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
pub(super) async fn observe_and_change(cloud: &dyn ManagedCloud) {
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
        assert_eq!(call.effect() == Effect::Create, answer != ChangeAnswer::Done, "{call:?}");
    }
}

async fn make(cloud: &dyn ManagedCloud, call: &ManagedCall<String>) -> Result<ChangeAnswer, CloudError> {
    at_its_turn(async || cloud.call(call).await).await
}

pub(super) fn scope(vpc: Option<&str>) -> Scope {
    Scope { cluster: "dev".to_owned(), vpc: vpc.map(str::to_owned), has_addresses: true, ..Scope::default() }
}

/// Observes the EC2 resources of a cluster, whose calls get these answers.
pub(super) async fn observe_as(scope: &Scope, serve: fn(&Call) -> Answer) -> (Fake, Observed) {
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
    let mut filters: Vec<_> =
        calls.map(|call| (field(&call, "Filter.1.Name"), field(&call, "Filter.1.Value.1"))).collect();
    filters.sort_unstable();
    filters
}

/// Asserts that an action is called for two pages of this size, which hold what is in the VPC `vpc-1`.
pub(super) fn assert_pages_of_vpc(fake: &Fake, action: &str, page_size: &str) {
    assert_eq!(
        filters(fake, action),
        [("vpc-id", "vpc-1"); 2].map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    for call in fake.calls_of(action) {
        assert_eq!((call.field("Filter.2.Name"), call.field("MaxResults")), ("", page_size));
    }
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
            ("CreateVpc", &[("CidrBlock", "10.0.0.0/16"), ("TagSpecification.1.ResourceType", "vpc")]),
            ("AssociateVpcCidrBlock", &[("VpcId", "vpc-1"), ("CidrBlock", "100.64.0.0/16")]),
            ("CreateSubnet", &[("VpcId", "vpc-1"), ("CidrBlock", "10.0.0.0/24")]),
            ("CreateSubnet", &[("AvailabilityZone", "us-test-1a")]),
            ("CreateSubnet", &[("TagSpecification.1.ResourceType", "subnet")]),
            ("CreateInternetGateway", &[("TagSpecification.1.ResourceType", "internet-gateway")]),
            ("AttachInternetGateway", &[("InternetGatewayId", "igw-1"), ("VpcId", "vpc-1")]),
            ("DetachInternetGateway", &[("InternetGatewayId", "igw-1"), ("VpcId", "vpc-1")]),
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
    let ids =
        ["vpc-1", "subnet-1", "igw-1", "eipalloc-1", "nat-1", "rtb-1", "sg-1", "arn:lb/1", "arn:tg/1", "dev-apiserver"]
            .map(str::to_owned);
    let calls = all_calls().into_iter();
    let creations: Vec<_> = calls.filter(|call| call.effect() == Effect::Create).collect();
    assert_eq!(creations.len(), ids.len());
    for (call, id) in creations.into_iter().zip(ids) {
        assert_eq!(make(cloud.as_ref(), &call).await, Ok(ChangeAnswer::Made(id)), "{call:?}");
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
        assert_eq!(sent.len() == 1, call.repeat() == Repeat::CreatesSecond, "{}", call.action());
        if let Repeat::Token(token) = call.repeat() {
            assert!(sent.iter().all(|sent| sent.field("ClientToken") == token), "{}", call.action());
        }
    }
}
