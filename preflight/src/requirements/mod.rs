//! What has to be provided for a cluster so that all rules pass. The list depends only on the objects of users, so it
//! is available before anything exists in AWS.

mod identity;
mod list;
mod load_balancer;
mod machines;
mod object;
mod plan;
mod requirement;
mod security_groups;
mod sentence;
mod subnets;
mod terraform;
#[cfg(test)]
mod tests;
mod text;
mod vpc;
mod wanted;

pub use object::{Kind, Object};
pub use requirement::{Requirement, Requirements};
pub use terraform::terraform;
pub use text::text;
pub use wanted::{GroupUse, Peer, SubnetUse, Wanted, WayOut, Zone};

pub use crate::facts::Traffic;
pub use crate::rules::traffic::AclTraffic;

use crate::facts::Demand;
use list::List;
use plan::Plan;

/// What has to be provided for a cluster.
pub fn requirements(demand: &Demand) -> Requirements {
    let plan = Plan::new(demand);
    let mut list = List::default();
    identity::add(&mut list, demand);
    vpc::add(&mut list, demand, &plan);
    subnets::add(&mut list, demand, &plan);
    security_groups::add(&mut list, demand, &plan);
    load_balancer::add(&mut list, demand, &plan);
    machines::add(&mut list, demand);
    Requirements {
        cluster: demand.cluster_tag.clone(),
        region: demand.region.clone(),
        requirements: list.into_requirements(),
    }
}
