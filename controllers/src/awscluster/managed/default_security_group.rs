//! The security group that AWS creates with a VPC. Pure.

use capa_cloud::ec2::security_group::{Call, Rule, Source};

use super::ingress::known;
use super::ledger::Presence;
use super::plan::{Plan, PlanContext, Why};
use super::reference::{Id, Kind};

/// Its name. AWS deletes it with the VPC.
pub(super) const NAME: &str = "default";
/// All addresses.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Removes the rules that AWS has created, if the spec asks for it. Rules of the user stay, as with CAPA.
pub(super) fn plan(context: &PlanContext<'_>, plan: &mut Plan) {
    let vpc = &context.inputs.vpc;
    let Presence::Shown(id) = context.presence(&vpc.target) else {
        return;
    };
    let mut groups = context.seen.ec2.security_groups.shown().into_iter().flatten();
    let default = groups.find(|group| group.name == NAME && group.vpc_id == id);
    let Some(group) = default.filter(|_| vpc.empties_default_security_group) else {
        return;
    };
    let target = vpc.target.part(Kind::DefaultSecurityGroupRules);
    let from_itself = |source: &Source<String>| matches!(source, Source::Group(id) if *id == group.id);
    let (ingress, egress) = (made(&group.ingress, from_itself), made(&group.egress, is_anywhere));
    let group = || Id::from(group.id.as_str());
    if !ingress.is_empty() {
        let call = Call::RevokeSecurityGroupIngress { group: group(), rules: ingress };
        plan.step(&target, Why::Unwanted, call);
    }
    if !egress.is_empty() {
        let call = Call::RevokeSecurityGroupEgress { group: group(), rules: egress };
        plan.step(&target, Why::Unwanted, call);
    }
}

/// The rules that AWS creates with the group: they admit all traffic of one end.
fn made(rules: &[Rule<String>], is_end: impl Fn(&Source<String>) -> bool) -> Vec<Rule<Id>> {
    let made = rules.iter().filter(|rule| rule.traffic.is_all() && is_end(&rule.source));
    made.map(known).collect()
}

fn is_anywhere(destination: &Source<String>) -> bool {
    matches!(destination, Source::Cidr(range) | Source::Ipv6Cidr(range) if ANYWHERE.contains(&range.as_str()))
}
