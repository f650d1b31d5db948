//! Plays histories from the command line: many seeds, or one with its trace.

#![expect(clippy::print_stdout, reason = "a command tells its user what it found")]

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use capa_simulation::campaign::{self, End, Tally};
use capa_simulation::faults::Fault;
use capa_simulation::history::{self, Report};
use capa_simulation::sweep::{self, Plan, Subject};
use clap::Parser;
use parking_lot::Mutex;

/// Plays histories of the controllers under faults, in simulated time.
#[derive(Parser)]
struct Arguments {
    /// Play so many seeds.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    seeds: usize,
    /// The first of them.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    first: u64,
    /// Threads to play on.
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    threads: usize,
    /// End with the first history that fails.
    #[arg(long)]
    until_failure: bool,
    /// Play one seed and print its trace.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Play one machine's life with these faults at these calls, and print its trace: `3:CrashAfter,7:Stale`.
    #[arg(long, value_name = "CALL:FAULT,…", value_parser = plan)]
    faults: Option<PlanArgument>,
    /// Play the systematic sweep.
    #[arg(long)]
    sweep: bool,
    /// Print which share of the histories has met what.
    #[arg(long)]
    coverage: bool,
}

#[derive(Clone)]
struct PlanArgument(Plan);

fn plan(text: &str) -> Result<PlanArgument, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let plan = parts.map(|part| {
        let (call, fault) = part.split_once(':').ok_or_else(|| format!("{part} is not CALL:FAULT"))?;
        let call = call.parse().map_err(|_| format!("{call} is no number"))?;
        Ok((call, fault.parse::<Fault>()?))
    });
    plan.collect::<Result<_, String>>().map(PlanArgument)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        return tell(&history::run(seed, true));
    }
    if let Some(PlanArgument(plan)) = &arguments.faults {
        return tell(&sweep::run(plan, Subject::Plain, true));
    }
    let end = if arguments.until_failure { End::FirstFailure } else { End::Last };
    let began = Instant::now();
    let shown = Mutex::new(began);
    let progress = |tally: &Tally| {
        let mut shown = shown.lock();
        if shown.elapsed() > Duration::from_secs(5) {
            *shown = Instant::now();
            println!("{} played, {} failed", tally.histories(), tally.failed.len());
            drop(std::io::stdout().flush());
        }
    };
    let tally = if arguments.sweep {
        let plans = [sweep::single_faults(Subject::Plain), sweep::pairs_of_faults()].concat();
        let play = |number: usize| sweep::run(plans.get(number).unwrap_or(&Plan::new()), Subject::Plain, false);
        let tally = campaign::run(plans.len(), arguments.threads, end, play, progress);
        for (number, violation) in tally.failed.iter().take(20) {
            let faults = plans.get(*number).map(sweep::described).unwrap_or_default();
            println!("make sim FAULTS={faults}: {violation}");
        }
        tally
    } else {
        let seed_of = |number: usize| arguments.first.wrapping_add(u64::try_from(number).unwrap_or(u64::MAX));
        let play = |number| history::run(seed_of(number), false);
        let tally = campaign::run(arguments.seeds, arguments.threads, end, play, progress);
        if let Some((number, violation)) = tally.failed.first().filter(|_| arguments.until_failure) {
            println!("found after {} seeds: {violation}", number + 1);
        }
        for (number, violation) in tally.failed.iter().take(20) {
            println!("make sim SEED={}: {violation}", seed_of(*number));
        }
        tally
    };
    if arguments.coverage {
        for covered in tally.met.keys() {
            println!("{:3} % {covered}", tally.percent(*covered));
        }
    }
    close(&tally, began.elapsed())
}

fn tell(report: &Report) -> ExitCode {
    for line in &report.trace {
        println!("{line}");
    }
    match &report.violation {
        None => {
            println!("passed");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            println!("{violation}");
            ExitCode::FAILURE
        }
    }
}

fn close(tally: &Tally, took: Duration) -> ExitCode {
    let a_minute = f64::from(u32::try_from(tally.histories()).unwrap_or(u32::MAX)) / took.as_secs_f64() * 60.0;
    let (aws, kubernetes) = tally.busiest_minute;
    println!(
        "{a_minute:.0} histories a minute, {} calls; busiest minute of a process: {aws} calls to AWS, {kubernetes} to \
         Kubernetes",
        tally.calls
    );
    println!("{} passed, {} failed", tally.passed, tally.failed.len());
    if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
