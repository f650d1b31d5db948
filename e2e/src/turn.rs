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

thread_local! {
    /// The start of the work of the test on this thread: its first turn.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };

    /// Whether the test on this thread mostly waits.
    static WAITS: Cell<bool> = const { Cell::new(false) };

    /// The turn of the test on this thread: each test runs on a thread of its own.
    static HELD: RefCell<Weak<OwnedSemaphorePermit>> = const { RefCell::new(Weak::new()) };
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

/// A permit to work in a world, which ends when the last clone is dropped.
pub(crate) type Turn = Arc<OwnedSemaphorePermit>;

/// Waits for a turn. A test shares one turn among all its worlds and environments: two tests that each held a turn and
/// waited for another one would wait for ever.
pub(crate) async fn turn() -> anyhow::Result<Turn> {
    let turn = take(if WAITS.get() { &TURNS_TO_WAIT } else { &TURNS }).await?;
    begin();
    Ok(turn)
}

async fn take(turns: &Arc<Semaphore>) -> anyhow::Result<Turn> {
    if let Some(held) = HELD.with_borrow(Weak::upgrade) {
        return Ok(held);
    }
    let turn = turns.clone().acquire_owned().await.context("no more turns are given")?;
    let turn = Arc::new(turn);
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
                tokio::time::timeout(Duration::from_millis(50), take(&turns))
                    .await
                    .is_ok()
            })
        });
        other.join().unwrap()
    }

    #[tokio::test]
    async fn a_test_shares_its_turn_with_itself_and_with_no_other() {
        let turns = Arc::new(Semaphore::new(1));
        let first = take(&turns).await.unwrap();
        let second = take(&turns).await.unwrap();
        assert!(!other_test_gets_a_turn(&turns));
        drop(first);
        assert!(!other_test_gets_a_turn(&turns), "the second environment still works");
        drop(second);
        assert!(other_test_gets_a_turn(&turns));
    }
}
