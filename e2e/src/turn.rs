//! The limit of concurrent tests in a world. A story uses less than half a core, including the work of the servers that
//! it calls. A story about whole clusters mostly waits for periodic reconciles of Cluster API.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of tests that work: as many as there are cores, but at least four.
static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(most())));

/// The turns of tests that [mostly wait](mostly_waits): as many as there are cores, but at least four.
static TURNS_TO_WAIT: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(most())));

/// The number of turns of each kind.
fn most() -> usize {
    let cores = std::thread::available_parallelism();
    cores.map_or(1, std::num::NonZero::get).max(4)
}

/// What a test takes of the turns.
#[derive(Clone, Copy)]
enum Share {
    /// One of the turns of tests that work.
    Work,
    /// One of the turns of tests that mostly wait.
    Wait,
    /// All turns.
    All,
}

thread_local! {
    /// The start of the work of the test on this thread: its first turn.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };

    /// The share of the test on this thread.
    static SHARE: Cell<Share> = const { Cell::new(Share::Work) };

    /// The turn of the test on this thread: each test runs on a thread of its own.
    static HELD: RefCell<Weak<Permits>> = const { RefCell::new(Weak::new()) };
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
    SHARE.set(Share::Wait);
}

/// Declares that the test on this thread measures real time, so that no other test works in a world meanwhile. The test
/// calls this before its first world or environment.
pub fn works_alone() {
    SHARE.set(Share::All);
}

type Permits = Vec<OwnedSemaphorePermit>;

/// A permit to work in a world, which ends when the last clone is dropped.
pub(crate) type Turn = Arc<Permits>;

/// Waits for a turn. A test shares one turn among all its worlds and environments: two tests that each held a turn and
/// waited for another one would wait for ever.
pub(crate) async fn turn() -> anyhow::Result<Turn> {
    let all = u32::try_from(most())?;
    let turn = match SHARE.get() {
        Share::Work => take(&[(&TURNS, 1)]).await?,
        Share::Wait => take(&[(&TURNS_TO_WAIT, 1)]).await?,
        Share::All => take(&[(&TURNS, all), (&TURNS_TO_WAIT, all)]).await?,
    };
    begin();
    Ok(turn)
}

/// Takes so many turns of each kind, one kind after the other: tests that take all turns wait for the first kind without
/// holding the second.
async fn take(wanted: &[(&Arc<Semaphore>, u32)]) -> anyhow::Result<Turn> {
    if let Some(held) = HELD.with_borrow(Weak::upgrade) {
        return Ok(held);
    }
    let mut permits = Permits::new();
    for (turns, number) in wanted {
        let permit = (*turns).clone().acquire_many_owned(*number).await;
        permits.push(permit.context("no more turns are given")?);
    }
    let turn = Arc::new(permits);
    HELD.set(Arc::downgrade(&turn));
    Ok(turn)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whether another test, on its own thread, gets a turn within a moment.
    fn other_test_gets_a_turn(turns: &Arc<Semaphore>) -> bool {
        let turns = turns.clone();
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                tokio::time::timeout(Duration::from_millis(50), take(&[(&turns, 1)]))
                    .await
                    .is_ok()
            })
        });
        other.join().unwrap()
    }

    #[tokio::test]
    async fn a_test_shares_its_turn_with_itself_and_with_no_other() {
        let turns = Arc::new(Semaphore::new(1));
        let first = take(&[(&turns, 1)]).await.unwrap();
        let second = take(&[(&turns, 1)]).await.unwrap();
        assert!(!other_test_gets_a_turn(&turns));
        drop(first);
        assert!(!other_test_gets_a_turn(&turns), "the second environment still works");
        drop(second);
        assert!(other_test_gets_a_turn(&turns));
    }

    #[tokio::test]
    async fn a_test_that_takes_all_turns_leaves_none_to_others() {
        let (working, waiting) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(2)));
        let alone = take(&[(&working, 2), (&waiting, 2)]).await.unwrap();
        assert!(!other_test_gets_a_turn(&working) && !other_test_gets_a_turn(&waiting));
        drop(alone);
        assert!(other_test_gets_a_turn(&working) && other_test_gets_a_turn(&waiting));
    }
}
