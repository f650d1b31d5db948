//! All rules.

mod egress;
pub(crate) mod endpoints;
mod identity;
mod kubernetes;
pub(crate) mod load_balancers;
pub(crate) mod machine_groups;
pub(crate) mod machines;
mod pod_network;
mod routes;
pub(crate) mod security_groups;
mod storage;
pub(crate) mod subnets;
#[cfg(test)]
mod tests;
pub(crate) mod traffic;
pub(crate) mod vpc;

use crate::rule::Rule;

/// All rules, in the order of their ids.
pub fn rules() -> Vec<&'static Rule> {
    let tables = [
        identity::RULES,
        vpc::RULES,
        subnets::RULES,
        routes::RULES,
        endpoints::RULES,
        security_groups::RULES,
        pod_network::RULES,
        load_balancers::RULES,
        machines::RULES,
        storage::RULES,
        kubernetes::RULES,
    ];
    let mut rules: Vec<&Rule> = tables.into_iter().flatten().collect();
    rules.sort_by_key(|rule| (rule.category, number(rule)));
    rules
}

/// The rule with an id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    rules().into_iter().find(|rule| rule.id == id)
}

fn number(rule: &Rule) -> u32 {
    rule.id.get(1..).and_then(|number| number.parse().ok()).unwrap_or_default()
}
