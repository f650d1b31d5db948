//! The generated parts of `docs/iam.md`.

use std::fmt::Write as _;

use anyhow::Result;
use capa_aws::iam_actions::{ACTIONS, AccessLevel, Action, Condition, Grant, MANAGED_ACTIONS, Named, Resources};

use super::nodes::{NEEDS, Nodes};
use super::policy::{Given, Partition, Policy};

/// Names and contents of all parts.
pub(super) fn parts() -> Result<[(&'static str, String); 6]> {
    let block = |policy: &Policy| -> Result<String> { Ok(format!("```json\n{}\n```\n", policy.json()?)) };
    let given = Given::default_of(Partition::Aws);
    let policy = Policy::of_controller(&given);
    Ok([
        ("iam-actions", actions(ACTIONS)),
        ("iam-controller-policy", block(&policy)?),
        ("iam-cluster-statements", block(&of_one_cluster(&policy))?),
        ("iam-managed-actions", actions(MANAGED_ACTIONS)),
        ("iam-managed-policy", block(&Policy::of_managed(&given))?),
        ("iam-nodes", nodes()),
    ])
}

/// The statements in which the policy for one cluster differs from the policy for all clusters.
fn of_one_cluster(policy: &Policy) -> Policy {
    let given = Given { clusters: vec!["team-a/dev".to_owned()], ..Given::default_of(Partition::Aws) };
    let of_cluster = Policy::of_controller(&given).statement.into_iter();
    Policy::new(of_cluster.filter(|statement| !policy.statement.contains(statement)).collect())
}

/// Actions of the controller.
fn actions(actions: &[Action]) -> String {
    let mut table = "| permission | access | allowed on | what for |\n| --- | --- | --- | --- |\n".to_owned();
    for action in actions {
        let Action { service, name, why, .. } = action;
        let on: Vec<_> = action.grants.iter().map(|grant| allowed_on(action, grant)).collect();
        let on = if on.is_empty() { "–".to_owned() } else { on.join("; ") };
        let access = access(action.access);
        let _ = writeln!(table, "| `{service}:{name}` | {access} | {on} | {why} |");
    }
    table
}

/// The actions of programs on nodes.
fn nodes() -> String {
    let mut table = "| statement | on | permissions | what for |\n| --- | --- | --- | --- |\n".to_owned();
    for need in NEEDS {
        let on = match need.on {
            Nodes::All => "all nodes",
            Nodes::ControlPlane => "control plane",
        };
        let actions: Vec<_> = need.actions.iter().map(|action| format!("`{action}`")).collect();
        let _ = writeln!(table, "| {} | {on} | {} | {} |", need.name, actions.join(", "), need.why);
    }
    table
}

const fn access(access: AccessLevel) -> &'static str {
    match access {
        AccessLevel::List => "list",
        AccessLevel::Read => "read",
        AccessLevel::Write => "write",
        AccessLevel::Tagging => "tagging",
        AccessLevel::Permissions => "permissions",
    }
}

/// The resources of a grant on which an action is allowed. A grant may cover several services.
fn allowed_on(action: &Action, grant: &Grant) -> String {
    let on = match grant.resources {
        Resources::All => "everything".to_owned(),
        Resources::Arns(arns) => {
            // The ARNs of buckets contain no resource type.
            let kind = |arn: &&'static str| arn.rsplit(':').next().filter(|kind| *kind != "*").unwrap_or(arn);
            let of_service = arns.iter().filter(|arn| arn.split(':').next() == Some(action.service));
            let kinds: Vec<_> = of_service.map(kind).collect();
            format!("`{}`", kinds.join("`, `"))
        }
        Resources::Named(Named::MachineRoles) => "the roles of `--pass-role`".to_owned(),
        Resources::Named(Named::IdentityRoles) => "the roles of `--assume-role`".to_owned(),
        Resources::Named(Named::EncryptionKeys) => "the keys of `--kms-key`".to_owned(),
    };
    let condition = match grant.condition {
        Condition::Always | Condition::GivenToCluster => return on,
        Condition::MarkedAtLaunch | Condition::NetworkAtCreation => "when they get the provider's role tag",
        Condition::Marked | Condition::Network => "with the provider's role tag",
        Condition::Within { actions, .. } => return format!("{on} within {}", actions.join(", ")),
        Condition::MarkedForOtherTags | Condition::NetworkForOtherTags => {
            "with the provider's role tag, for other tags than the provider's"
        }
        Condition::WithinLaunch => "within RunInstances, AllocateHosts and AllocateAddress",
        Condition::PassedToInstance => "for instances",
        Condition::ThroughEc2 => "through EC2",
        Condition::GrantedToAws => "for AWS's own services",
    };
    format!("{on} {condition}")
}

#[cfg(test)]
mod tests {
    use crate::markdown;

    #[test]
    fn the_documentation_has_what_the_table_generates() {
        let written = include_str!("../../docs/iam.md");
        for (name, content) in super::parts().expect("all parts") {
            let updated = markdown::with_part(written, name, &content).expect("docs/iam.md has the markers");
            assert!(written == updated, "docs/iam.md is not up to date: run `make generate`");
        }
    }
}
