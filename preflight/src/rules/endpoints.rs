//! Rules about VPC endpoints and about the endpoint of the API server.

use std::collections::BTreeSet;

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use crate::facts::{Availability, Facts, Subnet, Traffic, VpcEndpoint, VpcEndpointType};
use crate::lookup::{default_destination, ranges};
use crate::reach::{Peer, allow, filters_of_peer, ingress};
use crate::rule::{Category::Endpoints, Checked, Problem, Rule, ShownBy, Skipped, applies, known, of_each};
use crate::rules::machine_groups::{certain, machines, of_known_groups};
use crate::traffic_text::cli_parameters_with_range;

/// Services whose VPC endpoints nodes need if there is no other way out of the VPC, with the type of the endpoint.
/// Source: CAPA's page «Consuming existing infrastructure», and the user guide of ECR for its layers in S3.
pub(crate) const SERVICES: [(&str, &str); 6] = [
    ("ec2", "Interface"),
    ("elasticloadbalancing", "Interface"),
    ("sts", "Interface"),
    ("ecr.api", "Interface"),
    ("ecr.dkr", "Interface"),
    ("s3", "Gateway"),
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "E2",
        category: Endpoints,
        severity: Blocking,
        title: "A subnet without a default route has all VPC endpoints that nodes need, and nodes may connect to them",
        breaks: "Nodes reach neither the AWS API nor registries, and never join the cluster.",
        shown_by: ShownBy::Moto,
        check: vpc_endpoints,
    },
    Rule {
        id: "E3",
        category: Endpoints,
        severity: Blocking,
        title: "The name of the control plane endpoint resolves",
        breaks: "Nodes and users do not reach the API server.",
        shown_by: ShownBy::Recorded,
        check: control_plane_endpoint,
    },
];

/// The services without a usable endpoint for a subnet.
pub(super) fn missing_services(facts: &Facts, subnet: &Subnet) -> Result<Vec<&'static str>, Skipped> {
    let endpoints = facts.of_network(&facts.vpc_endpoints, "the VPC endpoints")?;
    if facts.is_in_shared_vpc() {
        return Err(Skipped::Unknown("AWS shows the endpoints of a shared VPC to its owner only".to_owned()));
    }
    let table = facts.route_table(subnet)?;
    let serves = |endpoint: &VpcEndpoint| match endpoint.endpoint_type {
        VpcEndpointType::Gateway => endpoint.route_table_ids.contains(&table.id),
        _ => endpoint.has_private_dns,
    };
    let is_missing = |service: &str| {
        let mut endpoints = endpoints.iter();
        !endpoints.any(|endpoint| {
            endpoint.service == service && endpoint.state == Availability::Available && serves(endpoint)
        })
    };
    let services = SERVICES.iter().map(|(service, _)| *service);
    Ok(services.filter(|service| is_missing(service)).collect())
}

fn vpc_endpoints(facts: &Facts) -> Checked {
    let vpc = facts.the_vpc()?;
    let mut without_route = Vec::new();
    for subnet in facts.subnets_of(None)? {
        let routes = &facts.route_table(subnet)?.routes;
        if !routes.iter().any(|route| route.destination == default_destination(subnet)) {
            without_route.push(subnet);
        }
    }
    applies(!without_route.is_empty())?;
    let mut missing = BTreeSet::new();
    for subnet in &without_route {
        missing.extend(missing_services(facts, subnet)?);
    }
    let missing = SERVICES.iter().filter(|(service, _)| missing.contains(service));
    let missing = missing.map(|(service, kind)| Ok(Some(no_endpoint(facts, &vpc.id, service, kind))));
    let nodes = Peer { ranges: ranges(without_route.iter().copied()), ..machines(facts, None)? };
    let endpoints = facts.of_network(&facts.vpc_endpoints, "the VPC endpoints")?.iter();
    let of_nodes = endpoints.filter(|endpoint| SERVICES.contains(&(endpoint.service.as_str(), "Interface")));
    let of_nodes = of_nodes.filter(|endpoint| endpoint.endpoint_type == VpcEndpointType::Interface);
    of_each(missing.chain(of_nodes.map(|endpoint| closed_endpoint(facts, endpoint, &nodes))))
}

/// The problem that a VPC has no usable endpoint of a service.
fn no_endpoint(facts: &Facts, vpc: &str, service: &str, kind: &str) -> Problem {
    let region = &facts.demand.region;
    let more = match kind {
        "Gateway" => "--route-table-ids <tables>",
        _ => "--private-dns-enabled --subnet-ids <subnets> --security-group-ids <groups>",
    };
    let prefix = if region.starts_with("cn-") && service != "s3" { "cn." } else { "" };
    Problem::new(
        service,
        format!("{vpc} has no usable endpoint of {service}"),
        "create the endpoint; an interface endpoint needs private DNS, a gateway endpoint the route table",
    )
    .fixed_by(facts.aws(&format!(
        "ec2 create-vpc-endpoint --vpc-id {vpc} --service-name {prefix}com.amazonaws.{region}.{service} \
         --vpc-endpoint-type {kind} {more}"
    )))
}

/// The problem that nodes may not connect to an interface endpoint.
fn closed_endpoint(facts: &Facts, endpoint: &VpcEndpoint, nodes: &Peer<'_>) -> Result<Option<Problem>, Skipped> {
    let ids: BTreeSet<&str> = endpoint.security_group_ids.iter().map(String::as_str).collect();
    let groups = facts.groups(&ids)?;
    let https = Traffic::tcp(443);
    if groups.is_empty() || allow(ingress(&groups), https, nodes) {
        return Ok(None);
    }
    certain(filters_of_peer(ingress(&groups), https, nodes))?;
    let message = format!("the security groups of {} do not admit TCP 443 from nodes", endpoint.id);
    let group = ids.iter().next().copied().unwrap_or_default();
    let range = nodes.ranges.first().copied().unwrap_or_default();
    let problem = Problem::new(&endpoint.id, message, "admit TCP 443 from the subnets of the nodes");
    let rule = cli_parameters_with_range(https, range);
    let command = format!("ec2 authorize-security-group-ingress --group-id {group} {rule}");
    Ok(Some(of_known_groups(facts, problem).fixed_by(facts.aws(&command))))
}

fn control_plane_endpoint(facts: &Facts) -> Checked {
    let Some(endpoint) = &facts.demand.endpoint else {
        return Err(Skipped::NotApplicable);
    };
    let addresses = known(&facts.endpoint_addresses, "the address of the control plane endpoint")?;
    if !addresses.is_empty() {
        return Ok(vec![]);
    }
    let severity = if endpoint.is_initialized { Blocking } else { Warning };
    let problem = Problem::new(
        &endpoint.host,
        format!("{} does not resolve here", endpoint.host),
        "create the DNS record, or correct the host; a name in a private zone resolves only in its VPCs",
    );
    Ok(vec![problem.with_severity(severity)])
}
