//! Broken security groups and load balancers.

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::{LoadBalancerKind, LoadBalancerState, Protocol, TargetType};

use super::{Bad, attributes, bad_world, balancer, found, group, machines, target_group};
use crate::facts::{IpAddressType, Source};
use crate::testing::{BALANCER_ARN, GROUP_ARN, of_range};

pub(super) fn bad() -> Vec<Bad> {
    [groups(), load_balancing()].into_iter().flatten().collect()
}

fn groups() -> Vec<Bad> {
    const BOTH: &str = "sg-0000000a,sg-0000000b";
    vec![
        bad_world("G1", "sg-0000000b", "does not exist", |facts| {
            found(&mut facts.security_groups).retain(|group| group.id != "sg-0000000b");
        }),
        bad_world("G1", "sg-0000000a", "lies in vpc-0000000f", |facts| {
            group(facts, "sg-0000000a").vpc_id = "vpc-0000000f".to_owned();
        }),
        bad_world("G1", "machines", "no security group", |facts| {
            facts.demand.network.security_groups = None;
        }),
        bad_world("G2", "AWSMachineTemplate/control-plane", "machines have 6 security groups", |facts| {
            let groups = facts.demand.network.security_groups.as_mut().unwrap();
            groups.control_plane.extend((1..5).map(|number| format!("sg-0000001{number}")));
        }),
        bad_world("G2", "AWSMachineTemplate/control-plane", "can have 1", |facts| {
            found(&mut facts.quotas).insert("L-2AFB9258".to_owned(), 1.0);
        }),
        bad_world("G3", "sg-0000000a", "no room for another rule for incoming", |facts| {
            let ranges = (0..56).map(|number| of_range("tcp", Some((80, 80)), &format!("10.1.{number}.0/24")));
            group(facts, "sg-0000000a").ingress.extend(ranges);
        }),
        bad_world("G4", BOTH, "do not admit TCP 6443 from workers", |facts| {
            group(facts, "sg-0000000b").ingress.remove(0);
            group(facts, "sg-0000000a").ingress.push(of_range("tcp", Some((6443, 6443)), "10.9.0.0/16"));
        }),
        bad_world("G4", BOTH, "do not admit TCP 6443 from load balancer api", |facts| {
            group(facts, "sg-0000000b").ingress.remove(2);
        }),
        bad_world("G5", BOTH, "do not admit TCP 2379-2380", |facts| {
            group(facts, "sg-0000000b").ingress[3].traffic.ports = Some((2379, 2379));
        }),
        bad_world("G6", "sg-0000000a", "do not admit TCP 10250 from control plane machines", |facts| {
            group(facts, "sg-0000000a").ingress.remove(0);
        }),
        bad_world("G6", "sg-0000000e", "do not admit TCP 10250 from control plane machines", |facts| {
            // The groups of another template do not help.
            let own = [("node".to_owned(), "sg-0000000e".to_owned())];
            machines(facts, "pinned").spec.security_group_overrides = own.into();
        }),
        bad_world("G7", BOTH, "do not admit TCP 10257", |facts| {
            group(facts, "sg-0000000b").ingress[4].traffic.ports = Some((10250, 10250));
        }),
        bad_world("G8", "sg-0000000a", "do not admit IP in IP (protocol 4)", |facts| {
            group(facts, "sg-0000000a").ingress.remove(2);
        }),
        bad_world("G8", "sg-0000000a", "do not admit UDP 8472 from all machines", |facts| {
            facts.demand.cni = Some(capa_api::cluster::preflight::PodNetwork::Cilium);
        }),
        bad_world("G9", "sg-0000000a", "do not admit TCP 30000-32767 from the VPC", |facts| {
            group(facts, "sg-0000000a").ingress[3].source = Source::Cidr("10.0.1.0/24".to_owned());
        }),
        bad_world("G10", "sg-0000000a", "do not allow TCP 443 to 0.0.0.0/0", |facts| {
            group(facts, "sg-0000000a").egress[0] = of_range("-1", None, "10.0.0.0/16");
        }),
        bad_world("G10", BOTH, "do not allow UDP 53 to the DNS servers of the VPC", |facts| {
            found(&mut facts.dhcp_options).as_mut().unwrap().domain_name_servers.push("10.0.0.10".to_owned());
            group(facts, "sg-0000000a").egress[0] = of_range("tcp", Some((0, 65535)), "0.0.0.0/0");
        }),
        bad_world("G11", BOTH, "several security groups of a machine", |facts| {
            let key = "kubernetes.io/cluster/prod".to_owned();
            group(facts, "sg-0000000b").tags.insert(key, "owned".to_owned());
        }),
        bad_world("G11", "sg-0000000a", "none of the security groups", |facts| {
            group(facts, "sg-0000000a").tags.clear();
        }),
        bad_world("G12", "sg-0000000a", "do not allow TCP 8132", |facts| {
            group(facts, "sg-0000000a").egress[0] = of_range("tcp", Some((443, 443)), "0.0.0.0/0");
        }),
    ]
}

fn load_balancing() -> Vec<Bad> {
    vec![
        bad_world("L1", GROUP_ARN, "does not exist", |facts| {
            found(&mut facts.target_groups).clear();
        }),
        bad_world("L1", GROUP_ARN, "the protocol HTTP", |facts| {
            target_group(facts).protocol = Protocol::Http;
        }),
        bad_world("L1", GROUP_ARN, "the target type lambda", |facts| {
            target_group(facts).target_type = TargetType::Other("lambda".to_owned());
        }),
        bad_world("L1", GROUP_ARN, "lies in vpc-0000000f", |facts| {
            target_group(facts).vpc_id = "vpc-0000000f".to_owned();
        }),
        bad_world("L1", GROUP_ARN, "has port 443, and the API server 6443", |facts| {
            target_group(facts).port = 443;
        }),
        bad_world("L2", GROUP_ARN, "no load balancer forwards", |facts| {
            target_group(facts).load_balancer_arns.clear();
        }),
        bad_world("L2", GROUP_ARN, "no listener on port 6443", |facts| {
            found(facts.listeners.get_mut(BALANCER_ARN).unwrap())[0].port = 443;
        }),
        bad_world("L3", "api", "of type application", |facts| {
            balancer(facts).kind = LoadBalancerKind::Application;
        }),
        bad_world("L3", "api", "is provisioning", |facts| {
            balancer(facts).state = LoadBalancerState::Provisioning;
        }),
        bad_world("L3", "api", "lacks addresses in its subnets", |facts| {
            balancer(facts).state = LoadBalancerState::ActiveImpaired;
        }),
        bad_world("L3", "api", "no free subnet", |facts| {
            balancer(facts).state = LoadBalancerState::Failed("no free subnet".to_owned());
        }),
        bad_world("L3", "api", "no IPv6 addresses", |facts| {
            balancer(facts).ip_address_type = IpAddressType::Ipv4;
        }),
        bad_world("L4", "api", "no subnet in eu-west-1c", |facts| {
            balancer(facts).subnets.remove("eu-west-1c");
        }),
        bad_world("L4", "api", "no subnet in eu-west-1c", |facts| {
            balancer(facts).subnets.remove("eu-west-1c");
            let key = "load_balancing.cross_zone.enabled".to_owned();
            attributes(facts, BALANCER_ARN).insert(key.clone(), "true".to_owned());
            attributes(facts, GROUP_ARN).insert(key, "false".to_owned());
        }),
        bad_world("L5", GROUP_ARN, "is HTTP", |facts| {
            target_group(facts).health_check.protocol = Protocol::Http;
        }),
        bad_world("L5", GROUP_ARN, "asks for /", |facts| {
            target_group(facts).health_check.path = Some("/".to_owned());
        }),
        bad_world("L5", GROUP_ARN, "needs 150 seconds", |facts| {
            target_group(facts).health_check.timing.interval_seconds = 30;
            target_group(facts).health_check.timing.threshold_count = 5;
        }),
        bad_world("L6", GROUP_ARN, "preserve the addresses", |facts| {
            attributes(facts, GROUP_ARN).remove("preserve_client_ip.enabled");
        }),
        bad_world("L7", GROUP_ARN, "do not admit TCP 6443 from clients on the internet", |facts| {
            attributes(facts, GROUP_ARN).remove("preserve_client_ip.enabled");
            balancer(facts).scheme = LoadBalancerScheme::InternetFacing;
        }),
        bad_world("L7", GROUP_ARN, "do not admit TCP 6443 from machines", |facts| {
            attributes(facts, GROUP_ARN).remove("preserve_client_ip.enabled");
            let ingress = &mut group(facts, "sg-0000000b").ingress;
            ingress.retain(|rule| rule.traffic.ports != Some((6443, 6443)));
        }),
        bad_world("L8", GROUP_ARN, "keeps connections", |facts| {
            let key = "deregistration_delay.connection_termination.enabled";
            attributes(facts, GROUP_ARN).insert(key.to_owned(), "false".to_owned());
        }),
        bad_world("L9", "api", "do not admit TCP 6443 from machines", |facts| {
            group(facts, "sg-0000000d").ingress[0].source = Source::Cidr("10.9.0.0/16".to_owned());
        }),
        bad_world("L9", "api", "do not admit TCP 6443 from the internet", |facts| {
            balancer(facts).scheme = LoadBalancerScheme::InternetFacing;
        }),
        bad_world("L10", "other.elb.eu-west-1.amazonaws.com", "none of the load balancers", |facts| {
            facts.demand.endpoint.as_mut().unwrap().host = "other.elb.eu-west-1.amazonaws.com".to_owned();
        }),
    ]
}
