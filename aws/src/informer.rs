//! Runs the calls that sessions make in the background, in real time.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use capa_cloud::informer::{InformerReport, Loss};
use capa_cloud::session::{EndedCall, InformerCalls, Moment, SessionReport, SessionState, perform};
use capa_cloud::targets::GroupReport;
use capa_cloud::{MachineKey, Timing};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, Stream};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::sdk::replacements::Replacements;

/// The channels to the subscribers that wake machines.
#[derive(Default)]
pub(crate) struct Wakes {
    subscribers: Mutex<Vec<mpsc::UnboundedSender<MachineKey>>>,
}

impl Wakes {
    /// All wake-ups from now on.
    pub(crate) fn subscribe(&self) -> impl Stream<Item = MachineKey> + Send + 'static + use<> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        self.subscribers.lock().push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context))
    }

    fn send(&self, woken: &BTreeSet<MachineKey>) {
        if woken.is_empty() {
            return;
        }
        self.subscribers
            .lock()
            .retain(|subscriber| woken.iter().all(|machine| subscriber.send(machine.clone()).is_ok()));
    }
}

/// The state of a session, which several tasks use at once.
pub(crate) struct SharedState {
    state: Mutex<SessionState>,
    changed: Notify,
    origin: Instant,
    wakes: Arc<Wakes>,
    replacements: Arc<Replacements>,
}

impl SharedState {
    /// `replacements` counts the replacements of the credentials that the session signs with.
    pub(crate) fn new(timing: Timing, wakes: Arc<Wakes>, replacements: Arc<Replacements>) -> Self {
        Self {
            state: Mutex::new(SessionState::new(timing)),
            changed: Notify::new(),
            origin: Instant::now(),
            wakes,
            replacements,
        }
    }

    /// Runs `act` on the state. The informer's task then makes the calls that follow from the change.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut SessionState, Moment) -> T) -> T {
        let result = self.drive(act);
        self.changed.notify_one();
        result
    }

    fn drive<T>(&self, act: impl FnOnce(&mut SessionState, Moment) -> T) -> T {
        let at = Moment { now: self.origin.elapsed(), replacements: self.replacements.count() };
        let (result, woken) = {
            let mut state = self.state.lock();
            let result = act(&mut state, at);
            (result, state.take_woken())
        };
        self.wakes.send(&woken);
        result
    }
}

/// A running informer; dropping it ends its task.
pub(crate) struct InformerTask {
    _stop: DropGuard,
}

impl InformerTask {
    /// Starts the task. `died` receives the region's name if the task ends before `stop`.
    pub(crate) fn start(
        state: Arc<SharedState>,
        calls: Arc<dyn InformerCalls>,
        region: String,
        stop: CancellationToken,
        died: watch::Sender<Option<String>>,
    ) -> Self {
        let guard = stop.clone().drop_guard();
        tokio::spawn(async move {
            let running = AssertUnwindSafe(run(&state, calls.as_ref(), &region, &stop));
            let ended = running.catch_unwind().await;
            if ended.is_err() || !stop.is_cancelled() {
                tracing::error!(%region, "the instance informer's task died");
                died.send_replace(Some(region));
            }
        });
        Self { _stop: guard }
    }
}

async fn run(state: &SharedState, calls: &dyn InformerCalls, region: &str, stop: &CancellationToken) {
    let mut under_way: FuturesUnordered<BoxFuture<'_, EndedCall>> = FuturesUnordered::new();
    loop {
        while let Some(call) = state.drive(|session, at| session.next_call(at.now)) {
            under_way.push(Box::pin(perform(calls, call)));
        }
        let due = state.drive(|session, _| session.next_due());
        let due = due.map(|due| state.origin + due);
        tokio::select! {
            () = stop.cancelled() => return,
            () = state.changed.notified() => {}
            Some(ended) = under_way.next(), if !under_way.is_empty() => {
                for report in state.drive(|session, at| session.call_ended(ended, at.now)) {
                    log(region, &report);
                }
            }
            () = tokio::time::sleep_until(due.unwrap_or(state.origin)), if due.is_some() => {}
        }
    }
}

fn log(region: &str, report: &SessionReport) {
    match report {
        SessionReport::Targets(GroupReport::Failing(group, error)) => {
            tracing::warn!(%region, %group, %error, "load balancer targets cannot be read");
        }
        SessionReport::Targets(GroupReport::Recovered(group)) => {
            tracing::info!(%region, %group, "load balancer targets can be read again");
        }
        SessionReport::Instances(InformerReport::Failing(error)) => {
            tracing::warn!(%region, %error, "instances cannot be listed");
        }
        SessionReport::Instances(InformerReport::Recovered) => {
            tracing::info!(%region, "instances can be listed again");
        }
        SessionReport::Instances(InformerReport::ListingIncomplete(Loss { known, lost })) => tracing::warn!(
            %region,
            known,
            lost,
            "a listing of instances lost too many at once to be believed: nothing is concluded until two more agree; \
             have identity or endpoint changed?"
        ),
        SessionReport::Instances(InformerReport::ListingComplete) => {
            tracing::info!(%region, "listings of instances are believed again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use capa_cloud::informer::TerminationBatch;
    use capa_cloud::targets::{GroupAnswer, GroupCall};
    use capa_cloud::{CloudError, Instance, InstanceState, Query};

    use super::*;

    struct Broken;

    #[async_trait]
    impl InformerCalls for Broken {
        async fn read(&self, _query: &Query) -> Result<Vec<Instance>, CloudError> {
            panic!("broken")
        }

        async fn look_up(&self, _query: &Query) -> Result<Vec<Instance>, CloudError> {
            panic!("broken")
        }

        async fn terminate(&self, _batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError> {
            panic!("broken")
        }

        async fn group_call(&self, _call: &GroupCall) -> Result<GroupAnswer, CloudError> {
            panic!("broken")
        }
    }

    /// An informer whose calls panic, and the receiver of the report of its end.
    fn broken() -> (Arc<SharedState>, InformerTask, watch::Receiver<Option<String>>) {
        let died = watch::Sender::new(None);
        let noticed = died.subscribe();
        let state = Arc::new(SharedState::new(Timing::default(), Arc::default(), Arc::default()));
        let stop = CancellationToken::new();
        let task = InformerTask::start(state.clone(), Arc::new(Broken), "us-test-1".into(), stop, died);
        (state, task, noticed)
    }

    #[tokio::test]
    async fn an_informer_that_dies_is_reported() {
        let (state, _task, mut noticed) = broken();
        let machine = MachineKey { namespace: "default".into(), name: "one".into() };
        state.act(|session, at| session.observe(&machine, "dev", "i-1", at));
        let region = tokio::time::timeout(Duration::from_mins(2), noticed.wait_for(Option::is_some)).await;
        assert_eq!(region.unwrap().unwrap().as_deref(), Some("us-test-1"));
    }

    #[tokio::test]
    async fn a_stopped_informer_is_not_reported_as_dead() {
        let (_state, task, mut noticed) = broken();
        drop(task);
        assert!(noticed.changed().await.is_err(), "the task ended and said nothing");
    }
}
