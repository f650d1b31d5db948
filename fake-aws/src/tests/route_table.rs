use capa_cloud::ec2::RouteTable;
use capa_cloud::ec2::route_table::{Call, NewRouteTarget};

use super::*;

const ALL: &str = "0.0.0.0/0";

fn create_table(vpc: &str, token: &str) -> Call<String> {
    Call::CreateRouteTable { vpc: vpc.to_owned(), client_token: token.to_owned(), tags: owned() }
}

fn to_internet(gateway: &str) -> NewRouteTarget<String> {
    NewRouteTarget::InternetGateway(gateway.to_owned())
}

fn to_nat(gateway: &str) -> NewRouteTarget<String> {
    NewRouteTarget::NatGateway(gateway.to_owned())
}

fn create_route(table: &str, destination: &str, target: NewRouteTarget<String>) -> Call<String> {
    Call::CreateRoute { table: table.to_owned(), destination: destination.to_owned(), target }
}

fn replace_route(table: &str, destination: &str, target: NewRouteTarget<String>) -> Call<String> {
    Call::ReplaceRoute { table: table.to_owned(), destination: destination.to_owned(), target }
}

fn associate(table: &str, subnet: &str) -> Call<String> {
    Call::AssociateRouteTable { table: table.to_owned(), subnet: subnet.to_owned() }
}

fn replace_association(association: &str, table: &str) -> Call<String> {
    Call::ReplaceRouteTableAssociation { association: association.to_owned(), table: table.to_owned() }
}

fn disassociate(association: &str) -> Call<String> {
    Call::DisassociateRouteTable { association: association.to_owned() }
}

fn delete_table(table: &str) -> Call<String> {
    Call::DeleteRouteTable { table: table.to_owned() }
}

impl Network {
    fn make_table(&self, token: &str) -> String {
        made(&self.account, create_table(&self.vpc, token))
    }

    fn table(&self, id: &str) -> RouteTable {
        let mut tables = self.account.route_tables().into_iter();
        tables.find(|table| table.id == id).unwrap()
    }

    /// Destinations and targets.
    fn routes(&self, table: &str) -> Vec<(String, String)> {
        let routes = self.table(table).routes.into_iter();
        routes.map(|route| (route.destination, route.target.id().to_owned())).collect()
    }

    /// The id of the last association.
    fn association(&self, table: &str) -> Option<String> {
        self.table(table).associations.pop().map(|association| association.id)
    }
}

fn route(destination: &str, target: &str) -> (String, String) {
    (destination.to_owned(), target.to_owned())
}

#[test]
fn a_vpc_has_a_main_route_table_that_goes_with_it() {
    for by_hand in [true, false] {
        let account = FakeAccount::new();
        let vpc =
            if by_hand { account.add_vpc("10.0.0.0/16", owned()) } else { made(&account, create_vpc("10.0.0.0/16")) };
        assert!(account.add_cidr_block(&vpc, "10.1.0.0/16"));
        let seen = observe(&account, Some(&vpc)).route_tables.shown().unwrap().clone();
        assert_eq!(seen, account.route_tables());
        let main = &seen[0];
        assert_eq!((main.is_main, &main.vpc_id, &main.tags), (true, &vpc, &Tags::new()));
        let routes: Vec<_> = main.routes.iter().map(|route| (&route.destination[..], route.target.id())).collect();
        assert_eq!(routes, [("10.0.0.0/16", "local"), ("10.1.0.0/16", "local")]);
        assert_eq!(code(call(&account, delete_table(&main.id))), "DependencyViolation");
        assert!(!account.remove_route_table(&main.id));
        assert_eq!(account.foreign_writes(), []);
        call(&account, delete_vpc(&vpc)).unwrap();
        assert_eq!(account.route_tables(), []);
        assert!(account.is_empty());
    }
}

#[test]
fn contents_have_a_main_route_table_only_if_changed() {
    let network = Network::new();
    let account = &network.account;
    let main = account.route_tables().remove(0).id;
    let changes: [&dyn Fn(bool) -> bool; 3] = [
        &|is_changed| account.set_tags(&main, if is_changed { owned() } else { Tags::new() }),
        &|is_changed| account.set_route(&main, ALL, is_changed.then_some("pcx-1")),
        &|is_changed| account.set_association_of_subnet(&network.subnet, is_changed.then_some(&main)),
    ];
    for change in changes {
        assert!(change(true));
        assert!(account.contents().vpcs[0].route_tables[0].is_main);
        assert!(change(false));
        assert_eq!(account.contents().vpcs[0].route_tables, []);
    }
}

#[test]
fn a_route_table_has_a_token_a_quota_and_a_vpc() {
    let network = Network::new();
    network.account.set(|behaviour| behaviour.route_table_quota = 2);
    let table = network.make_table("one");
    assert_eq!(network.make_table("one"), table);
    assert_eq!(network.routes(&table), [route("10.0.0.0/16", "local")]);
    let other = network.account.add_vpc("10.0.0.0/16", owned());
    assert_eq!(network.call(create_table(&other, "one")), "IdempotentParameterMismatch");
    assert_eq!(network.call(create_table("vpc-9", "two")), "InvalidVpcID.NotFound");
    let create = || network.call(create_table(&network.vpc, "two"));
    assert_eq!(create(), "RouteTableLimitExceeded", "with the main one");
    assert_eq!(network.call(create_table(&other, "three")), "");
    network.account.set(|behaviour| behaviour.route_table_quota = 3);
    assert_eq!(create(), "");
}

#[test]
fn a_client_token_is_that_of_one_action() {
    let network = Network::new();
    network.make_nat_gateway("one");
    network.make_table("one");
}

#[test]
fn a_route_needs_a_target_in_the_vpc_of_its_table() {
    let network = Network::new();
    let account = &network.account;
    let table = network.make_table("one");
    let nat = network.make_nat_gateway("one");
    let free = account.add_internet_gateway(None, owned());
    let other = account.add_vpc("10.0.0.0/16", owned());
    let elsewhere = account.add_internet_gateway(Some(&other), owned());
    let subnet = account.add_subnet(&other, "10.0.0.0/24", "eu-west-1a", owned());
    let nat_elsewhere = account.add_nat_gateway(&subnet, owned());
    let targets = [
        (to_internet("igw-9"), "InvalidGatewayID.NotFound"),
        (to_internet(&free), "InvalidGatewayID.NotFound"),
        (to_internet(&elsewhere), "InvalidGatewayID.NotFound"),
        (to_nat("nat-9"), "InvalidNatGatewayID.NotFound"),
        (to_nat(&nat_elsewhere), "InvalidNatGatewayID.NotFound"),
    ];
    assert!(account.set_route(&table, "10.9.0.0/16", Some("pcx-1")));
    for (target, expected) in targets {
        let create = create_route(&table, ALL, target.clone());
        assert_eq!(network.call(create), expected, "{target:?}");
        let replace = replace_route(&table, "10.9.0.0/16", target.clone());
        assert_eq!(network.call(replace), expected, "{target:?}");
    }
    assert_eq!(network.call(create_route(&table, ALL, to_internet(&network.internet_gateway))), "");
    assert_eq!(network.call(create_route(&table, "10.8.7.0/16", to_nat(&nat))), "", "a pending one");
    let routes = [
        route("10.0.0.0/16", "local"),
        route("10.9.0.0/16", "pcx-1"),
        route(ALL, &network.internet_gateway),
        route("10.8.0.0/16", &nat),
    ];
    assert_eq!(network.routes(&table), routes);
}

#[test]
fn a_route_is_created_once_and_replaced_where_it_is() {
    let network = Network::new();
    let table = network.make_table("one");
    let nat = network.make_nat_gateway("one");
    let target = || to_nat(&nat);
    let calls = [
        (replace_route(&table, ALL, target()), "InvalidParameterValue"),
        (create_route("rtb-9", ALL, target()), "InvalidRouteTableID.NotFound"),
        (create_route(&table, "10.0.0.0/16", target()), "RouteAlreadyExists"),
        (replace_route(&table, "10.0.0.0/16", target()), "InvalidParameterValue"),
        (create_route(&table, "all", target()), "InvalidParameterValue"),
        (create_route(&table, ALL, to_internet(&network.internet_gateway)), ""),
        (create_route(&table, ALL, target()), "RouteAlreadyExists"),
        (replace_route("rtb-9", ALL, target()), "InvalidRouteTableID.NotFound"),
        (replace_route(&table, ALL, target()), ""),
        (replace_route(&table, ALL, target()), ""),
    ];
    for (call, expected) in calls {
        assert_eq!(network.call(call.clone()), expected, "{call:?}");
    }
    assert_eq!(network.routes(&table), [route("10.0.0.0/16", "local"), route(ALL, &nat)]);
}

#[test]
fn routes_to_gateways_that_are_gone_stay_as_black_holes() {
    let network = Network::new();
    let account = &network.account;
    let [public, private] = ["one", "two"].map(|token| network.make_table(token));
    let nat = network.make_nat_gateway("one");
    call(account, create_route(&public, ALL, to_internet(&network.internet_gateway))).unwrap();
    call(account, create_route(&private, ALL, to_nat(&nat))).unwrap();
    let targets = || {
        let tables = account.contents().vpcs.remove(0).route_tables;
        let targets: Vec<_> = tables.into_iter().map(|mut table| table.routes.remove(ALL).unwrap()).collect();
        targets
    };
    assert_eq!(targets(), ["igw", "nat of 10.0.0.0/24"]);
    call(account, delete_nat_gateway(&nat)).unwrap();
    account.advance(seconds(20));
    assert_eq!(targets(), ["blackhole", "igw"]);
    call(account, detach(&network.internet_gateway, &network.vpc)).unwrap();
    assert_eq!(targets(), ["blackhole", "blackhole"]);
    assert_eq!(network.routes(&private)[1], route(ALL, &nat));
    assert_eq!(network.routes(&public)[1], route(ALL, &network.internet_gateway));
    let again = create_route(&public, "10.9.0.0/16", to_nat(&nat));
    assert_eq!(network.call(again), "InvalidNatGatewayID.NotFound", "a deleted one");
}

#[test]
fn a_subnet_has_one_association_that_moves() {
    let network = Network::new();
    let account = &network.account;
    let subnet = &network.subnet;
    let [first, second] = ["one", "two"].map(|token| network.make_table(token));
    let other = account.add_vpc("10.0.0.0/16", owned());
    let elsewhere = made(account, create_table(&other, "three"));
    let calls = [
        (associate("rtb-9", subnet), "InvalidRouteTableID.NotFound"),
        (associate(&first, "subnet-9"), "InvalidSubnetID.NotFound"),
        (associate(&elsewhere, subnet), "InvalidParameterValue"),
        (associate(&first, subnet), ""),
        (associate(&first, subnet), "Resource.AlreadyAssociated"),
        (associate(&second, subnet), "Resource.AlreadyAssociated"),
        (delete_table(&first), "DependencyViolation"),
    ];
    for (call, expected) in calls {
        assert_eq!(network.call(call.clone()), expected, "{call:?}");
    }
    let old = network.association(&first).unwrap();
    let calls = [
        (replace_association("rtbassoc-9", &second), "InvalidAssociationID.NotFound"),
        (replace_association(&old, "rtb-9"), "InvalidRouteTableID.NotFound"),
        (replace_association(&old, &elsewhere), "InvalidParameterValue"),
        (replace_association(&old, &second), ""),
        (replace_association(&old, &first), "InvalidAssociationID.NotFound"),
        (disassociate(&old), "InvalidAssociationID.NotFound"),
        (delete_table(&first), ""),
        (delete_table(&first), "InvalidRouteTableID.NotFound"),
        (delete_table(&second), "DependencyViolation"),
    ];
    for (call, expected) in calls {
        assert_eq!(network.call(call.clone()), expected, "{call:?}");
    }
    let new = network.association(&second).unwrap();
    assert_eq!(network.call(disassociate(&new)), "");
    assert_eq!(network.call(disassociate(&new)), "InvalidAssociationID.NotFound");
    assert_eq!(network.call(delete_table(&second)), "");
}

#[test]
fn a_deleted_subnet_leaves_its_route_table() {
    let network = Network::new();
    let table = network.make_table("one");
    call(&network.account, associate(&table, &network.subnet)).unwrap();
    call(&network.account, delete_subnet(&network.subnet)).unwrap();
    assert_eq!(network.association(&table), None);
    assert_eq!(network.call(delete_table(&table)), "");
}

#[test]
fn a_vpc_with_another_route_table_stays() {
    let account = FakeAccount::new();
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let table = made(&account, create_table(&vpc, "one"));
    assert_eq!(code(call(&account, delete_vpc(&vpc))), "DependencyViolation");
    call(&account, delete_table(&table)).unwrap();
    call(&account, delete_vpc(&vpc)).unwrap();
    assert!(account.is_empty());
}

#[test]
fn a_fresh_route_table_is_hidden_and_its_tags_come_later() {
    let network = Network::new();
    let account = &network.account;
    account.set(|behaviour| {
        behaviour.hidden = seconds(10);
        behaviour.hidden_tags = seconds(20);
    });
    let table = network.make_table("one");
    let seen = || {
        let tables = observe(account, Some(&network.vpc)).route_tables.shown().unwrap().clone();
        tables.into_iter().find(|known| !known.is_main).map(|known| known.tags)
    };
    let calls = || [associate(&table, &network.subnet), delete_table(&table)].map(|call| network.call(call));
    assert_eq!(seen(), None);
    assert_eq!(calls(), ["InvalidRouteTableID.NotFound"; 2]);
    account.advance(seconds(10));
    assert_eq!(seen(), Some(Tags::new()));
    account.advance(seconds(10));
    assert_eq!(seen(), Some(owned()));
    assert_eq!(calls(), ["", "DependencyViolation"]);
}

#[test]
fn the_main_route_table_of_a_fresh_vpc_is_hidden_with_it() {
    let account = FakeAccount::new();
    account.set(|behaviour| behaviour.hidden = seconds(10));
    let vpc = made(&account, create_vpc("10.0.0.0/16"));
    let count = || observe(&account, Some(&vpc)).route_tables.shown().unwrap().len();
    assert_eq!(count(), 0);
    account.advance(seconds(10));
    assert_eq!(count(), 1);
}

#[test]
fn an_association_of_a_foreign_subnet_is_foreign() {
    let network = Network::new();
    let account = &network.account;
    let own = made(account, create_subnet(&network.vpc, "10.0.1.0/24", "eu-west-1a"));
    let [one, two] = ["one", "two"].map(|token| network.make_table(token));
    let before = account.foreign_writes().len();
    assert!(account.set_association_of_subnet(&own, Some(&one)));
    call(account, disassociate(&network.association(&one).unwrap())).unwrap();
    assert_eq!(account.foreign_writes().len(), before, "the subnet is ours");
    assert!(account.set_association_of_subnet(&network.subnet, Some(&two)));
    call(account, disassociate(&network.association(&two).unwrap())).unwrap();
    assert_eq!(account.foreign_writes().len(), before + 1);
}
