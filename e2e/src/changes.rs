//! Reports of changes in the namespaces and the AWS accounts of a test. They wake its waits, so that a wait neither
//! asks again and again nor notices a change late.

use tokio::sync::watch;

thread_local! {
    /// The changes that concern the test on this thread: each test runs on a thread of its own.
    static OF_THIS_TEST: Changes = Changes(watch::Sender::new(()));
}

/// The changes that concern one test.
#[derive(Clone, Debug)]
pub(crate) struct Changes(watch::Sender<()>);

impl Changes {
    /// The changes that concern the test on this thread.
    pub(crate) fn of_this_test() -> Self {
        OF_THIS_TEST.with(Clone::clone)
    }

    /// Reports that something has changed.
    pub(crate) fn report(&self) {
        self.0.send_replace(());
    }

    /// A receiver of the reports from now on. Several reports between two looks are one.
    pub(crate) fn follow(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}
