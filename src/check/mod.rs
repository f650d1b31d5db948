//! `capa-rs check`: finds problems of infrastructure before machines depend on it.

mod junit;
mod member;
mod text;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use capa_preflight::facts::Facts;
use capa_preflight::member::member_rules;
use capa_preflight::{Category, Outcome, Report, Rule, RuleAnswer, Selection, apply, check, redact, rules};
use clap::{Args, Subcommand, ValueEnum};

use crate::{facts, live};
use text::Style;

/// Exit code: a rule is broken.
const FINDINGS: u8 = 1;

/// Flags of `capa-rs check`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Debug, Subcommand)]
enum Subject {
    /// Check the infrastructure that the objects in a file require. Needs AWS credentials and no management cluster.
    #[command(
        after_help = "Exit codes: 0 no findings, 1 findings, 2 the check could not be done completely.\n\nExamples:\n  \
                      capa-rs check network -f cluster.yaml\n  \
                      capa-rs check network -f cluster.yaml --skip S7,L -o json\n  \
                      capa-rs check network --facts facts.json\n  \
                      capa-rs check network --explain G8"
    )]
    Network(NetworkFlags),
    /// Check the infrastructure of a Cluster in the management cluster, and the objects that describe its network.
    #[command(
        after_help = "Exit codes: 0 no findings, 1 findings, 2 the check could not be done completely.\n\nExample:\n  \
                      capa-rs check cluster prod -n team-a"
    )]
    Cluster(ClusterFlags),
    /// Check whether the API server of a kubeconfig can be a member of a fleet engine. Changes nothing in the cluster.
    #[command(
        after_help = "Exit codes: 0 no findings, 1 findings, 2 the check could not be done completely.\n\nExamples:\n  \
                      capa-rs check member workload.kubeconfig\n  \
                      capa-rs check member workload.kubeconfig --skip P -o json"
    )]
    Member(MemberFlags),
}

#[derive(Debug, Args)]
struct NetworkFlags {
    /// File with the Cluster and the objects that describe its network, such as an unmanaged AWSCluster, and with the
    /// templates, control plane and deployments as far as they exist; `-` for standard input.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["facts", "explain"])]
    file: Option<PathBuf>,

    /// Check facts that an earlier check has saved, instead of calling AWS.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    facts: Option<PathBuf>,

    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    saving: SavingFlags,
}

#[derive(Debug, Args)]
struct MemberFlags {
    /// Kubeconfig of the cluster.
    #[arg(value_name = "KUBECONFIG", required_unless_present = "explain")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,

    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Debug, Args)]
struct ClusterFlags {
    /// Name of the Cluster.
    #[arg(required_unless_present = "explain")]
    name: Option<String>,

    #[command(flatten)]
    live: live::SourceFlags,

    #[command(flatten)]
    output: OutputFlags,

    #[command(flatten)]
    saving: SavingFlags,
}

#[derive(Debug, Args)]
struct OutputFlags {
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,

    /// Rules to apply, by id or letter of their category, separated by commas. Default: all.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    only: Vec<String>,

    /// Rules to leave out, by id or letter of their category, separated by commas.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    skip: Vec<String>,

    /// Explain a rule instead of running a check.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,

    /// Also show the rules that do not apply.
    #[arg(short, long)]
    verbose: bool,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = When::Auto)]
    color: When,
}

#[derive(Debug, Default, Args)]
struct SavingFlags {
    /// Save the facts of this check, for another check or for a bug report.
    #[arg(long, value_name = "FILE")]
    save_facts: Option<PathBuf>,

    /// Replace the ids of resources and accounts in saved facts, and leave public addresses out.
    #[arg(long, requires = "save_facts")]
    redact: bool,
}

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// For CI systems that show tests.
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Checks and prints the report. The exit code tells whether there are findings.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    match &flags.subject {
        Subject::Network(flags) => check_infrastructure(&flags.output, &flags.saving, || network_facts(flags)),
        Subject::Cluster(flags) => check_infrastructure(&flags.output, &flags.saving, || cluster_facts(flags)),
        Subject::Member(flags) => check_member(flags),
    }
}

fn check_infrastructure(
    output: &OutputFlags,
    saving: &SavingFlags,
    facts: impl FnOnce() -> Result<Facts>,
) -> Result<ExitCode> {
    if let Some(id) = &output.explain {
        return print(&text::explanation(named(rules(), id)?));
    }
    let selection = selection(output, rules())?;
    let facts = facts()?;
    if let Some(file) = &saving.save_facts {
        save(&facts, file, saving.redact)?;
    }
    let report = check(&facts, &selection);
    print_report(&report, output)?;
    // Without valid credentials, AWS refuses all calls. That alone breaks rules about identities.
    let of_others = |answer: &RuleAnswer| answer.rule.category != Category::Identity;
    let breaks_others = report.broken().any(of_others);
    if facts.account_id.found().is_none() && !breaks_others {
        return Ok(ExitCode::from(crate::NOT_CHECKED));
    }
    Ok(code(&report))
}

fn check_member(flags: &MemberFlags) -> Result<ExitCode> {
    let output = &flags.output;
    if let Some(id) = &output.explain {
        return print(&text::explanation(named(member_rules(), id)?));
    }
    let selection = selection(output, member_rules())?;
    let file = flags.kubeconfig.as_deref().context("the kubeconfig is missing")?;
    let facts = member::facts(file, flags.context.as_deref())?;
    let report = apply(member_rules(), &facts, &selection);
    print_report(&report, output)?;
    Ok(code(&report))
}

fn print(text: &str) -> Result<ExitCode> {
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn print_report<F: 'static>(report: &Report<F>, output: &OutputFlags) -> Result<()> {
    let text = match output.output {
        Format::Text => text::report(report, style(output.color), output.verbose),
        Format::Json => json(report)?,
        Format::Junit => junit::report(report)?,
    };
    print(&text).map(drop)
}

fn network_facts(flags: &NetworkFlags) -> Result<Facts> {
    match &flags.facts {
        Some(file) => facts::saved(file),
        None => facts::of_file(flags.file.as_deref().context("--file is missing")?),
    }
}

fn cluster_facts(flags: &ClusterFlags) -> Result<Facts> {
    let name = flags.name.as_deref().context("the name of the Cluster is missing")?;
    facts::of_cluster(name, &flags.live)
}

fn save(facts: &Facts, file: &std::path::Path, redacted: bool) -> Result<()> {
    let mut document = serde_json::to_value(facts)?;
    if redacted {
        document = redact(document);
    }
    let text = serde_json::to_string_pretty(&document)? + "\n";
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn style(color: When) -> Style {
    let auto = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match color {
        When::Always => Style::Coloured,
        When::Auto if auto => Style::Coloured,
        When::Auto | When::Never => Style::Plain,
    }
}

fn named<F: 'static>(rules: impl IntoIterator<Item = &'static Rule<F>>, id: &str) -> Result<&'static Rule<F>> {
    let mut rules = rules.into_iter();
    let rule = rules.find(|rule| rule.id == id);
    rule.with_context(|| format!("there is no rule {id}: docs/preflight.md lists all rules"))
}

fn selection<F: 'static>(flags: &OutputFlags, rules: impl IntoIterator<Item = &'static Rule<F>>) -> Result<Selection> {
    let rules: Vec<&Rule<F>> = rules.into_iter().collect();
    for name in flags.only.iter().chain(&flags.skip) {
        let is_category = |rule: &&Rule<F>| *name == rule.category.letter().to_string();
        ensure!(rules.iter().any(|rule| is_category(rule) || rule.id == name), "there is no rule or category {name}");
    }
    Ok(Selection { only: flags.only.iter().cloned().collect(), skip: flags.skip.iter().cloned().collect() })
}

fn code<F: 'static>(report: &Report<F>) -> ExitCode {
    if report.broken().next().is_some() {
        ExitCode::from(FINDINGS)
    } else if report.is_incomplete() {
        ExitCode::from(crate::NOT_CHECKED)
    } else {
        ExitCode::SUCCESS
    }
}

fn json<F: 'static>(report: &Report<F>) -> Result<String> {
    let of = |wanted: &Outcome| -> Vec<&str> {
        let answers = report.answers.iter().filter(|answer| answer.outcome == *wanted);
        answers.map(|answer| answer.rule.id).collect()
    };
    let unknown: Vec<_> =
        report.unknown().map(|(rule, missing)| serde_json::json!({"rule": rule.id, "missing": missing})).collect();
    let document = serde_json::json!({
        "findings": report.findings().collect::<Vec<_>>(),
        "passed": of(&Outcome::Passed),
        "notApplicable": of(&Outcome::NotApplicable),
        "unknown": unknown,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

#[cfg(test)]
mod tests {
    use capa_api::network::NetworkVpc;
    use capa_preflight::facts::{Answer, KubernetesFacts, SourceAccess};
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }

    fn flags(line: &str) -> OutputFlags {
        match Line::try_parse_from(line.split(' ')).expect("a command line").flags.subject {
            Subject::Network(flags) => flags.output,
            Subject::Cluster(flags) => flags.output,
            Subject::Member(flags) => flags.output,
        }
    }

    #[test]
    fn unknown_rules_are_refused_and_categories_are_known() {
        assert!(selection(&flags("check network -f x --only S,V2 --skip S7"), rules()).is_ok());
        for line in ["check network -f x --only S99", "check network -f x --skip A"] {
            let error = selection(&flags(line), rules()).expect_err(line).to_string();
            assert!(error.starts_with("there is no rule or category"), "{error}");
        }
        assert!(named(rules(), "G8").is_ok() && named(rules(), "G99").is_err());
        assert!(selection(&flags("check member x --only A,P3"), member_rules()).is_ok());
        assert!(selection(&flags("check member x --only G8"), member_rules()).is_err());
        assert!(named(member_rules(), "P3").is_ok());
    }

    #[test]
    fn the_file_is_required_unless_facts_are_replayed() {
        assert!(Line::try_parse_from(["check", "network"]).is_err());
        assert!(Line::try_parse_from(["check", "network", "--facts", "a", "-f", "b"]).is_err());
        assert!(Line::try_parse_from(["check", "network", "--facts", "a", "--redact"]).is_err());
        assert!(Line::try_parse_from(["check", "cluster"]).is_err());
        assert!(Line::try_parse_from(["check", "cluster", "prod", "-n", "team-a"]).is_ok());
    }

    #[test]
    fn facts_without_an_answer_are_no_success() {
        let (output, saving) = (flags("check network -f x"), SavingFlags::default());
        let checked = check_infrastructure(&output, &saving, || Ok(Facts::default()));
        assert_eq!(checked.expect("a report"), ExitCode::from(crate::NOT_CHECKED));
    }

    #[test]
    fn refused_answers_are_no_success_and_do_not_hide_a_finding() {
        let (output, saving) = (flags("check network -f x"), SavingFlags::default());
        let code = |facts: Facts| check_infrastructure(&output, &saving, || Ok(facts)).expect("a report");
        let mut facts = Facts { account_id: Answer::Found("111122223333".to_owned()), ..Facts::default() };
        facts.demand.network.vpc = Some(NetworkVpc { id: "vpc-0000000a".to_owned(), ..NetworkVpc::default() });
        assert_eq!(code(facts.clone()), ExitCode::from(crate::NOT_CHECKED), "the VPC is not known");
        let unserved = SourceAccess { object: "Network/prod".to_owned(), ..SourceAccess::default() };
        facts.kubernetes = Some(KubernetesFacts { sources: vec![unserved], ..KubernetesFacts::default() });
        facts.account_id = Answer::NotAsked;
        assert_eq!(code(facts), ExitCode::from(FINDINGS));
    }
}
