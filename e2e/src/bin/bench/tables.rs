//! The measurements as tables in Markdown.

use std::collections::{BTreeMap, BTreeSet};

use capa_e2e::Memory;

use crate::existing::Existing;
use crate::goals::Goal;
use crate::life::Life;
use crate::meters::{Phase, mebibytes, number};
use crate::provider::Provider;
use crate::report::Report;
use crate::troubles::{Buckets, LATENCY, MACHINES, MACHINES_OF_THE_MINUTE, PENDING, ThrottledMinute, WrongImage};

/// All tables of a report, which begin with what was measured and end with the goals.
pub(crate) fn markdown(report: &Report, goals: &[Goal]) -> String {
    let mut text = format!(
        "Measured: profile `{}`, a program of {:.1} MiB, {} cores, load {} at the beginning.\n",
        report.profile,
        mebibytes(report.program_bytes),
        report.cores,
        report.load,
    );
    if !report.lives.is_empty() {
        text += &lives(&report.lives);
        text += &counts("AWS calls", &report.lives, |phase| &phase.calls);
        text += &counts("Kubernetes writes of the manager", &report.lives, |phase| &phase.writes);
        text += &counts("Kubernetes writes of Cluster API core", &report.lives, |phase| &phase.core_writes);
    }
    text += &existing(&report.existing);
    text += &buckets(&report.buckets);
    text += &throttled_minutes(&report.throttled_minutes);
    text += &wrong_images(&report.wrong_images);
    text += &ratios(goals);
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
    lives.iter().map(Life::column).collect()
}

/// A row: a title, and what each measurement has.
fn row<T>(title: &str, measured: &[T], cell: impl Fn(&T) -> Option<String>) -> Vec<String> {
    let cells = measured.iter().map(|one| cell(one).unwrap_or_else(|| "–".to_owned()));
    std::iter::once(title.to_owned()).chain(cells).collect()
}

fn lives(lives: &[Life]) -> String {
    let rows = [calls_and_times(lives), work(lives)].concat();
    table(&columns("life of N workers", &names(lives)), &rows)
}

fn calls(phase: &Phase) -> f64 {
    number(phase.all_calls())
}

/// The title of the row about a restart.
const RESTART: &str = "restart: AWS calls, manager CPU seconds, seconds";

/// AWS calls, the manager's CPU seconds and the wall time of a phase.
fn cost(phase: &Phase) -> String {
    format!("{}, {:.2}, {:.1}", phase.all_calls(), phase.manager_cpu_seconds, phase.seconds)
}

/// The rows about AWS calls and wall time.
fn calls_and_times(lives: &[Life]) -> Vec<Vec<String>> {
    let row = |title: &str, cell: &dyn Fn(&Life) -> Option<String>| row(title, lives, cell);
    vec![
        row("AWS calls per worker until all are ready", &|life| Some(format!("{:.2}", life.calls_per_worker()))),
        row("… and when the nodes have joined", &|life| {
            let joined = life.joined.as_ref()?;
            Some(format!("{:.2}", life.per_worker(calls(&life.created) + calls(joined))))
        }),
        row("AWS calls per deleted worker", &|life| Some(format!("{:.2}", life.calls_per_deleted_worker()))),
        row("seconds until half, until all are ready", &|life| {
            Some(format!("{:.1}, {:.1}", life.half_seconds, life.created.seconds))
        }),
        row("seconds until all are gone", &|life| Some(format!("{:.1}", life.deleted.seconds))),
    ]
}

/// The rows about the work and the memory of the manager and of the management cluster.
fn work(lives: &[Life]) -> Vec<Vec<String>> {
    let row = |title: &str, cell: &dyn Fn(&Life) -> Option<String>| row(title, lives, cell);
    vec![
        row("manager: CPU per created worker, ms", &|life| {
            Some(format!("{:.1}", 1000.0 * life.per_worker(life.created.manager_cpu_seconds)))
        }),
        row("manager: CPU per deleted worker, ms", &|life| {
            Some(format!("{:.1}", 1000.0 * life.per_worker(life.deleted.manager_cpu_seconds)))
        }),
        row("kube-apiserver: CPU per created worker, s", &|life| {
            Some(format!("{:.3}", life.per_worker(life.created.api_server_cpu_seconds)))
        }),
        row("Cluster API core: CPU per created worker, s", &|life| {
            Some(format!("{:.3}", life.per_worker(life.created.core_cpu_seconds)))
        }),
        row("status writes in the life of an AWSMachine", &|life| {
            Some(format!("{:.2}", life.status_writes_per_worker()))
        }),
        row("all Kubernetes writes of the manager per created worker", &|life| {
            Some(format!("{:.1}", life.per_worker(number(life.created.all_writes()))))
        }),
        row("… of Cluster API core", &|life| {
            Some(format!("{:.1}", life.per_worker(number(life.created.all_core_writes()))))
        }),
        row("manager RSS without machines, with all, peak, MiB", &|life| {
            let [before, with, peak] = [life.resident_before, life.resident, life.peak].map(mebibytes);
            Some(format!("{before:.1}, {with:.1}, {peak:.1}"))
        }),
        row("… of the manager that was started again, once all are gone", &|life| {
            Some(format!("{:.1}", mebibytes(life.resident_after)))
        }),
        row("idle: AWS calls and manager CPU seconds in ten minutes", &|life| {
            let idle = life.idle.as_ref()?;
            let factor = 600.0 / idle.seconds;
            Some(format!("{:.0}, {:.2}", calls(idle) * factor, idle.manager_cpu_seconds * factor))
        }),
        row("the AWSCluster's annotation changes: AWS calls", &|life| {
            Some(life.cluster_changed.all_calls().to_string())
        }),
        row(RESTART, &|life| Some(cost(&life.restarted))),
    ]
}

/// Picks a phase of a life, if it was measured.
type PickPhase = fn(&Life) -> Option<&Phase>;

/// The phases of a life.
const PHASES: [(&str, PickPhase); 6] = [
    ("created", |life| Some(&life.created)),
    ("joined", |life| life.joined.as_ref()),
    ("idle", |life| life.idle.as_ref()),
    ("cluster changed", |life| Some(&life.cluster_changed)),
    ("restart", |life| Some(&life.restarted)),
    ("deleted", |life| Some(&life.deleted)),
];

/// A table of counts: a row for each phase and what is counted in it.
fn counts(title: &str, lives: &[Life], of: impl Fn(&Phase) -> &BTreeMap<String, usize>) -> String {
    let mut rows = Vec::new();
    for (name, phase) in PHASES {
        let phases = || lives.iter().filter_map(phase);
        let keys: BTreeSet<&String> = phases().flat_map(|phase| of(phase).keys()).collect();
        rows.extend(keys.into_iter().map(|key| {
            row(&format!("{name}: {key}"), lives, |life| {
                Some(of(phase(life)?).get(key).copied().unwrap_or_default().to_string())
            })
        }));
    }
    table(&columns(title, &names(lives)), &rows)
}

fn existing(measured: &[Existing]) -> String {
    if measured.is_empty() {
        return String::new();
    }
    let row = |title: &str, cell: &dyn Fn(&Existing) -> String| row(title, measured, |one| Some(cell(one)));
    let memory = |memory: &Memory| {
        let [resident, anonymous, peak] = [memory.resident, memory.anonymous, memory.peak].map(mebibytes);
        format!("{resident:.1}, {anonymous:.1}, {peak:.1}")
    };
    let rows = [
        row("until all are ready: AWS calls, manager CPU seconds, seconds", &|one| cost(&one.adopted)),
        row("… status writes, all Kubernetes writes per machine", &|one| {
            let writes = number(one.adopted.all_writes()) / number(one.machines);
            format!("{:.2}, {writes:.2}", one.status_writes_per_machine())
        }),
        row("… manager RSS, of which data, peak, MiB", &|one| memory(&one.memory)),
        row(RESTART, &|one| cost(&one.restarted)),
        row("… status writes", &|one| one.restarted.status_writes().to_string()),
        row("… manager RSS, of which data, peak, MiB", &|one| memory(&one.memory_after)),
    ];
    let names: Vec<String> = measured.iter().map(|one| format!("N={}", one.machines)).collect();
    table(&columns("N machines whose instances run already", &names), &rows)
}

/// A table of measurements of which there is one for each provider; nothing if none was made.
fn by_provider<T>(title: &str, measured: &[T], of: impl Fn(&T) -> &Provider, rows: &[Vec<String>]) -> String {
    if measured.is_empty() {
        return String::new();
    }
    let names: Vec<String> = measured.iter().map(|one| of(one).name().to_owned()).collect();
    table(&columns(title, &names), rows)
}

fn buckets(measured: &[Buckets]) -> String {
    let row = |title: &str, cell: &dyn Fn(&Buckets) -> String| row(title, measured, |one| Some(cell(one)));
    let rows = [
        row("seconds until all are ready", &|one| format!("{:.1}", one.created.seconds)),
        row("bound by the bucket of RunInstances", &|one| format!("{:.1}", one.bound_seconds)),
        row("ratio", &|one| format!("{:.2}", one.ratio())),
        row("AWS calls", &|one| one.created.all_calls().to_string()),
        row("throttled", &|one| {
            let throttled = one.created.refused.get("RequestLimitExceeded").copied();
            throttled.unwrap_or_default().to_string()
        }),
    ];
    let (pending, latency) = (PENDING.as_secs(), LATENCY.as_millis());
    let title = format!("{MACHINES} machines against EC2's buckets, {pending} s pending, {latency} ms per call");
    by_provider(&title, measured, |one| &one.provider, &rows)
}

fn throttled_minutes(measured: &[ThrottledMinute]) -> String {
    let row = |title: &str, cell: &dyn Fn(&ThrottledMinute) -> String| row(title, measured, |one| Some(cell(one)));
    let rows = [
        row("AWS calls in the minute", &|one| one.minute.all_calls().to_string()),
        row("seconds from its end until the last launch, until all are ready", &|one| {
            format!("{:.1}, {:.1}", one.launched_seconds, one.recovered.seconds)
        }),
        row("AWS calls after it", &|one| one.recovered.all_calls().to_string()),
    ];
    let title = format!("{MACHINES_OF_THE_MINUTE} machines meet a throttled minute");
    by_provider(&title, measured, |one| &one.provider, &rows)
}

fn wrong_images(measured: &[WrongImage]) -> String {
    let row = |title: &str, cell: &dyn Fn(&WrongImage) -> String| row(title, measured, |one| Some(cell(one)));
    let rows = [
        row("RunInstances in each minute", &|one| format!("{:?}", one.launches)),
        row("AWS calls in each minute", &|one| format!("{:?}", one.calls)),
    ];
    by_provider("one machine with a wrong image", measured, |one| &one.provider, &rows)
}

/// The ratios that the run must keep.
fn ratios(goals: &[Goal]) -> String {
    if goals.is_empty() {
        return String::new();
    }
    let rows = goals.iter().map(|goal| {
        let reached = if goal.is_reached() { "yes" } else { "**no**" };
        vec![goal.what.clone(), format!("{:.2}", goal.measured), format!("{:.2}", goal.most), reached.to_owned()]
    });
    table(&["ratio", "measured", "at most", "reached"], &rows.collect::<Vec<_>>())
}
