//! Looks at the infrastructure before the cluster: a check finds the mistakes in a network that the user brings, and
//! passes once they are mended; a plan shows what the provider would create.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use capa_e2e::{
    ProviderCommand,
    aws_proxy::Account,
    user::{Network, User},
};
use serde_json::Value;

use crate::{
    plan::keep,
    screen::{self, Screen},
};

/// Rules about what machines need. The others warn of weaknesses, which this network has for the sake of a short
/// transcript: tags for load balancers of Services, a NAT gateway in each zone.
const RULES: &str = "V1,V2,V3,S1,S2,S5,G3,G4,G5,L1,L4";

/// The rules that the mistakes break.
const BROKEN: [&str; 3] = ["G4", "S5", "V3"];

/// Checks the network for the objects in a file, mends it, and checks it again.
pub(crate) async fn find_and_mend(
    screen: &Screen,
    account: &Account,
    user: &User,
    network: &Network,
    file: &str,
) -> anyhow::Result<()> {
    let facts = keep("facts.json", "")?;
    let check_file = ["check", "network", "-f", file, "--only", RULES, "--save-facts", &facts];
    screen.say("Your network has three mistakes. The provider's program finds them before a machine does:")?;
    screen::command(&format!("$ capa-rs {}", check_file.join(" ")));
    let (code, report) = provider(account, &check_file)?;
    screen.show(report.trim_end())?;
    ensure!(code == 1, "the check ended with {code}");
    let check_facts = ["check", "network", "--facts", &facts, "--only", RULES, "-o", "json"];
    let found = findings(&provider(account, &check_facts)?.1)?;
    ensure!(found == BROKEN.map(str::to_owned).into(), "the check found {found:?}");
    screen.say("You mend them:")?;
    user.complete_network(network).await?;
    screen::command(&format!("$ capa-rs {}", check_file.join(" ")));
    let (code, report) = provider(account, &check_file)?;
    ensure!(code == 0, "the check ended with {code}: {report}");
    screen.say("Nothing is found any more. A picture shows what there is, with the rules that warn:")?;
    let draw_facts = ["topology", "--facts", &facts, "-o", "svg"];
    let picture = keep("demo.svg", &provider(account, &draw_facts)?.1)?;
    screen.show(&format!("$ capa-rs {} > {picture}", draw_facts.join(" ")))
}

/// Shows what the provider would create for the objects in a file.
pub(crate) fn show_plan(screen: &Screen, account: &Account, file: &str) -> anyhow::Result<()> {
    let arguments = ["plan", "-f", file];
    screen::command(&format!("$ capa-rs {}", arguments.join(" ")));
    let (code, plan) = provider(account, &arguments)?;
    ensure!(code == 2 && plan.contains("CreateVpc"), "the plan ended with {code}: {plan}");
    screen.show(plan.trim_end())
}

/// Runs the provider's program, and gives its exit code and what it prints.
fn provider(account: &Account, arguments: &[&str]) -> anyhow::Result<(i32, String)> {
    let ran = ProviderCommand::new(account, arguments)?.run("")?;
    ensure!(!ran.printed.is_empty(), "nothing is printed, and {}", ran.errors);
    Ok((ran.code, ran.printed))
}

/// The rules with findings in a report.
fn findings(report: &str) -> anyhow::Result<BTreeSet<String>> {
    let report: Value = serde_json::from_str(report)?;
    let findings = report.pointer("/findings").and_then(Value::as_array).context("a list of findings")?;
    let rules = findings.iter().filter_map(|finding| finding.pointer("/rule").and_then(Value::as_str));
    Ok(rules.map(str::to_owned).collect())
}
