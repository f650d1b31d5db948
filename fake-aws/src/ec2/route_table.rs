//! Route tables with their routes and associations.

use std::time::Duration;

use capa_api::common::Tags;
use capa_cloud::ec2::route_table::{Call, NewRouteTarget};
use capa_cloud::ec2::{NatGatewayState, Route, RouteTable, RouteTableAssociation, RouteTarget};
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::{CloudError, Query};

use super::{Ec2, Resource, cloned, parsed_range};
use crate::filters::select;

impl Ec2 {
    pub(super) fn call_route_table(
        &mut self,
        action: &'static str,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateRouteTable { vpc, tags, .. } => self.create_route_table(action, vpc, tags),
            Call::CreateRoute { table, destination, target } => self.create_route(action, table, destination, target),
            Call::ReplaceRoute { table, destination, target } => self.replace_route(action, table, destination, target),
            Call::AssociateRouteTable { table, subnet } => self.associate_route_table(action, table, subnet),
            Call::ReplaceRouteTableAssociation { association, table } => {
                self.replace_association(action, association, table)
            }
            Call::DisassociateRouteTable { association } => {
                let subnet = self.known_association(action, association)?.subnet_id.clone();
                self.disassociate_subnet(&subnet);
                Ok(ChangeAnswer::Done)
            }
            Call::DeleteRouteTable { table } => self.delete_route_table(action, table),
        }
    }

    fn create_route_table(&mut self, action: &'static str, vpc: &str, tags: &Tags) -> Result<ChangeAnswer, CloudError> {
        self.known_vpc(action, vpc)?;
        if self.route_tables_of(vpc).count() >= self.behaviour.route_table_quota {
            let message = "The maximum number of route tables has been reached.";
            return Err(CloudError::answered(action, "RouteTableLimitExceeded", message));
        }
        let id = self.next_id("rtb");
        let resource = self.new_resource(new_table(&id, vpc, tags.clone()));
        self.route_tables.insert(id.clone(), resource);
        Ok(ChangeAnswer::Made(id))
    }

    fn create_route(
        &mut self,
        action: &'static str,
        id: &str,
        destination: &str,
        target: &NewRouteTarget<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let table = self.known_route_table(action, id)?;
        let destination = parsed_range(action, destination)?.to_string();
        if table.routes.iter().any(|route| route.destination == destination) {
            let message = format!("The route identified by {destination} already exists.");
            return Err(CloudError::answered(action, "RouteAlreadyExists", &message));
        }
        let target = self.known_target(action, &table.vpc_id, target)?;
        self.set_route(id, &destination, Some(&target));
        Ok(ChangeAnswer::Done)
    }

    fn replace_route(
        &mut self,
        action: &'static str,
        id: &str,
        destination: &str,
        target: &NewRouteTarget<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let table = self.known_route_table(action, id)?;
        let destination = parsed_range(action, destination)?.to_string();
        let target = self.known_target(action, &table.vpc_id, target)?;
        let is_own = |route: &Route| route.destination == destination && route.target != RouteTarget::Local;
        if !table.routes.iter().any(is_own) {
            // EC2 has InvalidRoute.NotFound for DeleteRoute only, see https://github.com/getmoto/moto/pull/6425.
            let message = format!("There is no route defined for '{destination}' in the route table.");
            return Err(CloudError::answered(action, "InvalidParameterValue", &message));
        }
        self.set_route(id, &destination, Some(&target));
        Ok(ChangeAnswer::Done)
    }

    fn associate_route_table(
        &mut self,
        action: &'static str,
        table: &str,
        subnet: &str,
    ) -> Result<ChangeAnswer, CloudError> {
        let vpc = self.known_route_table(action, table)?.vpc_id;
        let subnet = self.known_subnet(action, subnet)?;
        is_of_vpc(action, table, &vpc, &subnet.vpc_id)?;
        let subnet = subnet.id.clone();
        if self.associations().any(|known| known.subnet_id == subnet) {
            let message = format!("The association of {table} with {subnet} conflicts with an existing association");
            return Err(CloudError::answered(action, "Resource.AlreadyAssociated", &message));
        }
        self.associate_subnet(table, &subnet);
        Ok(ChangeAnswer::Done)
    }

    /// The subnet uses the new table under a new association.
    fn replace_association(&mut self, action: &'static str, id: &str, table: &str) -> Result<ChangeAnswer, CloudError> {
        let subnet = self.known_association(action, id)?.subnet_id.clone();
        let vpc = self.known_route_table(action, table)?.vpc_id;
        let subnet_vpc = self.known_subnet(action, &subnet)?.vpc_id.clone();
        is_of_vpc(action, table, &vpc, &subnet_vpc)?;
        self.associate_subnet(table, &subnet);
        Ok(ChangeAnswer::Done)
    }

    fn delete_route_table(&mut self, action: &'static str, id: &str) -> Result<ChangeAnswer, CloudError> {
        let table = self.known_route_table(action, id)?;
        if table.is_main || !table.associations.is_empty() {
            let message = format!("The routeTable '{id}' has dependencies and cannot be deleted.");
            return Err(CloudError::answered(action, "DependencyViolation", &message));
        }
        self.route_tables.remove(id);
        Ok(ChangeAnswer::Done)
    }

    /// The route table that a call names.
    fn known_route_table(&self, action: &'static str, id: &str) -> Result<RouteTable, CloudError> {
        let known = self.route_tables.get(id).filter(|resource| self.is_shown(resource));
        known.map(|resource| self.view_route_table(&resource.body)).ok_or_else(|| {
            let message = format!("The routeTable ID '{id}' does not exist");
            CloudError::answered(action, "InvalidRouteTableID.NotFound", &message)
        })
    }

    fn known_association(&self, action: &'static str, id: &str) -> Result<&RouteTableAssociation, CloudError> {
        self.associations().find(|known| known.id == id).ok_or_else(|| {
            let message = format!("The association ID '{id}' does not exist");
            CloudError::answered(action, "InvalidAssociationID.NotFound", &message)
        })
    }

    /// The id of a target that a route of a VPC can have: an internet gateway that is attached, or a NAT gateway that
    /// is pending or available.
    fn known_target(
        &self,
        action: &'static str,
        vpc: &str,
        target: &NewRouteTarget<String>,
    ) -> Result<String, CloudError> {
        let (id, is_known, code) = match target {
            NewRouteTarget::InternetGateway(id) => {
                let gateways = self.shown_internet_gateways(|shown| shown.id == *id);
                let is_attached = gateways.iter().any(|gateway| gateway.vpc_id.as_deref() == Some(vpc));
                (id, is_attached, "InvalidGatewayID.NotFound")
            }
            NewRouteTarget::NatGateway(id) => {
                let gateways = self.shown_nat_gateways(vpc);
                let is_known = gateways.iter().any(|gateway| {
                    let works = matches!(gateway.state, NatGatewayState::Pending | NatGatewayState::Available);
                    gateway.id == *id && works
                });
                (id, is_known, "InvalidNatGatewayID.NotFound")
            }
        };
        if is_known {
            return Ok(id.clone());
        }
        let message = format!("The gateway ID '{id}' does not exist in {vpc}");
        Err(CloudError::answered(action, code, &message))
    }

    /// The route tables of a VPC, hidden ones too.
    fn route_tables_of(&self, vpc: &str) -> impl Iterator<Item = &RouteTable> {
        let tables = self.route_tables.values().map(|resource| &resource.body);
        tables.filter(move |table| table.vpc_id == vpc)
    }

    fn associations(&self) -> impl Iterator<Item = &RouteTableAssociation> {
        let tables = self.route_tables.values();
        tables.flat_map(|resource| &resource.body.associations)
    }

    /// Whether a VPC has a route table besides the main one.
    pub(super) fn has_other_route_table(&self, vpc: &str) -> bool {
        self.route_tables_of(vpc).any(|table| !table.is_main)
    }

    /// Adds the main route table of a VPC. Its id follows from that of the VPC, so it takes no number of its own.
    pub(super) fn insert_main_table(&mut self, vpc: &str, made_at: Option<Duration>) {
        let id = vpc.replacen("vpc", "rtb", 1);
        let body = RouteTable { is_main: true, ..new_table(&id, vpc, Tags::new()) };
        self.route_tables.insert(id, Resource { made_at, body });
    }

    pub(super) fn remove_route_tables_of(&mut self, vpc: &str) {
        self.route_tables.retain(|_, table| table.body.vpc_id != vpc);
    }

    /// Ends the association of a subnet, if it has one. The subnet uses the main route table then.
    pub(super) fn disassociate_subnet(&mut self, subnet: &str) {
        for table in self.route_tables.values_mut() {
            table.body.associations.retain(|known| known.subnet_id != subnet);
        }
    }

    /// DescribeRouteTables, all pages.
    pub(crate) fn describe_route_tables(&self, query: &Query) -> Result<Vec<RouteTable>, CloudError> {
        let known = ["route-table-id", "vpc-id", "association.main", "association.subnet-id"];
        let shown = self.shown_route_tables(|_| true);
        let things = shown.iter().map(|table| (table, &table.tags));
        select("DescribeRouteTables", query, &known, things, |table, filter| match filter {
            "route-table-id" => vec![table.id.clone()],
            "vpc-id" => vec![table.vpc_id.clone()],
            "association.main" => vec![table.is_main.to_string()],
            _ => table.associations.iter().map(|association| association.subnet_id.clone()).collect(),
        })
        .map(cloned)
    }

    pub(super) fn shown_route_tables(&self, selects: impl Fn(&RouteTable) -> bool) -> Vec<RouteTable> {
        let shown = self.route_tables.values().filter(|resource| self.is_shown(resource));
        let views = shown.map(|resource| RouteTable {
            tags: self.shown_tags(resource, &resource.body.tags),
            ..self.view_route_table(&resource.body)
        });
        views.filter(selects).collect()
    }

    /// A route table with a local route for each range of its VPC.
    fn view_route_table(&self, body: &RouteTable) -> RouteTable {
        let ranges = self.ranges_of(&body.vpc_id);
        let local = ranges.iter().map(|range| new_route(range, RouteTarget::Local));
        RouteTable { routes: local.chain(body.routes.iter().cloned()).collect(), ..body.clone() }
    }
}

/// What tests see and change by hand.
impl Ec2 {
    pub(crate) fn all_route_tables(&self) -> Vec<RouteTable> {
        let resources = self.route_tables.values();
        resources.map(|resource| self.view_route_table(&resource.body)).collect()
    }

    pub(crate) fn add_route_table(&mut self, vpc: &str, tags: Tags) -> String {
        let id = self.next_id("rtb");
        self.put_route_table(new_table(&id, vpc, tags));
        id
    }

    /// Adds a route table with an id of the caller's choice, or replaces the one with this id.
    pub(crate) fn put_route_table(&mut self, table: RouteTable) {
        self.route_tables.insert(table.id.clone(), Resource::by_hand(table));
    }

    /// The route table without its local routes, for a change by hand.
    pub(crate) fn route_table_mut(&mut self, id: &str) -> Option<&mut RouteTable> {
        self.route_tables.get_mut(id).map(|resource| &mut resource.body)
    }

    /// Adds, changes or removes a route.
    pub(crate) fn set_route(&mut self, table: &str, destination: &str, target: Option<&str>) -> bool {
        let Some(table) = self.route_table_mut(table) else {
            return false;
        };
        table.routes.retain(|route| route.destination != destination);
        table.routes.extend(target.map(|target| new_route(destination, target_with(target))));
        true
    }

    /// Associates a subnet with a route table instead of the one that it has, and gives the id of the association.
    /// `None`: there is no such subnet or table, and nothing changes.
    pub(crate) fn associate_subnet(&mut self, table: &str, subnet: &str) -> Option<String> {
        if !self.subnets.contains_key(subnet) || !self.route_tables.contains_key(table) {
            return None;
        }
        self.disassociate_subnet(subnet);
        let id = self.next_id("rtbassoc");
        let association = RouteTableAssociation { id: id.clone(), subnet_id: subnet.to_owned() };
        self.route_table_mut(table)?.associations.push(association);
        Some(id)
    }

    /// Ends the association of a subnet, and says whether there was one.
    pub(crate) fn remove_association(&mut self, subnet: &str) -> bool {
        let is_associated = self.associations().any(|known| known.subnet_id == subnet);
        self.disassociate_subnet(subnet);
        is_associated
    }

    /// Removes a route table with its associations. A main route table goes with its VPC only.
    pub(crate) fn remove_route_table(&mut self, id: &str) -> bool {
        let is_other = self.route_tables.get(id).is_some_and(|table| !table.body.is_main);
        is_other && self.route_tables.remove(id).is_some()
    }
}

fn is_of_vpc(action: &'static str, table: &str, vpc: &str, subnet_vpc: &str) -> Result<(), CloudError> {
    if vpc == subnet_vpc {
        return Ok(());
    }
    let message = format!("route table {table} and subnet belong to different networks");
    Err(CloudError::answered(action, "InvalidParameterValue", &message))
}

fn new_table(id: &str, vpc: &str, tags: Tags) -> RouteTable {
    RouteTable { id: id.to_owned(), vpc_id: vpc.to_owned(), tags, ..RouteTable::default() }
}

fn new_route(destination: &str, target: RouteTarget) -> Route {
    Route { destination: destination.to_owned(), target, is_blackhole: false }
}

/// The target with this id.
fn target_with(id: &str) -> RouteTarget {
    let owned = id.to_owned();
    match id.split_once('-') {
        Some(("igw", _)) => RouteTarget::InternetGateway(owned),
        Some(("nat", _)) => RouteTarget::NatGateway(owned),
        _ => RouteTarget::Other(owned),
    }
}
