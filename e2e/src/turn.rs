//! The limit of concurrent tests, weighed by the programs that they run.
//!
//! A test that begins waits until there is room. A program that a test starts later takes room without a wait, because
//! two tests that each waited for the other's room would wait for ever: no further test begins until enough have ended.
//! The programs of the world that all tests share belong to no test.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

/// The tests that work.
static WORKING: LazyLock<Arc<Load>> = LazyLock::new(|| Arc::new(Load::for_this_computer()));

/// The tests that [mostly wait](mostly_waits): for periodic reconciles of Cluster API, or for a time to pass.
static WAITING: LazyLock<Arc<Load>> = LazyLock::new(|| Arc::new(Load::for_this_computer()));

/// The programs for each core. Most programs wait most of the time.
const PROGRAMS_PER_CORE: u32 = 4;

/// The fewest programs at once, on a computer with one core.
const FEWEST: u32 = 8;

/// The tests that run, as a number of programs.
struct Load {
    limit: u32,
    now: watch::Sender<u32>,
}

impl Load {
    fn for_this_computer() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        Self::up_to(cores.saturating_mul(PROGRAMS_PER_CORE).max(FEWEST))
    }

    fn up_to(limit: u32) -> Self {
        let now = watch::Sender::new(0);
        Self { limit, now }
    }

    /// Waits for room for one more test.
    async fn admit(self: &Arc<Self>) -> Turn {
        let mut changes = self.now.subscribe();
        while !self.add_a_test() {
            // The sender lives as long as this value.
            let _ = changes.changed().await;
        }
        Arc::new(Place { load: self.clone(), programs: Mutex::new(0) })
    }

    fn add_a_test(&self) -> bool {
        self.now.send_if_modified(|now| {
            let has_room = *now < self.limit;
            if has_room {
                *now += weight(0);
            }
            has_room
        })
    }
}

/// The weight of a test with so many programs. The calls of the test itself weigh as much as a program. So does the
/// manager that nearly every test starts, from the beginning.
fn weight(programs: u32) -> u32 {
    1 + programs.max(1)
}

/// The place of one test among those that run, until its last turn and its last program end.
pub(crate) struct Place {
    load: Arc<Load>,
    /// The number of the test's programs that run.
    programs: Mutex<u32>,
}

/// A permit to work in a world, which ends when the last clone is dropped.
pub(crate) type Turn = Arc<Place>;

impl Place {
    /// Counts a program among those of the test until the returned value is dropped.
    pub(crate) fn program(self: &Arc<Self>) -> Program {
        self.set_programs(|programs| programs + 1);
        Program(self.clone())
    }

    fn set_programs(&self, change: impl FnOnce(u32) -> u32) {
        let mut programs = self.programs.lock();
        let before = weight(*programs);
        *programs = change(*programs);
        let after = weight(*programs);
        self.load.now.send_modify(|now| *now = *now + after - before);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.load.now.send_modify(|now| *now -= weight(0));
    }
}

/// A program of a test.
pub(crate) struct Program(Turn);

impl Drop for Program {
    fn drop(&mut self) {
        self.0.set_programs(|programs| programs - 1);
    }
}

thread_local! {
    /// The start of the work of the test on this thread: its first turn.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };

    /// Whether the test on this thread mostly waits.
    static WAITS: Cell<bool> = const { Cell::new(false) };

    /// The turn of the test on this thread: each test runs on a thread of its own. The lock is held while the test
    /// waits for its turn, so that environments that it creates at the same time wait for one turn and not for one
    /// each.
    static HELD: Arc<tokio::sync::Mutex<Weak<Place>>> = Arc::default();
}

/// Starts the clock of the test on this thread, unless the clock runs.
fn begin() {
    BEGAN.set(BEGAN.get().or_else(|| Some(Instant::now())));
}

/// The time since the test on this thread started its work.
pub(crate) fn taken() -> Duration {
    BEGAN.get().map(|began| began.elapsed()).unwrap_or_default()
}

/// Declares that the test on this thread mostly waits, for periods of Cluster API or for a time to pass, so that it
/// takes no turn of the tests that work. The test calls this before its first world or environment.
pub fn mostly_waits() {
    WAITS.set(true);
}

/// Waits for a turn. A test shares one turn among all its worlds and environments: two tests that each held a turn and
/// waited for another one would wait for ever.
pub(crate) async fn turn() -> Turn {
    let turn = take(if WAITS.get() { &WAITING } else { &WORKING }).await;
    begin();
    turn
}

async fn take(load: &Arc<Load>) -> Turn {
    let held = HELD.with(Arc::clone);
    let mut held = held.lock().await;
    if let Some(turn) = held.upgrade() {
        return turn;
    }
    let turn = load.admit().await;
    *held = Arc::downgrade(&turn);
    turn
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whether another test, on its own thread, gets a turn within a moment.
    fn other_test_gets_a_turn(load: &Arc<Load>) -> bool {
        let load = load.clone();
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { tokio::time::timeout(Duration::from_millis(50), take(&load)).await.is_ok() })
        });
        other.join().unwrap()
    }

    #[tokio::test]
    async fn a_test_shares_its_turn_with_itself_and_with_no_other() {
        let load = Arc::new(Load::up_to(1));
        let first = take(&load).await;
        let second = take(&load).await;
        assert!(!other_test_gets_a_turn(&load));
        drop(first);
        assert!(!other_test_gets_a_turn(&load), "the second environment still works");
        drop(second);
        assert!(other_test_gets_a_turn(&load));
    }

    #[tokio::test]
    async fn parts_of_a_test_that_wait_at_the_same_time_get_one_turn() {
        let load = Arc::new(Load::up_to(3));
        let other_tests = [load.admit().await, load.admit().await];
        let parts = futures::future::join(take(&load), take(&load));
        let ((first, second), ()) = futures::future::join(parts, async { drop(other_tests) }).await;
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(*load.now.borrow(), weight(0));
    }

    #[tokio::test]
    async fn programs_of_one_test_leave_less_room_for_others() {
        let load = Arc::new(Load::up_to(4));
        let turn = take(&load).await;
        let manager = turn.program();
        assert!(other_test_gets_a_turn(&load), "the first program counts from the beginning");
        let further = [turn.program(), turn.program()];
        assert!(!other_test_gets_a_turn(&load));
        drop(further);
        assert!(other_test_gets_a_turn(&load));
        drop((manager, turn));
        assert_eq!(*load.now.borrow(), 0);
    }
}
