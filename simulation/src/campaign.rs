//! Many histories on several threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::coverage::Covered;
use crate::history::Report;

/// The results of many histories.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many were good.
    pub passed: usize,
    /// Which were not, by their place in the list, and why.
    pub failed: Vec<(usize, String)>,
    /// How many calls they made in all.
    pub calls: usize,
    /// The most calls that one process made in a minute: to AWS, to Kubernetes.
    pub busiest_minute: (usize, usize),
    /// How many have met what.
    pub met: BTreeMap<Covered, usize>,
}

impl Tally {
    fn count(&mut self, number: usize, report: Report) {
        self.calls += report.calls;
        self.busiest_minute.0 = self.busiest_minute.0.max(report.busiest_minute.0);
        self.busiest_minute.1 = self.busiest_minute.1.max(report.busiest_minute.1);
        for covered in report.met {
            *self.met.entry(covered).or_default() += 1;
        }
        match report.violation {
            None => self.passed += 1,
            Some(violation) => self.failed.push((number, violation)),
        }
    }

    /// Of 100 histories so many have met this.
    pub fn percent(&self, covered: Covered) -> usize {
        let met = self.met.get(&covered).copied().unwrap_or_default();
        met * 100 / self.histories().max(1)
    }

    /// How many ran.
    pub fn histories(&self) -> usize {
        self.passed + self.failed.len()
    }
}

/// When a campaign ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// After the last history.
    Last,
    /// After the first that fails.
    FirstFailure,
}

/// Plays histories 0 to `count` on so many threads. `progress` sees the tally after each.
pub fn run(
    count: usize,
    threads: usize,
    end: End,
    play: impl Fn(usize) -> Report + Sync,
    progress: impl Fn(&Tally) + Sync,
) -> Tally {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let report = guarded(|| play(number));
            if report.violation.is_some() && end == End::FirstFailure {
                stop.store(true, Ordering::Relaxed);
            }
            let mut tally = tally.lock();
            tally.count(number, report);
            progress(&tally);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut tally = tally.into_inner();
    tally.failed.sort();
    tally
}

/// A panic is a violation too.
fn guarded(play: impl FnOnce() -> Report) -> Report {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Report { violation: Some(format!("panicked: {}", text.unwrap_or_default())), ..Report::default() }
    })
}
