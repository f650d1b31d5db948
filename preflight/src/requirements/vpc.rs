//! The VPC.

use super::list::List;
use super::plan::Plan;
use super::wanted::Wanted;
use crate::facts::Demand;
use crate::reach::overlaps;
use crate::rule::Category::Vpc;
use crate::rules::vpc::{needs_region_domain, region_domain, wants_default_tenancy};

pub(super) fn add(list: &mut List, demand: &Demand, plan: &Plan) {
    let vpc = &plan.vpc;
    let cidr_block = if vpc.exists { None } else { free_range(&demand.cluster_cidrs) };
    list.add(Vpc, &["V1"], vpc, Wanted::Vpc { cidr_block });
    list.add(Vpc, &["V2"], vpc, Wanted::DnsSupport);
    list.add(Vpc, &["V3"], vpc, Wanted::DnsHostnames);
    let domain = needs_region_domain(demand).then(|| region_domain(&demand.region));
    list.add(Vpc, &["V4"], vpc, Wanted::DhcpOptions { domain });
    if !demand.cluster_cidrs.is_empty() {
        list.add(Vpc, &["V5"], vpc, Wanted::ApartFrom(demand.cluster_cidrs.clone()));
    }
    if demand.wants_ipv6 {
        list.add(Vpc, &["V6"], vpc, Wanted::Ipv6);
    }
    list.add(Vpc, &["V7"], vpc, Wanted::OwnAccount);
    if demand.machines.iter().any(wants_default_tenancy) {
        list.add(Vpc, &["V8"], vpc, Wanted::DefaultTenancy);
    }
}

/// A private range for a VPC that overlaps none of these ranges.
fn free_range(taken: &[String]) -> Option<String> {
    let of_ten = (0..=255).map(|second| format!("10.{second}.0.0/16"));
    let of_172 = (16..=31).map(|second| format!("172.{second}.0.0/16"));
    let mut ranges = of_ten.chain(of_172).chain(["192.168.0.0/16".to_owned()]);
    ranges.find(|range| !taken.iter().any(|taken| overlaps(range, taken)))
}
