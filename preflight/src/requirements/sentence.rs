//! Requirements as sentences.

use super::object::Object;
use super::wanted::{GroupUse, Peer, SubnetUse, Wanted, WayOut, Zone};
use crate::traffic_text::traffic_text;

/// The requirement for an object, as a sentence.
pub(super) fn sentence(object: &Object, wanted: &Wanted) -> String {
    let rest = match wanted {
        Wanted::Vpc { .. } | Wanted::Subnet(_) | Wanted::NatGateway(_) | Wanted::InternetGateway => {
            of_existence(object, wanted)
        }
        Wanted::Credentials { .. }
        | Wanted::EnabledRegion(_)
        | Wanted::ReachableServices(_)
        | Wanted::AllowedActions(_)
        | Wanted::Quota { .. } => of_account(wanted),
        Wanted::TargetGroup { .. }
        | Wanted::HealthCheck { .. }
        | Wanted::Attribute { .. }
        | Wanted::LoadBalancer
        | Wanted::DualStack
        | Wanted::Subnets(_)
        | Wanted::Listener { .. } => of_load_balancing(object, wanted),
        Wanted::SecurityGroup(_)
        | Wanted::RoomForRule
        | Wanted::Admits { .. }
        | Wanted::AdmitsPodNetwork
        | Wanted::Allows { .. } => of_security_group(object, wanted),
        _ => of_network(object, wanted),
    };
    let mut sentence = object.to_string();
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{sentence} {rest}")
}

const fn exists(object: &Object) -> &'static str {
    if object.exists { "exists and is available" } else { "has to be created" }
}

fn of_existence(object: &Object, wanted: &Wanted) -> String {
    let exists = exists(object);
    match wanted {
        Wanted::Vpc { cidr_block: Some(block) } => format!("{exists}, for example with the range {block}"),
        Wanted::Subnet(SubnetUse { is_public, has_machines }) => {
            let kind = if *is_public { "public" } else { "private" };
            let purpose = if *has_machines { "machines" } else { "NAT gateways" };
            format!("{exists}, as a {kind} subnet for {purpose}")
        }
        Wanted::NatGateway(subnet) => format!("{exists} in {subnet}"),
        Wanted::InternetGateway => format!("{exists}, attached to the VPC"),
        _ => exists.to_owned(),
    }
}

fn of_account(wanted: &Wanted) -> String {
    match wanted {
        Wanted::Credentials { account_id: Some(id) } => format!("has valid credentials, of account {id}"),
        Wanted::EnabledRegion(region) => format!("has enabled region {region}"),
        Wanted::ReachableServices(services) => format!("can be reached at the endpoints of {}", services.join(", ")),
        Wanted::AllowedActions(actions) => {
            format!("allows {}: `capa-rs iam` prints the permissions", actions.join(", "))
        }
        Wanted::Quota { code, of, at_least: Some(least) } => format!("has a quota ({code}) of at least {least} {of}"),
        Wanted::Quota { code, of, .. } => format!("has a quota ({code}) that is enough for {of}"),
        _ => "has valid credentials".to_owned(),
    }
}

fn of_network(object: &Object, wanted: &Wanted) -> String {
    match wanted {
        Wanted::DnsSupport => "has DNS support".to_owned(),
        Wanted::DnsHostnames => "gives instances DNS host names".to_owned(),
        Wanted::DhcpOptions { domain } => {
            let domain = domain.as_ref().map(|domain| format!(" and the domain name {domain}"));
            format!("has DHCP options with a DNS server{}", domain.unwrap_or_default())
        }
        Wanted::ApartFrom(ranges) => {
            format!("has no range that overlaps {} of the cluster", ranges.join(", "))
        }
        Wanted::Ipv6 => "has an IPv6 range, from which instances get addresses".to_owned(),
        Wanted::OwnAccount => "belongs to the account of the cluster".to_owned(),
        Wanted::DefaultTenancy => "has the tenancy default".to_owned(),
        Wanted::Zone(Zone::Named(zone)) => format!("lies in zone {zone}"),
        Wanted::Zone(Zone::Free(_)) if object.exists => "lies in a zone of its own".to_owned(),
        Wanted::Zone(Zone::Free(number)) => {
            format!("lies in free zone number {}, and no other subnet of its kind does", number + 1)
        }
        Wanted::AvailabilityZone => "lies in an availability zone, and not on an Outpost".to_owned(),
        Wanted::FreeAddresses(count) => format!("has {count} free addresses, for machines and load balancers"),
        Wanted::Tag { key, value } => format!("has the tag {key}={value}"),
        Wanted::RoomForTag => "has room for another tag".to_owned(),
        Wanted::NetworkAcl(traffic) => {
            let entry = |is_egress| -> Vec<String> {
                let entries = traffic.iter().filter(|entry| entry.is_egress == is_egress);
                entries.map(|entry| traffic_text(entry.traffic)).collect()
            };
            let (out, into) = (entry(true).join(", "), entry(false).join(", "));
            format!("has a network ACL that allows {out} out and {into} in")
        }
        Wanted::DefaultRoute(WayOut::NatGateway(gateway)) => format!("has a default route to {gateway}"),
        Wanted::DefaultRoute(WayOut::InternetGateway(_)) => "has a default route to an internet gateway".to_owned(),
        Wanted::DefaultRoute(WayOut::AnyOrEndpoints(services)) => format!(
            "has a default route to a NAT gateway of its zone, a transit gateway or an appliance, or else VPC \
             endpoints of {} to which nodes may connect",
            services.join(", ")
        ),
        Wanted::Resolves => "resolves, and leads to the API servers".to_owned(),
        Wanted::UsedBy { templates, condition } => format!("{condition}, for {}", templates.join(", ")),
        _ => "exists".to_owned(),
    }
}

fn of_security_group(object: &Object, wanted: &Wanted) -> String {
    match wanted {
        Wanted::SecurityGroup(of) => {
            let owner = match of {
                GroupUse::Machines => "all machines",
                GroupUse::ControlPlane => "control plane machines",
                GroupUse::Workers => "workers",
                GroupUse::LoadBalancer => "the load balancer",
            };
            format!("{} in the VPC, for {owner}", exists(object))
        }
        Wanted::RoomForRule => "has room for another rule".to_owned(),
        Wanted::Admits { traffic, from } => format!("admits {} from {}", traffic_text(*traffic), peer(from)),
        Wanted::Allows { traffic: None, to } => format!("allows all packets to {}", peer(to)),
        Wanted::Allows { traffic: Some(traffic), to } => format!("allows {} to {}", traffic_text(*traffic), peer(to)),
        _ => "admits the traffic of the pod network from all machines: spec.preflight.cni of the AWSCluster names the \
              pod network, and then its ports stand here"
            .to_owned(),
    }
}

fn peer(peer: &Peer) -> String {
    match peer {
        Peer::Group(group) => group.to_string(),
        Peer::LoadBalancer(_) => "the load balancer".to_owned(),
        Peer::Vpc => "the ranges of the VPC".to_owned(),
        Peer::Anywhere => "everywhere".to_owned(),
        Peer::Clients => "the management cluster and the users of the API server".to_owned(),
    }
}

fn of_load_balancing(object: &Object, wanted: &Wanted) -> String {
    match wanted {
        Wanted::TargetGroup { port } => {
            format!("{} in the VPC, with protocol TCP, port {port} and targets by instance or address", exists(object))
        }
        Wanted::HealthCheck { path, interval_seconds, threshold } => format!(
            "has a health check that decides within a minute, for example HTTPS {path} every {interval_seconds} \
             seconds with threshold {threshold}"
        ),
        Wanted::Attribute { key, value } => format!("has the attribute {key}={value}"),
        Wanted::LoadBalancer if object.exists => "is an active Network Load Balancer".to_owned(),
        Wanted::LoadBalancer => "has to be created, as an internal Network Load Balancer".to_owned(),
        Wanted::DualStack => "has the address type dualstack".to_owned(),
        Wanted::Subnets(subnets) if object.exists => {
            format!("has a subnet in each zone of {}, or distributes across zones", joined(subnets))
        }
        Wanted::Subnets(subnets) => format!("has the subnets {}", joined(subnets)),
        Wanted::Listener { port, target_groups } => {
            format!("forwards TCP {port} to {}", joined(target_groups))
        }
        _ => "exists".to_owned(),
    }
}

fn joined(objects: &[Object]) -> String {
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    names.join(", ")
}
