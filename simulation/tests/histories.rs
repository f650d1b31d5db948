//! Histories of the controllers under faults: nothing doubled, leaked, foreign or stuck.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "all of this is test code, where a panic is a failed test"
)]

use std::fmt::Write;
use std::sync::OnceLock;

use capa_simulation::campaign::{self, End, Tally};
use capa_simulation::coverage::{Covered, Situation};
use capa_simulation::faults::FaultKind;
use capa_simulation::history::{self, Report};
use capa_simulation::sweep::{self, Subject};

/// The command that replays a plan.
const REPLAYED: &str = "make sim FAULTS=";

/// Threads of one test. The fixed seeds take longer than all other tests together, which would leave a core idle.
const THREADS: usize = 2;

/// Seeds that every run of the gate plays.
const FIXED: usize = 100;

/// Fails with what failed, how to replay it, and the end of the first trace.
fn expect_all_passed(tally: &Tally, replay: impl Fn(usize) -> (String, Report)) {
    let mut text = String::new();
    for (place, (number, violation)) in tally.failed.iter().take(5).enumerate() {
        let (command, report) = replay(*number);
        writeln!(text, "{command}: {violation}").unwrap();
        if place == 0 {
            let skipped = report.trace.len().saturating_sub(60);
            for line in report.trace.iter().skip(skipped) {
                writeln!(text, "    {line}").unwrap();
            }
        }
    }
    assert!(tally.failed.is_empty(), "{} failed:\n{text}", tally.failed.len());
}

fn play_seeds(first: u64, count: usize) -> Tally {
    let seed_of = |number: usize| first.wrapping_add(u64::try_from(number).unwrap());
    let tally = campaign::run(count, THREADS, End::Last, |number| history::run(seed_of(number), false), |_| ());
    expect_all_passed(&tally, |number| {
        let seed = seed_of(number);
        (format!("make sim SEED={seed}"), history::run(seed, true))
    });
    assert_eq!(tally.passed, count);
    tally
}

/// The fixed seeds, which several tests look at.
fn fixed_seeds() -> &'static Tally {
    static PLAYED: OnceLock<Tally> = OnceLock::new();
    PLAYED.get_or_init(|| play_seeds(0, FIXED))
}

#[test]
fn a_hundred_fixed_seeds_pass() {
    assert_eq!(fixed_seeds().passed, FIXED);
}

#[test]
fn histories_meet_what_they_are_there_for() {
    let unanswered = [
        FaultKind::CrashBefore,
        FaultKind::CrashAfter,
        FaultKind::LostAnswer,
        FaultKind::Dropped,
        FaultKind::LateEffect,
        FaultKind::Frozen,
    ];
    let faults = unanswered.map(|kind| (Covered::LaunchFault(kind), 12));
    let situations = [
        (Situation::LaunchUnanswered, 55),
        (Situation::SourceChangedDuringAttempt, 15),
        (Situation::AttemptTooOldToRepeat, 5),
        (Situation::LaunchForgotten, 1),
        (Situation::StatusLostWhileHidden, 2),
        (Situation::StatusLostAfterEnd, 2),
        (Situation::OutageOfHours, 25),
        (Situation::OutageOfDays, 4),
    ];
    let situations = situations.map(|(situation, percent)| (Covered::Situation(situation), percent));
    for (covered, percent) in faults.into_iter().chain(situations) {
        let met = fixed_seeds().percent(covered);
        assert!(met >= percent, "{met} % of the histories have met {covered}, not {percent} %");
    }
}

/// In a history with such a key, bootstrap data may be left, so that nobody judges whether it is.
#[test]
fn few_histories_have_a_key_of_another_account() {
    let met = fixed_seeds().percent(Covered::Situation(Situation::KeyOfAnotherAccount));
    assert!((1..=20).contains(&met), "{met} % of the histories");
}

/// Plays these plans. `label` is what their faults stand behind where one fails.
fn play_plans(plans: &[sweep::Plan], subject: Subject) {
    let label = match subject {
        Subject::Plain => REPLAYED.to_owned(),
        other => format!("{other:?}: "),
    };
    let tally =
        campaign::run(plans.len(), THREADS, End::Last, |number| sweep::run(&plans[number], subject, false), |_| ());
    expect_all_passed(&tally, |number| {
        let plan = &plans[number];
        let report = sweep::run(plan, subject, true);
        (format!("{label}{}", sweep::described(plan)), report)
    });
}

fn play_every_fault_at_every_call(subject: Subject) {
    let plans = sweep::single_faults(subject);
    play_plans(&plans, subject);
    assert!(plans.len() > 100, "{} histories do not cover a life", plans.len());
}

#[test]
fn every_fault_at_every_call_of_a_machine_passes() {
    play_every_fault_at_every_call(Subject::Plain);
}

#[test]
fn every_fault_at_every_call_of_a_machine_on_a_host_passes() {
    play_every_fault_at_every_call(Subject::OnHost);
}

#[test]
fn every_fault_of_a_machine_with_address_and_secrets_passes() {
    play_every_fault_at_every_call(Subject::WithAddressAndSecrets);
}

mod long_stories {
    use super::*;

    #[test]
    fn nine_hundred_more_fixed_seeds_pass() {
        assert_eq!(play_seeds(100, 900).passed, 900);
    }

    #[test]
    fn every_fault_of_a_machine_with_address_and_object_passes() {
        play_every_fault_at_every_call(Subject::WithAddressAndObject);
    }

    #[test]
    fn two_hundred_fresh_seeds_pass() {
        assert_eq!(play_seeds(fastrand::u64(..), 200).passed, 200);
    }

    #[test]
    fn every_pair_of_faults_in_a_launch_passes() {
        let plans = sweep::pairs_of_faults();
        play_plans(&plans, Subject::Plain);
        assert!(plans.len() > 9_000, "{} histories do not cover a launch", plans.len());
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..8 {
        assert_eq!(history::run(seed, true).trace, history::run(seed, true).trace, "seed {seed}");
    }
}
