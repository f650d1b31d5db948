//! The check of the infrastructure before the cluster: it finds the mistakes in the network, and passes once they are
//! mended.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use capa_e2e::{
    aws_proxy::Account,
    provider_program,
    user::{Network, User},
};
use serde_json::Value;

use crate::{
    plan::{keep, repository},
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
    screen.say("Your network has three mistakes. The provider's program finds them before a machine does:")?;
    screen::command(&format!("$ capa-rs check network -f {file} --only {RULES}"));
    let (code, report) = check(account, file, "text")?;
    screen.show(report.trim_end())?;
    ensure!(code == 1, "the check ended with {code}");
    let found = findings(&check(account, file, "json")?.1)?;
    ensure!(found == BROKEN.map(str::to_owned).into(), "the check found {found:?}");
    screen.say("You mend them:")?;
    user.complete_network(network).await?;
    screen::command(&format!("$ capa-rs check network -f {file} --only {RULES} -o json"));
    let (code, report) = check(account, file, "json")?;
    ensure!(code == 0, "the check ended with {code}: {report}");
    screen.say("Nothing is found any more. A picture shows what there is, with the rules that warn:")?;
    let picture = keep(
        "demo.svg",
        &provider(account, &["topology", "--file", file, "--output", "svg"])?.1,
    )?;
    screen.show(&format!("$ capa-rs topology -f {file} -o svg > {picture}"))
}

/// The exit code and the report of the check.
fn check(account: &Account, file: &str, format: &str) -> anyhow::Result<(i32, String)> {
    let facts = keep("facts.json", "")?;
    let arguments = [
        "check",
        "network",
        "--file",
        file,
        "--only",
        RULES,
        "--output",
        format,
        "--save-facts",
        &facts,
    ];
    provider(account, &arguments)
}

/// Runs the provider's program, and gives its exit code and what it prints.
fn provider(account: &Account, arguments: &[&str]) -> anyhow::Result<(i32, String)> {
    let key = account.key();
    let output = Command::new(provider_program()?)
        .current_dir(repository())
        .args(arguments)
        .env("AWS_ENDPOINT_URL", account.url())
        .env("AWS_ACCESS_KEY_ID", &key.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key)
        .stdin(Stdio::null())
        .output()
        .context("run capa-rs")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output
        .status
        .code()
        .with_context(|| format!("the check was killed: {errors}"))?;
    ensure!(code != 2, "the check could not be done: {errors}");
    Ok((code, String::from_utf8(output.stdout)?))
}

/// The rules with findings in a report.
fn findings(report: &str) -> anyhow::Result<BTreeSet<String>> {
    let report: Value = serde_json::from_str(report)?;
    let findings = report
        .pointer("/findings")
        .and_then(Value::as_array)
        .context("a list of findings")?;
    let rules = findings
        .iter()
        .filter_map(|finding| finding.pointer("/rule").and_then(Value::as_str));
    Ok(rules.map(str::to_owned).collect())
}
