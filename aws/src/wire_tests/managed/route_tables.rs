//! Route tables of managed clusters.

use capa_api::common::Tags;
use capa_cloud::ec2::route_table::NewRouteTarget;
use capa_cloud::ec2::{Route, RouteTable, RouteTableAssociation, RouteTarget, route_table};
use capa_cloud::managed;

use super::super::fake::{Answer, Call, answer};
use super::{OWNED, assert_pages_of_vpc, assert_sent, observe_as, scope, sent_of, tag_set, tags};

/// A call of each kind, with each target of a route.
pub(super) fn calls() -> [managed::Call<String>; 9] {
    let (table, association) = (|| "rtb-1".to_owned(), || "rtbassoc-1".to_owned());
    let (destination, subnet) = (|| "0.0.0.0/0".to_owned(), || "subnet-1".to_owned());
    let internet = || NewRouteTarget::InternetGateway("igw-1".to_owned());
    let nat = || NewRouteTarget::NatGateway("nat-1".to_owned());
    let create_table = route_table::Call::CreateRouteTable {
        vpc: "vpc-1".to_owned(),
        client_token: "token-2".to_owned(),
        tags: tags(),
    };
    let create = |target| route_table::Call::CreateRoute { table: table(), destination: destination(), target };
    let replace = |target| route_table::Call::ReplaceRoute { table: table(), destination: destination(), target };
    let associate = route_table::Call::AssociateRouteTable { table: table(), subnet: subnet() };
    let replace_association =
        route_table::Call::ReplaceRouteTableAssociation { association: association(), table: table() };
    let disassociate = route_table::Call::DisassociateRouteTable { association: association() };
    [
        create_table.into(),
        create(internet()).into(),
        create(nat()).into(),
        replace(internet()).into(),
        replace(nat()).into(),
        associate.into(),
        replace_association.into(),
        disassociate.into(),
        route_table::Call::DeleteRouteTable { table: table() }.into(),
    ]
}

/// The answers to the calls.
pub(super) fn serve(call: &Call) -> Answer {
    let body = match call.action.as_str() {
        "CreateRouteTable" => "<routeTable><routeTableId>rtb-1</routeTableId></routeTable>",
        "CreateRoute" => "<return>true</return>",
        "AssociateRouteTable" => "<associationId>rtbassoc-1</associationId>",
        "ReplaceRouteTableAssociation" => "<newAssociationId>rtbassoc-2</newAssociationId>",
        _ => "",
    };
    answer(&call.action, body, None)
}

#[tokio::test]
async fn every_field_of_a_call_about_a_route_table_is_sent() {
    assert_sent(
        &calls(),
        &[
            (
                "CreateRouteTable",
                &[("VpcId", "vpc-1"), ("ClientToken", "token-2"), ("TagSpecification.1.ResourceType", "route-table")],
            ),
            ("AssociateRouteTable", &[("RouteTableId", "rtb-1"), ("SubnetId", "subnet-1")]),
            ("ReplaceRouteTableAssociation", &[("AssociationId", "rtbassoc-1"), ("RouteTableId", "rtb-1")]),
            ("DisassociateRouteTable", &[("AssociationId", "rtbassoc-1")]),
            ("DeleteRouteTable", &[("RouteTableId", "rtb-1")]),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_route_is_sent_with_its_target_alone() {
    let sent = sent_of(&calls()).await;
    for action in ["CreateRoute", "ReplaceRoute"] {
        let fields = |call: &Call| {
            let fields = call.form.iter();
            let fields = fields.filter(|(name, _)| !["Action", "Version"].contains(&name.as_str()));
            fields.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let sent: Vec<_> = sent.iter().filter(|call| call.action == action).map(fields).collect();
        let range = "DestinationCidrBlock=0.0.0.0/0";
        assert_eq!(
            sent,
            [[range, "GatewayId=igw-1", "RouteTableId=rtb-1"], [range, "NatGatewayId=nat-1", "RouteTableId=rtb-1"],],
            "{action}"
        );
    }
}

fn association_xml(id: &str, target: &str, state: &str) -> String {
    format!(
        "<item><routeTableAssociationId>{id}</routeTableAssociationId>{target}\
         <associationState><state>{state}</state></associationState></item>"
    )
}

fn route_xml(destination: &str, target: &str) -> String {
    format!("<item><destinationCidrBlock>{destination}</destinationCidrBlock>{target}</item>")
}

fn table_xml(id: &str, vpc: &str, associations: &str, routes: &str, tags: &str) -> String {
    format!(
        "<item><routeTableId>{id}</routeTableId><vpcId>{vpc}</vpcId><associationSet>{associations}</associationSet>\
         <routeSet>{routes}</routeSet>{tags}</item>"
    )
}

/// The targets of routes in AWS's answers, with the targets that an observation shows.
fn targets() -> [(&'static str, RouteTarget); 12] {
    let other = |id: &str| RouteTarget::Other(id.to_owned());
    [
        ("<gatewayId>local</gatewayId>", RouteTarget::Local),
        ("<gatewayId>igw-1</gatewayId><natGatewayId/>", RouteTarget::InternetGateway("igw-1".to_owned())),
        ("<natGatewayId>nat-1</natGatewayId>", RouteTarget::NatGateway("nat-1".to_owned())),
        ("<transitGatewayId>tgw-1</transitGatewayId>", RouteTarget::TransitGateway("tgw-1".to_owned())),
        (
            "<instanceId>i-1</instanceId><networkInterfaceId>eni-1</networkInterfaceId>",
            RouteTarget::Appliance("i-1".to_owned()),
        ),
        ("<networkInterfaceId>eni-2</networkInterfaceId>", RouteTarget::Appliance("eni-2".to_owned())),
        ("<vpcPeeringConnectionId>pcx-1</vpcPeeringConnectionId>", other("pcx-1")),
        ("<carrierGatewayId>cagw-1</carrierGatewayId>", other("cagw-1")),
        ("<localGatewayId>lgw-1</localGatewayId>", other("lgw-1")),
        (
            "<egressOnlyInternetGatewayId>eigw-1</egressOnlyInternetGatewayId>",
            RouteTarget::EgressOnlyInternetGateway("eigw-1".to_owned()),
        ),
        ("<coreNetworkArn>arn:core</coreNetworkArn>", other("arn:core")),
        ("", other("")),
    ]
}

/// The route tables of a VPC on two pages, with a route table of another VPC.
fn tables(call: &Call) -> Answer {
    let subnet = |number: u8| format!("<main>false</main><subnetId>subnet-{number}</subnetId>");
    let main = "<main>true</main>";
    let (items, next) = match (call.action.as_str(), call.field("NextToken")) {
        ("DescribeRouteTables", "") => {
            let associations = association_xml("rtbassoc-1", &subnet(1), "associated")
                + &association_xml("rtbassoc-2", &subnet(2), "associating")
                + &association_xml("rtbassoc-3", &subnet(3), "disassociating")
                + &association_xml("rtbassoc-4", &subnet(4), "disassociated")
                + &association_xml("rtbassoc-5", &subnet(5), "failed")
                + &association_xml("rtbassoc-6", "<gatewayId>igw-1</gatewayId>", "associated")
                + &association_xml("rtbassoc-7", main, "disassociated")
                + "<item><routeTableAssociationId>rtbassoc-8</routeTableAssociationId><subnetId>subnet-8</subnetId>\
                   </item>";
            let ipv6 =
                "<item><destinationIpv6CidrBlock>::/0</destinationIpv6CidrBlock><gatewayId>igw-1</gatewayId></item>";
            let list =
                "<item><destinationPrefixListId>pl-1</destinationPrefixListId><gatewayId>vpce-1</gatewayId></item>";
            let default = route_xml("0.0.0.0/0", "<natGatewayId>nat-1</natGatewayId>");
            let routes = format!("{ipv6}{list}{default}");
            let items = table_xml("rtb-1", "vpc-1", &associations, &routes, &tag_set(OWNED, "owned"))
                + &table_xml("rtb-foreign", "vpc-2", &associations, &routes, &tag_set(OWNED, "owned"));
            (items, Some("page-2"))
        }
        ("DescribeRouteTables", _) => {
            let targets = (0..).zip(targets());
            let routes: Vec<String> =
                targets.map(|(number, (target, _))| route_xml(&format!("10.{number}.0.0/16"), target)).collect();
            let association = association_xml("rtbassoc-9", main, "associated");
            (table_xml("rtb-2", "vpc-1", &association, &routes.concat(), ""), None)
        }
        _ => return answer(&call.action, "", None),
    };
    answer(&call.action, &format!("<routeTableSet>{items}</routeTableSet>"), next)
}

#[tokio::test]
async fn route_tables_of_a_vpc_show_subnets_and_routes() {
    let (fake, seen) = observe_as(&scope(Some("vpc-1")), tables).await;
    let association =
        |number: u8| RouteTableAssociation { id: format!("rtbassoc-{number}"), subnet_id: format!("subnet-{number}") };
    let route = |destination: &str, target| Route { destination: destination.to_owned(), target, is_blackhole: false };
    let own = RouteTable {
        id: "rtb-1".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        is_main: false,
        associations: vec![association(1), association(2), association(8)],
        routes: vec![
            route("::/0", RouteTarget::InternetGateway("igw-1".to_owned())),
            route("pl-1", RouteTarget::VpcEndpoint("vpce-1".to_owned())),
            route("0.0.0.0/0", RouteTarget::NatGateway("nat-1".to_owned())),
        ],
        tags: tags(),
    };
    let routes = (0..).zip(targets());
    let main = RouteTable {
        id: "rtb-2".to_owned(),
        vpc_id: "vpc-1".to_owned(),
        is_main: true,
        associations: Vec::new(),
        routes: routes.map(|(number, (_, target))| route(&format!("10.{number}.0.0/16"), target)).collect(),
        tags: Tags::new(),
    };
    assert_eq!(seen.route_tables.shown(), Some(&vec![own, main]));
    assert_pages_of_vpc(&fake, "DescribeRouteTables", "100");
}
