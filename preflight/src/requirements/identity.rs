//! Credentials, region and permissions.

use super::list::List;
use super::object::{Kind, Object};
use super::wanted::Wanted;
use crate::facts::Demand;
use crate::rule::Category::Identity;

pub(super) fn add(list: &mut List, demand: &Demand) {
    let account = account(demand);
    let account_id = demand.account_id.clone();
    list.add(Identity, &["I1"], &account, Wanted::Credentials { account_id });
    let region = Wanted::EnabledRegion(demand.region.clone());
    list.add(Identity, &["I2"], &account, region);
    let services = Wanted::ReachableServices(vec!["sts", "ec2", "elasticloadbalancing"]);
    list.add(Identity, &["I3"], &account, services);
    let launch = vec!["ec2:RunInstances", "ec2:CreateTags", "iam:PassRole"];
    list.add(Identity, &["I4"], &account, Wanted::AllowedActions(launch));
    let others = vec!["ec2:TerminateInstances", "ec2:CreateTags"];
    list.add(Identity, &["I5"], &account, Wanted::AllowedActions(others));
}

/// The account of the cluster.
pub(super) fn account(demand: &Demand) -> Object {
    let name = demand.account_id.as_deref().unwrap_or("of the credentials");
    Object::existing(Kind::Account, name)
}
