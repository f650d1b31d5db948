//! New security groups and their rules.

use ::hcl::Expression;
use ::hcl::expr::ForExpr;
use ::hcl::structure::{Attribute, Block};

use super::Document;
use super::hcl::{attribute, call, id, label, path, resource, value, variable};
use crate::facts::{IpProtocol, Traffic};
use crate::requirements::object::Object;
use crate::requirements::requirement::Requirement;
use crate::requirements::wanted::{Peer, Wanted};

const CLIENTS: &str = "api_client_cidr_blocks";

pub(super) fn blocks(document: &Document<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    if document.of(false).any(|requirement| matches!(requirement.wanted, Wanted::Admits { from: Peer::Clients, .. })) {
        let of = call("list", [path(&["string"]).into()]);
        let description = "IPv4 ranges of those who use the API server: the management cluster and people";
        blocks.push(variable(CLIENTS, of, description, None));
    }
    for requirement in document.of(false) {
        match &requirement.wanted {
            Wanted::SecurityGroup(_) => blocks.push(group(document, requirement)),
            Wanted::Admits { traffic, from } => blocks.push(ingress(document, requirement, *traffic, from)),
            Wanted::Allows { traffic, to } => blocks.extend(egress(document, requirement, *traffic, to)),
            _ => {}
        }
    }
    blocks
}

fn group<'a>(document: &Document<'a>, requirement: &'a Requirement) -> Block {
    let object = &requirement.object;
    let name = format!("{}-{}", document.requirements.cluster, object.name);
    resource("aws_security_group", &label(object))
        .add_attribute(attribute("name", name))
        .add_attribute(attribute("vpc_id", document.vpc().map_or(Expression::Null, id)))
        .add_attribute(attribute("tags", document.tags(object)))
        .build()
}

fn ingress(document: &Document<'_>, requirement: &Requirement, traffic: Traffic, from: &Peer) -> Block {
    let name = format!("{}_{}_from_{}", label(&requirement.object), traffic_label(traffic), peer_label(from));
    rule("aws_vpc_security_group_ingress_rule", &name, requirement, Some(traffic), peer(document, from))
}

fn egress(document: &Document<'_>, requirement: &Requirement, traffic: Option<Traffic>, to: &Peer) -> Vec<Block> {
    let of = "aws_vpc_security_group_egress_rule";
    let text = traffic.map_or_else(|| "all".to_owned(), traffic_label);
    let name = format!("{}_{text}_to_{}", label(&requirement.object), peer_label(to));
    let has_ipv6 = document.vpc().is_some_and(|vpc| document.wants(vpc, &Wanted::Ipv6));
    let ipv6 = (has_ipv6 && *to == Peer::Anywhere).then(|| vec![attribute("cidr_ipv6", "::/0")]);
    let ipv6 = ipv6.map(|peer| rule(of, &format!("{name}_ipv6"), requirement, traffic, peer));
    let block = rule(of, &name, requirement, traffic, peer(document, to));
    [Some(block), ipv6].into_iter().flatten().collect()
}

fn rule(of: &str, name: &str, requirement: &Requirement, traffic: Option<Traffic>, peer: Vec<Attribute>) -> Block {
    let protocol = traffic.map_or(IpProtocol::All, |traffic| traffic.protocol);
    let ports = traffic.and_then(|traffic| traffic.ports).map(|(first, last)| {
        // The second number of a rule for ICMP is a code; -1 means all.
        let last = if protocol == IpProtocol::Icmp { -1 } else { last };
        [attribute("from_port", first), attribute("to_port", last)]
    });
    resource(of, name)
        .add_attributes(peer)
        .add_attribute(attribute("security_group_id", id(&requirement.object)))
        .add_attribute(attribute("description", requirement.rules.join(", ")))
        .add_attribute(attribute("ip_protocol", protocol.to_string()))
        .add_attributes(ports.into_iter().flatten())
        .build()
}

fn traffic_label(traffic: Traffic) -> String {
    match traffic.ports {
        None => format!("protocol_{}", traffic.protocol),
        Some((first, last)) if first == last => format!("{}_{first}", traffic.protocol),
        Some((first, last)) => format!("{}_{first}_{last}", traffic.protocol),
    }
}

fn peer_label(peer: &Peer) -> String {
    match peer {
        Peer::Group(group) => label(group),
        Peer::LoadBalancer(_) => "load_balancer".to_owned(),
        Peer::Vpc => "vpc".to_owned(),
        Peer::Anywhere => "anywhere".to_owned(),
        Peer::Clients => "clients".to_owned(),
    }
}

/// The attributes that name the other side of a rule.
fn peer(document: &Document<'_>, peer: &Peer) -> Vec<Attribute> {
    match peer {
        Peer::Group(group) => vec![attribute("referenced_security_group_id", id(group))],
        // The security groups of an existing load balancer are not known, but its addresses belong to the VPC.
        Peer::Vpc | Peer::LoadBalancer(_) => document.vpc().map(of_vpc).unwrap_or_default(),
        Peer::Anywhere => vec![attribute("cidr_ipv4", "0.0.0.0/0")],
        Peer::Clients => each(path(&["var", CLIENTS]).into()),
    }
}

fn of_vpc(vpc: &Object) -> Vec<Attribute> {
    if !vpc.exists {
        return vec![attribute("cidr_ipv4", value(vpc, "cidr_block"))];
    }
    let ranges = ForExpr::new(
        ::hcl::Identifier::sanitized("association"),
        value(vpc, "cidr_block_associations"),
        path(&["association", "cidr_block"]),
    );
    each(ranges.into())
}

/// The attributes that create one rule for each of several ranges.
fn each(ranges: Expression) -> Vec<Attribute> {
    vec![attribute("for_each", call("toset", [ranges])), attribute("cidr_ipv4", path(&["each", "value"]))]
}
