//! Rules about the VPC.

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};
use capa_api::common::HostnameType;
use capa_api::machine::Tenancy;

use crate::facts::{Demand, Facts, MachineDemand};
use crate::reach::overlaps;
use crate::rule::{Category::Vpc, Checked, Problem, Rule, ShownBy, Skipped, applies, known};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "V1",
        category: Vpc,
        severity: Blocking,
        title: "The VPC exists, and is available",
        breaks: "No machine can be launched.",
        shown_by: ShownBy::Moto,
        check: exists,
    },
    Rule {
        id: "V2",
        category: Vpc,
        severity: Blocking,
        title: "The VPC has DNS support",
        breaks: "Nodes resolve no names, neither of registries nor of the API server.",
        shown_by: ShownBy::Moto,
        check: dns_support,
    },
    Rule {
        id: "V3",
        category: Vpc,
        severity: Blocking,
        title: "The VPC gives instances DNS host names",
        breaks: "The cloud controller does not find the instance of a node by its name, and private DNS names of VPC \
                 endpoints do not work.",
        shown_by: ShownBy::Moto,
        check: dns_hostnames,
    },
    Rule {
        id: "V4",
        category: Vpc,
        severity: Warning,
        title: "The DHCP options have the domain name of the region and Amazon's DNS server, unless nodes are named \
                otherwise",
        breaks: "The host name of an instance differs from its private DNS name, so the cloud controller removes the \
                 node.",
        shown_by: ShownBy::Moto,
        check: dhcp_options,
    },
    Rule {
        id: "V5",
        category: Vpc,
        severity: Blocking,
        title: "The address ranges of the VPC do not overlap those of pods and Services",
        breaks: "Pods cannot reach a part of the VPC, or nodes cannot reach Services.",
        shown_by: ShownBy::Moto,
        check: ranges,
    },
    Rule {
        id: "V6",
        category: Vpc,
        severity: Blocking,
        title: "The VPC has an IPv6 range if pods or Services have IPv6 addresses",
        breaks: "Nodes get no IPv6 address, and pods with IPv6 addresses are not reachable.",
        shown_by: ShownBy::Moto,
        check: ipv6,
    },
    Rule {
        id: "V7",
        category: Vpc,
        severity: Warning,
        title: "The VPC belongs to the account of the cluster",
        breaks: "AWS shows the tags of the owner to the owner only, so the cloud controller finds no subnets for load \
                 balancers until your account tags them, too.",
        shown_by: ShownBy::Recorded,
        check: owner,
    },
    Rule {
        id: "V8",
        category: Vpc,
        severity: Warning,
        title: "The tenancy of the VPC is the one that machines ask for",
        breaks: "In a VPC with dedicated tenancy every instance is dedicated and costs more; the tenancy default is \
                 not possible.",
        shown_by: ShownBy::Moto,
        check: tenancy,
    },
];

fn exists(facts: &Facts) -> Checked {
    let wanted = facts.demand.network.vpc.as_ref().map_or("the VPC", |vpc| vpc.id.as_str());
    let problem = match facts.of_network(&facts.vpc, "the VPC")? {
        None => Some(Problem::new(
            wanted,
            format!("{wanted} does not exist in {}", facts.demand.region),
            "correct the id or the region, or create the VPC",
        )),
        Some(vpc) if !vpc.is_available() => {
            Some(Problem::new(&vpc.id, format!("{} is {}", vpc.id, vpc.state), "wait until the VPC is available"))
        }
        Some(_) => None,
    };
    let command = facts.aws("ec2 describe-vpcs --query 'Vpcs[].[VpcId,State]'");
    Ok(problem.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

fn dns_support(facts: &Facts) -> Checked {
    attribute(facts, "enableDnsSupport", "enable-dns-support", "DNS support", |facts| {
        Ok(facts.of_network(&facts.vpc_dns, "the DNS settings of the VPC")?.support)
    })
}

fn dns_hostnames(facts: &Facts) -> Checked {
    attribute(facts, "enableDnsHostnames", "enable-dns-hostnames", "DNS host names", |facts| {
        Ok(facts.of_network(&facts.vpc_dns, "the DNS settings of the VPC")?.hostnames)
    })
}

fn attribute(facts: &Facts, name: &str, flag: &str, what: &str, is_on: fn(&Facts) -> Result<bool, Skipped>) -> Checked {
    let vpc = &facts.the_vpc()?.id;
    if is_on(facts)? {
        return Ok(vec![]);
    }
    let problem = Problem::new(vpc, format!("{vpc} has no {what}"), format!("set {name} of the VPC"));
    Ok(vec![
        problem.fixed_by(facts.aws(&format!("ec2 modify-vpc-attribute --vpc-id {vpc} --{flag} '{{\"Value\":true}}'"))),
    ])
}

/// Domain of the private DNS names of instances in a region.
pub(crate) fn region_domain(region: &str) -> String {
    match region {
        "us-east-1" => "ec2.internal".to_owned(),
        region => format!("{region}.compute.internal"),
    }
}

/// Whether the names of nodes belong to the domain of the region. They do not if all machines are named by their ids.
pub(crate) fn needs_region_domain(demand: &Demand) -> bool {
    let is_named_by_id = |machines: &MachineDemand| {
        let name = machines.spec.private_dns_name.as_ref();
        name.is_some_and(|name| name.hostname_type == Some(HostnameType::ResourceName))
    };
    demand.machines.is_empty() || !demand.machines.iter().all(is_named_by_id)
}

fn dhcp_options(facts: &Facts) -> Checked {
    let vpc = facts.the_vpc()?;
    let Some(options) = facts.of_network(&facts.dhcp_options, "the DHCP options")? else {
        return Ok(vec![Problem::new(
            &vpc.id,
            format!("{} has no DHCP options, so instances get no DNS server", vpc.id),
            "associate DHCP options with the DNS server AmazonProvidedDNS",
        )]);
    };
    let domain = region_domain(&facts.demand.region);
    let mut problems = Vec::new();
    let has_domain = options.domain_names.iter().any(|name| name.split_whitespace().any(|name| name == domain));
    if !has_domain && needs_region_domain(&facts.demand) {
        problems.push(Problem::new(
            &options.id,
            format!("the domain name of {} is not {domain}", options.id),
            "set the domain name of the region in the DHCP options, or privateDnsName.hostnameType: resource-name for \
             all machines",
        ));
    }
    if options.domain_name_servers.is_empty() {
        problems.push(Problem::new(
            &options.id,
            format!("{} has no DNS server", options.id),
            "set the DNS server AmazonProvidedDNS, or one that resolves AWS's names",
        ));
    }
    let command = facts.aws(&format!(
        "ec2 create-dhcp-options --dhcp-configurations Key=domain-name,Values={domain} \
         Key=domain-name-servers,Values=AmazonProvidedDNS"
    ));
    Ok(problems.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

fn ranges(facts: &Facts) -> Checked {
    let vpc = facts.the_vpc()?;
    applies(!facts.demand.cluster_cidrs.is_empty())?;
    let mut problems = Vec::new();
    for own in &facts.demand.cluster_cidrs {
        let blocks = vpc.cidr_blocks.iter().chain(&vpc.ipv6_cidr_blocks);
        for block in blocks.filter(|block| overlaps(own, block)) {
            problems.push(Problem::new(
                &vpc.id,
                format!("{block} of {} overlaps {own} of the cluster", vpc.id),
                "choose other ranges in spec.clusterNetwork of the Cluster",
            ));
        }
    }
    Ok(problems)
}

fn ipv6(facts: &Facts) -> Checked {
    applies(facts.demand.wants_ipv6)?;
    let vpc = facts.the_vpc()?;
    let problem = vpc.ipv6_cidr_blocks.is_empty().then(|| {
        Problem::new(&vpc.id, format!("{} has no IPv6 range", vpc.id), "associate an IPv6 range with the VPC").fixed_by(
            facts.aws(&format!("ec2 associate-vpc-cidr-block --vpc-id {} --amazon-provided-ipv6-cidr-block", vpc.id)),
        )
    });
    Ok(problem.into_iter().collect())
}

fn owner(facts: &Facts) -> Checked {
    let vpc = facts.the_vpc()?;
    known(&facts.account_id, "the account")?;
    let problem = facts.is_in_shared_vpc().then(|| {
        Problem::new(
            &vpc.id,
            format!("{} belongs to account {}", vpc.id, vpc.owner_id),
            "tag the subnets with credentials of your own account as S9 and S10 ask, because AWS does not show you the \
             tags of the owner, and use security groups of your own account",
        )
    });
    Ok(problem.into_iter().collect())
}

/// Whether the machines share the hardware of their hosts with other customers.
pub(crate) fn wants_default_tenancy(machines: &MachineDemand) -> bool {
    let tenancy = machines.spec.tenancy;
    tenancy.is_none_or(|tenancy| tenancy == Tenancy::Default)
}

fn tenancy(facts: &Facts) -> Checked {
    let vpc = facts.the_vpc()?;
    applies(vpc.tenancy == Tenancy::Dedicated)?;
    let shared = facts.demand.machines.iter().filter(|machines| wants_default_tenancy(machines));
    let problems = shared.map(|machines| {
        Problem::new(
            &machines.template,
            format!("machines with the tenancy default become dedicated in {}", vpc.id),
            "set tenancy: dedicated, or use a VPC with the tenancy default",
        )
        .fixed_by(facts.aws(&format!("ec2 modify-vpc-tenancy --vpc-id {} --instance-tenancy default", vpc.id)))
    });
    Ok(problems.collect())
}
