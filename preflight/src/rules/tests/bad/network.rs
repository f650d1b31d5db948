//! Broken credentials, VPCs, subnets, routes and endpoints.

use capa_api::network::ZoneType;

use super::{Bad, bad_world, default_route, deny, failed, found, group, machines, subnet, vpc};
use crate::facts::{Answer, Availability, DryRun, FailureKind, NatGatewayState, OptInStatus, RouteTarget};
use crate::testing::VPC;

pub(super) fn bad() -> Vec<Bad> {
    [identity(), of_vpc(), subnets(), routes(), endpoints()].into_iter().flatten().collect()
}

fn identity() -> Vec<Bad> {
    vec![
        bad_world("I1", "credentials", "refuses the credentials", |facts| {
            facts.account_id = Answer::Failed(failed("GetCallerIdentity", FailureKind::Denied));
        }),
        bad_world("I1", "999988887777", "expects account 111122223333", |facts| {
            facts.account_id = Answer::Found("999988887777".to_owned());
        }),
        bad_world("I2", "eu-west-1", "has no region", |facts| {
            found(&mut facts.regions).clear();
        }),
        bad_world("I2", "eu-west-1", "not enabled", |facts| {
            found(&mut facts.regions)[0].opt_in_status = OptInStatus::NotOptedIn;
        }),
        bad_world("I3", "ec2", "does not answer DescribeVpcs", |facts| {
            facts.vpc = Answer::Failed(failed("DescribeVpcs", FailureKind::Unreachable));
        }),
        bad_world("I4", "AWSMachineTemplate/workers", "may not launch", |facts| {
            let denied = DryRun::Denied("iam:PassRole".to_owned());
            facts.launches.insert("AWSMachineTemplate/workers".to_owned(), Answer::Found(denied));
        }),
        bad_world("I4", "AWSMachineTemplate/workers", "refuses the launch", |facts| {
            let refused = DryRun::Refused("InvalidParameterValue".to_owned());
            facts.launches.insert("AWSMachineTemplate/workers".to_owned(), Answer::Found(refused));
        }),
        bad_world("I5", "TerminateInstances", "may not call", |facts| {
            let denied = Answer::Found(DryRun::Denied("no".to_owned()));
            facts.other_calls.insert("TerminateInstances".to_owned(), denied);
        }),
    ]
}

fn of_vpc() -> Vec<Bad> {
    vec![
        bad_world("V1", VPC, "does not exist", |facts| facts.vpc = Answer::Found(None)),
        bad_world("V1", VPC, "is pending", |facts| vpc(facts).state = Availability::Pending),
        bad_world("V2", VPC, "no DNS support", |facts| {
            found(&mut facts.vpc_dns).support = false;
        }),
        bad_world("V3", VPC, "no DNS host names", |facts| {
            found(&mut facts.vpc_dns).hostnames = false;
        }),
        bad_world("V4", "dopt-0000000a", "is not eu-west-1.compute.internal", |facts| {
            found(&mut facts.dhcp_options).as_mut().unwrap().domain_names = vec!["corp.example.org".to_owned()];
        }),
        bad_world("V4", "dopt-0000000a", "no DNS server", |facts| {
            found(&mut facts.dhcp_options).as_mut().unwrap().domain_name_servers.clear();
        }),
        bad_world("V4", VPC, "has no DHCP options", |facts| {
            facts.dhcp_options = Answer::Found(None);
        }),
        bad_world("V5", VPC, "10.0.0.0/16 of vpc-0000000a overlaps 10.0.128.0/20", |facts| {
            facts.demand.cluster_cidrs.push("10.0.128.0/20".to_owned());
        }),
        bad_world("V6", VPC, "no IPv6 range", |facts| vpc(facts).ipv6_cidr_blocks.clear()),
        bad_world("V7", VPC, "belongs to account 999988887777", |facts| {
            vpc(facts).owner_id = "999988887777".to_owned();
        }),
        bad_world("V8", "AWSMachineTemplate/workers", "become dedicated", |facts| {
            machines(facts, "workers").spec.tenancy = None;
        }),
    ]
}

fn subnets() -> Vec<Bad> {
    vec![
        bad_world("S1", "subnet-0000000a", "does not exist", |facts| {
            found(&mut facts.subnets).retain(|subnet| subnet.id != "subnet-0000000a");
        }),
        bad_world("S1", "subnet-0000000a", "is pending", |facts| {
            subnet(facts, "subnet-0000000a").state = Availability::Pending;
        }),
        bad_world("S1", "subnet-0000000b", "lies in vpc-0000000f, not in vpc-0000000a", |facts| {
            subnet(facts, "subnet-0000000b").vpc_id = "vpc-0000000f".to_owned();
        }),
        bad_world("S2", "subnet-0000000a", "lies in eu-west-1b, and eu-west-1a is declared", |facts| {
            subnet(facts, "subnet-0000000a").zone = "eu-west-1b".to_owned();
        }),
        bad_world("S2", "AWSMachineTemplate/workers", "failure domain eu-west-1d has no subnet", |facts| {
            machines(facts, "workers").failure_domains.insert("eu-west-1d".to_owned());
        }),
        bad_world("S2", "AWSMachineTemplate/workers", "no subnet of the network is for the machines", |facts| {
            facts.demand.network.subnets.iter_mut().for_each(|subnet| subnet.public = Some(true));
        }),
        bad_world("S3", "control plane", "lie in eu-west-1a and eu-west-1b alone", |facts| {
            facts.demand.network.subnets.pop();
        }),
        bad_world("S4", "workers", "fewer free addresses", |facts| {
            machines(facts, "workers").replicas = 5_000;
        }),
        bad_world("S4", "subnet-0000000a", "fewer than 8 free addresses", |facts| {
            subnet(facts, "subnet-0000000a").free_addresses = 7;
        }),
        bad_world("S8", "subnet-0000000a", "does not allow TCP 443 out to 0.0.0.0/0", |facts| {
            found(&mut facts.network_acls)[0].entries.push(deny(50, true, (443, 443)));
        }),
        bad_world("S8", "subnet-0000000a", "does not allow TCP 32768-60999 in from 0.0.0.0/0", |facts| {
            found(&mut facts.network_acls)[0].entries.push(deny(50, false, (33_000, 34_000)));
        }),
        bad_world("S8", "subnet-0000000b", "does not allow TCP 10250 in from 10.0.1.0/24", |facts| {
            found(&mut facts.network_acls)[0].entries.push(deny(50, false, (10_000, 11_000)));
        }),
        bad_world("S9", "subnet-0000000a", "no tag kubernetes.io/cluster/prod", |facts| {
            subnet(facts, "subnet-0000000a").tags.remove("kubernetes.io/cluster/prod");
        }),
        bad_world("S10", "subnet-0000000a", "the private subnet", |facts| {
            subnet(facts, "subnet-0000000a").tags.remove("kubernetes.io/role/internal-elb");
        }),
        bad_world("S10", "subnet-0000001a", "the public subnet", |facts| {
            subnet(facts, "subnet-0000001a").tags.remove("kubernetes.io/role/elb");
        }),
        bad_world("S11", "subnet-0000000a", "has 50 tags", |facts| {
            let tags = (0..50).map(|number| (format!("key-{number}"), String::new()));
            subnet(facts, "subnet-0000000a").tags.extend(tags);
        }),
        bad_world("S12", "subnet-0000000a", "a local-zone", |facts| {
            found(&mut facts.zones)[0].zone_type = Some(ZoneType::LocalZone);
        }),
        bad_world("S12", "subnet-0000000a", "on an Outpost", |facts| {
            subnet(facts, "subnet-0000000a").outpost_arn = Some("arn:aws:outposts:eu-west-1:1:outpost/op-1".to_owned());
        }),
        bad_world("S13", "subnet-0000000a", "no IPv6 range", |facts| {
            subnet(facts, "subnet-0000000a").ipv6_cidr_blocks.clear();
        }),
        bad_world("S13", "subnet-0000000a", "does not assign", |facts| {
            subnet(facts, "subnet-0000000a").assigns_ipv6 = false;
        }),
        bad_world("S13", "subnet-0000000a", "several IPv6 ranges", |facts| {
            subnet(facts, "subnet-0000000a").ipv6_cidr_blocks.push("2001:db8:0:ff::/64".to_owned());
        }),
    ]
}

fn routes() -> Vec<Bad> {
    vec![
        bad_world("S5", "subnet-0000000a", "has no default route, and not all VPC endpoints", |facts| {
            found(&mut facts.route_tables)[0].routes.truncate(1);
        }),
        bad_world("S5", "subnet-0000000a", "leads to nat-0000000a, which is gone", |facts| {
            default_route(facts).is_blackhole = true;
        }),
        bad_world("S5", "subnet-0000000a", "leads to nat-0000000a, which is failed", |facts| {
            found(&mut facts.nat_gateways)[0].state = NatGatewayState::Failed;
        }),
        bad_world("S5", "subnet-0000000a", "leads to nat-0000000c, which does not exist", |facts| {
            default_route(facts).target = RouteTarget::NatGateway("nat-0000000c".to_owned());
        }),
        bad_world("S5", "subnet-0000000a", "its machines have no public address", |facts| {
            default_route(facts).target = RouteTarget::InternetGateway("igw-0000000a".to_owned());
        }),
        bad_world("S6", "subnet-0000001a", "no default route to an internet gateway", |facts| {
            found(&mut facts.route_tables)[3].routes[1].target = RouteTarget::NatGateway("nat-0000000a".to_owned());
        }),
        bad_world("S7", "subnet-0000000a", "subnet-0000000a in eu-west-1a uses nat-0000000b in eu-west-1b", |facts| {
            default_route(facts).target = RouteTarget::NatGateway("nat-0000000b".to_owned());
        }),
    ]
}

fn endpoints() -> Vec<Bad> {
    vec![
        bad_world("E2", "ecr.dkr", "no usable endpoint of ecr.dkr", |facts| {
            found(&mut facts.vpc_endpoints)[4].has_private_dns = false;
        }),
        bad_world("E2", "s3", "no usable endpoint of s3", |facts| {
            found(&mut facts.vpc_endpoints)[5].route_table_ids.clear();
        }),
        bad_world("E2", "sts", "no usable endpoint of sts", |facts| {
            found(&mut facts.vpc_endpoints)[2].state = Availability::Pending;
        }),
        bad_world("E2", "vpce-00000000", "do not admit TCP 443 from nodes", |facts| {
            group(facts, "sg-0000000e").ingress.clear();
        }),
        bad_world("E3", "api.elb.eu-west-1.amazonaws.com", "does not resolve", |facts| {
            found(&mut facts.endpoint_addresses).clear();
        }),
    ]
}
