//! Rules about security groups.

use std::collections::BTreeSet;

use capa_api::cluster::status::FindingSeverity::{Blocking, Warning};

use super::egress;
use super::machine_groups::{certain, first_certain, group_sets, in_vpc, machines, of_known_groups, peer_in};
use super::traffic::{self, Flow, Side};
use crate::facts::{Facts, GROUPS_OF_AN_INTERFACE, MachineRole, RULES_OF_A_GROUP, SecurityGroup, Traffic};
use crate::lookup::ranges;
use crate::reach::{Peer, allow, ingress};
use crate::rule::{Category::SecurityGroups, Checked, Problem, Rule, ShownBy, Skipped, applies, known, of_each};
use crate::traffic_text::{cli_parameters, cli_parameters_with_range, traffic_text};

/// Maximum number of security groups of a network interface, and of rules of a security group, unless the account has
/// other quotas. Source: the user guide of VPC, «Amazon VPC quotas».
pub(crate) const USUAL_GROUPS_OF_AN_INTERFACE: f64 = 5.0;
const USUAL_RULES_OF_A_GROUP: f64 = 60.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "G1",
        category: SecurityGroups,
        severity: Blocking,
        title: "Every security group exists, and lies in the VPC",
        breaks: "Launches fail.",
        shown_by: ShownBy::Moto,
        check: exist,
    },
    Rule {
        id: "G2",
        category: SecurityGroups,
        severity: Blocking,
        title: "No machine has more security groups than a network interface can have",
        breaks: "Launches fail.",
        shown_by: ShownBy::Moto,
        check: count,
    },
    Rule {
        id: "G3",
        category: SecurityGroups,
        severity: Warning,
        title: "No security group has more rules than its quota",
        breaks: "The cloud controller cannot add rules for Services.",
        shown_by: ShownBy::Moto,
        check: rule_count,
    },
    Rule {
        id: "G4",
        category: SecurityGroups,
        severity: Blocking,
        title: "Control plane machines admit the port of the API server from workers, each other and the load balancer",
        breaks: "Machines hang while they join the cluster.",
        shown_by: ShownBy::Moto,
        check: |facts| admitted(facts, "G4"),
    },
    Rule {
        id: "G5",
        category: SecurityGroups,
        severity: Blocking,
        title: "Control plane machines admit TCP 2379-2380 from each other",
        breaks: "The second control plane machine cannot join etcd.",
        shown_by: ShownBy::Moto,
        check: |facts| admitted(facts, "G5"),
    },
    Rule {
        id: "G6",
        category: SecurityGroups,
        severity: Blocking,
        title: "All machines admit TCP 10250 from control plane machines",
        breaks: "kubectl logs and exec fail, and webhooks in the cluster time out.",
        shown_by: ShownBy::Moto,
        check: |facts| admitted(facts, "G6"),
    },
    Rule {
        id: "G7",
        category: SecurityGroups,
        severity: Warning,
        title: "Control plane machines admit TCP 10257 and 10259 from each other",
        breaks: "Metrics of the controller manager and the scheduler are not read from other control plane machines.",
        shown_by: ShownBy::Moto,
        check: |facts| admitted(facts, "G7"),
    },
    Rule {
        id: "G9",
        category: SecurityGroups,
        severity: Warning,
        title: "Workers admit TCP 30000-32767 from the VPC",
        breaks: "Load balancers of Services reach no node.",
        shown_by: ShownBy::Moto,
        check: |facts| admitted(facts, "G9"),
    },
    Rule {
        id: "G10",
        category: SecurityGroups,
        severity: Blocking,
        title: "All machines may connect to TCP 443, DNS, NTP and each other",
        breaks: "Nodes load no images, resolve no names or never join the cluster.",
        shown_by: ShownBy::Moto,
        check: egress::outgoing,
    },
    Rule {
        id: "G11",
        category: SecurityGroups,
        severity: Warning,
        title: "Exactly one security group of each machine has the tag kubernetes.io/cluster/<cluster>",
        breaks: "The cloud controller cannot decide which group to open for Services.",
        shown_by: ShownBy::Moto,
        check: cluster_tags,
    },
    Rule {
        id: "G12",
        category: SecurityGroups,
        severity: Warning,
        title: "Under a hosted control plane, workers may connect to TCP 8132 of konnectivity",
        breaks: "kubectl logs and exec, and webhooks, do not reach the nodes.",
        shown_by: ShownBy::Moto,
        check: egress::konnectivity,
    },
];

/// Returns a problem unless all machines of `role` admit the traffic from the peer.
pub(super) fn admits(
    facts: &Facts,
    role: MachineRole,
    traffic: Traffic,
    (name, peer): (&str, &Peer<'_>),
) -> Result<Option<Problem>, Skipped> {
    let sets = group_sets(facts, role)?;
    let refusing = sets.iter().filter(|set| !allow(ingress(&set.groups), traffic, peer));
    let refusing = refusing.map(|set| (set.filters(ingress(&set.groups), traffic, peer), set));
    let Some(set) = first_certain(refusing)? else {
        return Ok(None);
    };
    let ids: Vec<&str> = set.groups.iter().map(|group| group.id.as_str()).collect();
    let of = match role {
        MachineRole::ControlPlane => "control plane machines",
        MachineRole::Worker => "workers",
    };
    let source = match peer.group_ids.iter().next() {
        Some(group) => format!("{} --source-group {group}", cli_parameters(traffic)),
        None => cli_parameters_with_range(traffic, peer.ranges.first().copied().unwrap_or_default()),
    };
    let group = ids.last().copied().unwrap_or_default();
    let problem = Problem::new(
        ids.join(","),
        format!("the security groups of {of} do not admit {} from {name}", traffic_text(traffic)),
        format!("admit {} from {name}", traffic_text(traffic)),
    );
    let command = facts.aws(&format!("ec2 authorize-security-group-ingress --group-id {group} {source}"));
    Ok(Some(of_known_groups(facts, problem).fixed_by(command)))
}

fn exist(facts: &Facts) -> Checked {
    let groups = known(&facts.security_groups, "the security groups")?;
    let ids = facts.demand.group_ids(None);
    let vpc = facts.vpc.found().and_then(Option::as_ref);
    let mut problems = Vec::new();
    // Machines whose templates are not known may name groups of their own.
    applies(!ids.is_empty() || !facts.demand.machines.is_empty())?;
    if ids.is_empty() && facts.demand.with_security_group_filters(None).is_none() {
        let fix = "name security groups: the default group of the VPC is never used";
        problems.push(Problem::new("machines", "machines have no security group", fix));
    }
    for id in ids {
        match (groups.iter().find(|group| group.id == id), vpc) {
            (None, _) => problems.push(Problem::new(
                id,
                format!("{id} does not exist in {}", facts.demand.region),
                "correct the id or the region, or create the security group",
            )),
            (Some(group), Some(vpc)) if group.vpc_id != vpc.id => problems.push(Problem::new(
                id,
                format!("{id} lies in {}, not in {}", group.vpc_id, vpc.id),
                "name security groups of the VPC of the subnets",
            )),
            _ => {}
        }
    }
    let command = facts.aws("ec2 describe-security-groups --query 'SecurityGroups[].[GroupId,VpcId,GroupName]'");
    Ok(problems.into_iter().map(|problem| problem.fixed_by(command.clone())).collect())
}

fn quota(facts: &Facts, code: &str, usual: f64) -> f64 {
    facts.quotas.found().and_then(|quotas| quotas.get(code)).copied().unwrap_or(usual)
}

#[allow(clippy::cast_precision_loss, reason = "counts of groups and rules are small")]
fn count(facts: &Facts) -> Checked {
    applies(!facts.demand.machines.is_empty())?;
    let most = quota(facts, GROUPS_OF_AN_INTERFACE, USUAL_GROUPS_OF_AN_INTERFACE);
    let mut problems = Vec::new();
    for machines in &facts.demand.machines {
        let groups = machines.security_groups(&facts.demand.network).len();
        if groups as f64 > most {
            problems.push(
                Problem::new(
                    &machines.template,
                    format!("machines have {groups} security groups, and a network interface can have {most}"),
                    "use fewer groups, or ask AWS for a higher quota",
                )
                .fixed_by(facts.aws(&format!(
                    "service-quotas request-service-quota-increase --service-code vpc --quota-code \
                     {GROUPS_OF_AN_INTERFACE} --desired-value {groups}"
                ))),
            );
        }
    }
    Ok(problems)
}

#[allow(clippy::cast_precision_loss, reason = "counts of groups and rules are small")]
fn rule_count(facts: &Facts) -> Checked {
    let most = quota(facts, RULES_OF_A_GROUP, USUAL_RULES_OF_A_GROUP);
    let mut problems = Vec::new();
    for group in facts.groups(&facts.demand.group_ids(None))? {
        for (direction, rules) in [("incoming", &group.ingress), ("outgoing", &group.egress)] {
            let count = rules.len();
            if count as f64 >= most {
                let message = format!("{} has no room for another rule for {direction} traffic", group.id);
                problems.push(Problem::new(&group.id, message, "join rules, or ask AWS for a higher quota").fixed_by(
                    facts.aws(&format!(
                        "service-quotas request-service-quota-increase --service-code vpc --quota-code \
                         {RULES_OF_A_GROUP} --desired-value {}",
                        count * 2
                    )),
                ));
            }
        }
    }
    Ok(problems)
}

/// The other sides of connections, with their names.
fn peers(facts: &Facts, side: Side) -> Result<Vec<(String, Peer<'_>)>, Skipped> {
    let (name, peer) = match side {
        Side::Workers => ("workers", machines(facts, Some(MachineRole::Worker))?),
        Side::ControlPlane => ("control plane machines", machines(facts, Some(MachineRole::ControlPlane))?),
        Side::Machines => ("all machines", machines(facts, None)?),
        Side::Vpc => ("the VPC", in_vpc(facts)?),
        Side::Anywhere => ("everywhere", peer_in([facts.default_destination_of_machines()?])),
        Side::LoadBalancers => return load_balancers(facts),
    };
    Ok(vec![(name.to_owned(), peer)])
}

/// The load balancers of the control plane that have a security group or an address in a known subnet.
fn load_balancers(facts: &Facts) -> Result<Vec<(String, Peer<'_>)>, Skipped> {
    let subnets = facts.of_network(&facts.subnets, "the subnets")?;
    let balancers = facts.the_load_balancers().unwrap_or_default().into_iter();
    let peers = balancers.map(|balancer| {
        let ids: BTreeSet<&String> = balancer.subnets.values().collect();
        let peer = Peer {
            group_ids: balancer.security_group_ids.iter().map(String::as_str).collect(),
            ranges: ranges(subnets.iter().filter(|subnet| ids.contains(&subnet.id))),
            found_by: None,
        };
        (format!("load balancer {}", balancer.name), peer)
    });
    Ok(peers.filter(|(_, peer)| !peer.ranges.is_empty() || !peer.group_ids.is_empty()).collect())
}

/// Checks the traffic that machines must admit according to a rule of this table.
fn admitted(facts: &Facts, rule: &str) -> Checked {
    let flows: Vec<Flow> = traffic::incoming(&facts.demand).into_iter().filter(|flow| flow.rule == rule).collect();
    applies(!flows.is_empty())?;
    let mut answers = Vec::new();
    for flow in flows {
        for (name, peer) in peers(facts, flow.side)? {
            answers.push(admits(facts, flow.role, flow.traffic, (&name, &peer)));
        }
    }
    of_each(answers)
}

fn cluster_tags(facts: &Facts) -> Checked {
    let mut answers = Vec::new();
    for role in [MachineRole::ControlPlane, MachineRole::Worker] {
        match group_sets(facts, role) {
            Err(Skipped::NotApplicable) => {}
            sets => answers.extend(sets?.iter().map(|set| {
                certain(set.found_by)?;
                Ok(cluster_tag_problem(facts, &set.groups))
            })),
        }
    }
    of_each(answers)
}

/// The problem that the number of groups of a machine with the cluster's tag is not one.
fn cluster_tag_problem(facts: &Facts, groups: &[&SecurityGroup]) -> Option<Problem> {
    let key = facts.demand.cluster_tag_key();
    let tagged: Vec<&str> =
        groups.iter().filter(|group| group.tags.contains_key(&key)).map(|group| group.id.as_str()).collect();
    let ids: Vec<&str> = groups.iter().map(|group| group.id.as_str()).collect();
    Some(match tagged.as_slice() {
        [_] => return None,
        [] => Problem::new(
            ids.join(","),
            format!("none of the security groups {} has the tag {key}", ids.join(", ")),
            format!("tag one of them with {key}=shared"),
        )
        .fixed_by(facts.aws(&format!(
            "ec2 create-tags --resources {} --tags Key={key},Value=shared",
            ids.first().copied().unwrap_or_default()
        ))),
        several => Problem::new(
            ids.join(","),
            format!("several security groups of a machine have the tag {key}: {}", several.join(", ")),
            "remove the tag from all but one",
        )
        .fixed_by(facts.aws(&format!(
            "ec2 delete-tags --resources {} --tags Key={key}",
            several.last().copied().unwrap_or_default()
        ))),
    })
}
