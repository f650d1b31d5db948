//! The measurements as tables in Markdown.

use std::collections::{BTreeMap, BTreeSet};

use crate::field::Storage;
use crate::life::Life;
use crate::meters::Phase;
use crate::report::Report;
use crate::troubles::{Buckets, ThrottledMinute, WrongImage};

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// All tables of a report, which begin with what was measured.
pub(crate) fn markdown(report: &Report) -> String {
    let mut text = format!(
        "Measured: profile `{}`, a program of {:.1} MiB, {} cores, load {} at the beginning.\n",
        report.profile,
        mebibytes(report.program_bytes),
        report.cores,
        report.load,
    );
    if !report.lives.is_empty() {
        text += &lives(&report.lives);
        text += &actions(&report.lives);
        text += &writes(&report.lives);
    }
    let troubles = [
        report.buckets.as_ref().map(buckets),
        report.throttled_minute.as_ref().map(throttled_minute),
        report.wrong_image.as_ref().map(wrong_image),
    ];
    for rows in troubles.into_iter().flatten() {
        text += &table(&[rows.0.as_str(), ""], &rows.1);
    }
    text
}

/// A table with this head; each row has the title of the row first.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("\n{}{}{rows}", line(&head), line(&rule))
}

/// The heads of columns, one for each life.
fn columns<'a>(first: &'a str, names: &'a [String]) -> Vec<&'a str> {
    std::iter::once(first).chain(names.iter().map(String::as_str)).collect()
}

fn names(lives: &[Life]) -> Vec<String> {
    let name = |life: &Life| match life.storage {
        Storage::Inline => format!("N={}", life.workers),
        Storage::SecretsManager => format!("N={}, secret", life.workers),
    };
    lives.iter().map(name).collect()
}

/// A row: a title, and what each life has.
fn row(title: &str, lives: &[Life], cell: impl Fn(&Life) -> Option<String>) -> Vec<String> {
    let cells = lives.iter().map(|life| cell(life).unwrap_or_else(|| "–".to_owned()));
    std::iter::once(title.to_owned()).chain(cells).collect()
}

fn lives(lives: &[Life]) -> String {
    let rows = [calls_and_times(lives), work(lives)].concat();
    table(&columns("life of N workers", &names(lives)), &rows)
}

fn per(life: &Life, amount: f64) -> f64 {
    amount / number(life.workers)
}

fn calls(phase: &Phase) -> f64 {
    number(phase.all_calls())
}

/// The rows about AWS calls and wall time.
fn calls_and_times(lives: &[Life]) -> Vec<Vec<String>> {
    let row = |title: &str, cell: &dyn Fn(&Life) -> Option<String>| row(title, lives, cell);
    vec![
        row("AWS calls per worker until all are ready", &|life| {
            Some(format!("{:.2}", per(life, calls(&life.created))))
        }),
        row("… and when the nodes have joined", &|life| {
            let joined = life.joined.as_ref()?;
            Some(format!("{:.2}", per(life, calls(&life.created) + calls(joined))))
        }),
        row("AWS calls per deleted worker", &|life| {
            Some(format!("{:.2}", per(life, calls(&life.deleted))))
        }),
        row("seconds until half, until all are ready", &|life| {
            Some(format!("{:.1}, {:.1}", life.half_seconds, life.created.seconds))
        }),
        row("seconds until all are gone", &|life| {
            Some(format!("{:.1}", life.deleted.seconds))
        }),
    ]
}

/// The rows about the work and the memory of the manager and of the management cluster.
fn work(lives: &[Life]) -> Vec<Vec<String>> {
    let row = |title: &str, cell: &dyn Fn(&Life) -> Option<String>| row(title, lives, cell);
    vec![
        row("manager: CPU per created worker, ms", &|life| {
            Some(format!("{:.1}", 1000.0 * per(life, life.created.manager_cpu_seconds)))
        }),
        row("manager: CPU per deleted worker, ms", &|life| {
            Some(format!("{:.1}", 1000.0 * per(life, life.deleted.manager_cpu_seconds)))
        }),
        row("kube-apiserver: CPU per created worker, s", &|life| {
            Some(format!("{:.3}", per(life, life.created.api_server_cpu_seconds)))
        }),
        row("Cluster API core: CPU per created worker, s", &|life| {
            Some(format!("{:.3}", per(life, life.created.core_cpu_seconds)))
        }),
        row("status writes of an AWSMachine: created, deleted", &|life| {
            let [created, deleted] =
                [&life.created, &life.deleted].map(|phase| per(life, number(phase.status_writes())));
            Some(format!("{created:.1}, {deleted:.1}"))
        }),
        row("all Kubernetes writes of the manager per created worker", &|life| {
            Some(format!("{:.1}", per(life, number(life.created.all_writes()))))
        }),
        row("… of Cluster API core", &|life| {
            Some(format!("{:.1}", per(life, number(life.created.core_writes))))
        }),
        row("manager RSS without machines, with all, peak, MiB", &|life| {
            let [before, with, peak] = [life.resident_before, life.resident, life.peak].map(mebibytes);
            Some(format!("{before:.1}, {with:.1}, {peak:.1}"))
        }),
        row("idle: AWS calls and manager CPU seconds in ten minutes", &|life| {
            let idle = life.idle.as_ref()?;
            let factor = 600.0 / idle.seconds;
            Some(format!(
                "{:.0}, {:.2}",
                calls(idle) * factor,
                idle.manager_cpu_seconds * factor
            ))
        }),
        row("restart: AWS calls, manager CPU seconds, seconds", &|life| {
            let restarted = &life.restarted;
            let (calls, cpu) = (restarted.all_calls(), restarted.manager_cpu_seconds);
            Some(format!("{calls}, {cpu:.2}, {:.1}", restarted.seconds))
        }),
    ]
}

/// The phases of a life.
const PHASES: [&str; 5] = ["created", "joined", "idle", "restart", "deleted"];

/// A phase of a life, where it was measured.
fn phase<'a>(life: &'a Life, name: &str) -> Option<&'a Phase> {
    match name {
        "created" => Some(&life.created),
        "joined" => life.joined.as_ref(),
        "idle" => life.idle.as_ref(),
        "restart" => Some(&life.restarted),
        "deleted" => Some(&life.deleted),
        _ => None,
    }
}

fn actions(lives: &[Life]) -> String {
    counts("AWS calls", lives, |phase| &phase.calls)
}

fn writes(lives: &[Life]) -> String {
    counts("Kubernetes writes of the manager", lives, |phase| &phase.writes)
}

/// A table of counts: a row for each phase and what is counted in it.
fn counts(title: &str, lives: &[Life], of: impl Fn(&Phase) -> &BTreeMap<String, usize>) -> String {
    let mut rows = Vec::new();
    for name in PHASES {
        let phases = || lives.iter().filter_map(|life| phase(life, name));
        let keys: BTreeSet<&String> = phases().flat_map(|phase| of(phase).keys()).collect();
        rows.extend(keys.into_iter().map(|key| {
            row(&format!("{name}: {key}"), lives, |life| {
                Some(of(phase(life, name)?).get(key).copied().unwrap_or_default().to_string())
            })
        }));
    }
    table(&columns(title, &names(lives)), &rows)
}

fn pair(title: &str, value: impl std::fmt::Display) -> Vec<String> {
    vec![title.to_owned(), value.to_string()]
}

fn buckets(buckets: &Buckets) -> (String, Vec<Vec<String>>) {
    let created = &buckets.created;
    let (seconds, bound) = (created.seconds, buckets.bound_seconds);
    let rows = vec![
        pair("seconds until all are ready", format!("{seconds:.1}")),
        pair("bound by the bucket of RunInstances", format!("{bound:.1}")),
        pair("ratio", format!("{:.2}", seconds / bound)),
        pair("AWS calls", created.all_calls()),
        pair(
            "throttled",
            created.refused.get("RequestLimitExceeded").copied().unwrap_or_default(),
        ),
    ];
    let title = format!(
        "{} machines against EC2's buckets, {} s pending",
        buckets.machines, buckets.pending_seconds
    );
    (title, rows)
}

fn throttled_minute(measured: &ThrottledMinute) -> (String, Vec<Vec<String>>) {
    let rows = vec![
        pair("AWS calls in the minute", measured.minute.all_calls()),
        pair(
            "seconds from its end until all are ready",
            format!("{:.1}", measured.recovered.seconds),
        ),
        pair("AWS calls after it", measured.recovered.all_calls()),
    ];
    (format!("{} machines meet a throttled minute", measured.machines), rows)
}

fn wrong_image(measured: &WrongImage) -> (String, Vec<Vec<String>>) {
    let rows = vec![
        pair("RunInstances in each minute", format!("{:?}", measured.launches)),
        pair("AWS calls in each minute", format!("{:?}", measured.calls)),
    ];
    ("one machine with a wrong image".to_owned(), rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_head_a_rule_and_rows_of_equal_length() {
        let rows = [pair("calls", 3), pair("seconds", "1.5")];
        let expected = "\n| what |  |\n| --- | --- |\n| calls | 3 |\n| seconds | 1.5 |\n";
        assert_eq!(table(&["what", ""], &rows), expected);
    }

    #[test]
    fn every_phase_of_a_life_has_its_counts() {
        let phase = |action: &str, count| Phase {
            calls: [(action.to_owned(), count)].into(),
            ..Phase::default()
        };
        let life = Life {
            workers: 10,
            storage: Storage::Inline,
            resident_before: 1,
            resident: 1,
            peak: 1,
            half_seconds: 1.0,
            created: phase("RunInstances", 10),
            joined: None,
            idle: None,
            restarted: phase("DescribeInstances", 1),
            deleted: phase("TerminateInstances", 2),
        };
        let lives = [life];
        let counted = actions(&lives);
        for row in [
            "| AWS calls | N=10 |",
            "| created: RunInstances | 10 |",
            "| restart: DescribeInstances | 1 |",
            "| deleted: TerminateInstances | 2 |",
        ] {
            assert!(counted.contains(row), "{row} is missing in {counted}");
        }
        assert!(super::lives(&lives).contains("| AWS calls per deleted worker | 0.20 |"));
    }
}
