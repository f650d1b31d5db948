//! Drives instance stores on real time and real calls.

use std::collections::{BTreeSet, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::store::{Batch, Call, Loss, Report, Store};
use capa_cloud::targets::{GroupAnswer, GroupCall, GroupReport};
use capa_cloud::{CloudError, Instance, InstanceState, MachineKey, Query, Timing};
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, Stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::sync::lock;

/// The tag that every instance of a machine carries, whichever cluster it is of; a constant, so that one listing serves
/// all clusters of an account.
const ROLE_TAG: &str = "sigs.k8s.io/cluster-api-provider-aws/role";

/// A page of instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstancePage {
    /// The instances.
    pub instances: Vec<Instance>,
    /// The token of the next page; none on the last.
    pub next: Option<String>,
}

/// The calls that a store makes. They wait for their turn within the request rate.
#[async_trait]
pub trait StoreCalls: Send + Sync {
    /// One page of the instances that match `query`. `token` is the one that the page before answered.
    async fn page(&self, query: &Query, token: Option<String>) -> Result<InstancePage, CloudError>;
    /// Terminates instances; gives their new states as far as the answer shows them.
    async fn terminate(&self, ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError>;
    /// Makes a call about load balancer targets.
    async fn targets(&self, call: &GroupCall) -> Result<GroupAnswer, CloudError>;
}

/// Where stores send the machines to wake.
#[derive(Default)]
pub(crate) struct Wakes {
    subscribers: Mutex<Vec<mpsc::UnboundedSender<MachineKey>>>,
}

impl Wakes {
    /// All wake-ups from now on.
    pub(crate) fn subscribe(&self) -> impl Stream<Item = MachineKey> + Send + 'static + use<> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        lock(&self.subscribers).push(sender);
        futures::stream::poll_fn(move |context| receiver.poll_recv(context))
    }

    fn send(&self, woken: &BTreeSet<MachineKey>) {
        if woken.is_empty() {
            return;
        }
        lock(&self.subscribers)
            .retain(|subscriber| woken.iter().all(|machine| subscriber.send(machine.clone()).is_ok()));
    }
}

/// A store that several tasks use at once.
pub(crate) struct Follower {
    store: Mutex<Store>,
    changed: Notify,
    origin: Instant,
    wakes: Arc<Wakes>,
}

impl Follower {
    pub(crate) fn new(timing: Timing, wakes: Arc<Wakes>) -> Self {
        Self {
            store: Mutex::new(Store::new(timing)),
            changed: Notify::new(),
            origin: Instant::now(),
            wakes,
        }
    }

    /// Tells or asks the store something; the loop then sees to the calls that follow from it.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        let result = self.act(act);
        self.changed.notify_one();
        result
    }

    /// Time as the store counts it.
    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn act<T>(&self, act: impl FnOnce(&mut Store) -> T) -> T {
        let (result, woken) = {
            let mut store = lock(&self.store);
            let result = act(&mut store);
            (result, store.take_woken())
        };
        self.wakes.send(&woken);
        result
    }
}

/// Which store a machine is followed by. A machine whose identity changed moves to the store of the new one, and the
/// store of the superseded identity, left by its last machine, makes no further call.
#[derive(Default)]
pub(crate) struct Owners {
    by_machine: Mutex<HashMap<MachineKey, Weak<Follower>>>,
}

impl Owners {
    pub(crate) fn claim(&self, machine: &MachineKey, follower: &Arc<Follower>) {
        let before = lock(&self.by_machine).insert(machine.clone(), Arc::downgrade(follower));
        if let Some(other) = before.and_then(|before| before.upgrade())
            && !Arc::ptr_eq(&other, follower)
        {
            other.with(|store| store.forget(machine));
        }
    }

    pub(crate) fn release(&self, machine: &MachineKey) {
        let owner = lock(&self.by_machine).remove(machine);
        if let Some(owner) = owner.and_then(|owner| owner.upgrade()) {
            owner.with(|store| store.forget(machine));
        }
    }
}

/// A running store; dropping it ends its task.
pub(crate) struct StoreHandle {
    pub(crate) follower: Arc<Follower>,
    _stop: DropGuard,
}

impl StoreHandle {
    /// Starts the task of a store. `died` receives the region's name if the task ends before `stop` says so.
    pub(crate) fn start(
        follower: Arc<Follower>,
        aws: Arc<dyn StoreCalls>,
        timing: Timing,
        region: String,
        stop: CancellationToken,
        died: watch::Sender<Option<String>>,
    ) -> Self {
        let guard = stop.clone().drop_guard();
        let running = follower.clone();
        tokio::spawn(async move {
            let ended = AssertUnwindSafe(run(&running, &aws, timing, &region, &stop))
                .catch_unwind()
                .await;
            if ended.is_err() || !stop.is_cancelled() {
                tracing::error!(%region, "the instance store's task died");
                died.send_replace(Some(region));
            }
        });
        Self { follower, _stop: guard }
    }
}

/// A call that has ended.
enum Ended {
    Read(Call, Result<Vec<Instance>, CloudError>),
    Termination(Batch, Result<Vec<(String, InstanceState)>, CloudError>),
    Targets(GroupCall, Result<GroupAnswer, CloudError>),
}

async fn run(follower: &Follower, aws: &Arc<dyn StoreCalls>, timing: Timing, region: &str, stop: &CancellationToken) {
    // One page a second at most: a listing is not urgent, and other callers share the account's limits.
    let pause = timing.rate_second;
    let mut calls: FuturesUnordered<BoxFuture<'_, Ended>> = FuturesUnordered::new();
    loop {
        while let Some(call) = follower.act(|store| store.begin(follower.now())) {
            calls.push(Box::pin(async move {
                let answer = perform(aws.as_ref(), &call, pause).await;
                Ended::Read(call, answer)
            }));
        }
        while let Some(batch) = follower.act(|store| store.begin_termination(follower.now())) {
            calls.push(Box::pin(async move {
                let answer = aws.terminate(batch.ids()).await;
                Ended::Termination(batch, answer)
            }));
        }
        while let Some(call) = follower.act(|store| store.begin_target_call(follower.now())) {
            calls.push(Box::pin(async move {
                let answer = aws.targets(&call).await;
                Ended::Targets(call, answer)
            }));
        }
        let due = follower.act(|store| store.next_due());
        let due = due.map(|due| follower.origin + due);
        tokio::select! {
            () = stop.cancelled() => return,
            () = follower.changed.notified() => {}
            Some(ended) = calls.next(), if !calls.is_empty() => match ended {
                Ended::Read(call, answer) => {
                    report(region, follower.act(|store| store.ended(call, answer, follower.now())));
                }
                Ended::Termination(batch, answer) => follower.act(|store| store.terminated(batch, answer)),
                Ended::Targets(call, answer) => {
                    let now = follower.now();
                    if let Some(report) = follower.act(|store| store.target_call_ended(&call, answer, now)) {
                        report_group(region, &report);
                    }
                }
            },
            () = tokio::time::sleep_until(due.unwrap_or(follower.origin)), if due.is_some() => {}
        }
    }
}

async fn perform(aws: &dyn StoreCalls, call: &Call, pause: Duration) -> Result<Vec<Instance>, CloudError> {
    let query = match call {
        Call::List { .. } => Query::filter("tag-key", [ROLE_TAG]),
        Call::Look { ids, .. } => Query::filter("instance-id", ids.iter().cloned()),
    };
    let mut instances = Vec::new();
    let mut token = None;
    loop {
        let page = aws.page(&query, token.clone()).await?;
        instances.extend(page.instances);
        if page.next.is_none() {
            return Ok(instances);
        }
        if page.next == token {
            return Err(CloudError::no_answer(
                "DescribeInstances",
                "the same page was answered twice",
            ));
        }
        token = page.next;
        tokio::time::sleep(pause).await;
    }
}

fn report_group(region: &str, report: &GroupReport) {
    match report {
        GroupReport::Failing(group, error) => {
            tracing::warn!(%region, %group, %error, "load balancer targets cannot be read");
        }
        GroupReport::Recovered(group) => tracing::info!(%region, %group, "load balancer targets can be read again"),
    }
}

fn report(region: &str, reports: Vec<Report>) {
    for report in reports {
        match report {
            Report::Failing(error) => tracing::warn!(%region, %error, "instances cannot be listed"),
            Report::Recovered => tracing::info!(%region, "instances can be listed again"),
            Report::Suspicious(Loss { known, lost }) => tracing::warn!(
                %region,
                known,
                lost,
                "a listing of instances lost too many at once to be believed: nothing is concluded until two more agree; \
                 have identity or endpoint changed?"
            ),
            Report::Settled => tracing::info!(%region, "listings of instances are believed again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    #[async_trait]
    impl StoreCalls for Broken {
        async fn page(&self, _query: &Query, _token: Option<String>) -> Result<InstancePage, CloudError> {
            panic!("broken")
        }

        async fn terminate(&self, _ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError> {
            panic!("broken")
        }

        async fn targets(&self, _call: &GroupCall) -> Result<GroupAnswer, CloudError> {
            panic!("broken")
        }
    }

    /// Answers every page with the token of the next one, up to the third.
    struct Endless {
        fails_at: usize,
    }

    #[async_trait]
    impl StoreCalls for Endless {
        async fn page(&self, _query: &Query, token: Option<String>) -> Result<InstancePage, CloudError> {
            let page: usize = token.map_or(0, |token| token.parse().unwrap());
            if page == self.fails_at {
                return Err(CloudError::no_answer("DescribeInstances", "no answer in time"));
            }
            Ok(InstancePage {
                instances: vec![],
                next: (page < 2).then(|| (page + 1).to_string()),
            })
        }

        async fn terminate(&self, _ids: &[String]) -> Result<Vec<(String, InstanceState)>, CloudError> {
            Ok(vec![])
        }

        async fn targets(&self, _call: &GroupCall) -> Result<GroupAnswer, CloudError> {
            Ok(GroupAnswer::Done)
        }
    }

    fn machine() -> MachineKey {
        MachineKey {
            namespace: "default".into(),
            name: "one".into(),
        }
    }

    fn list() -> Call {
        let mut store = Store::new(Timing::default());
        store.watch(&machine(), "i-1");
        store.begin(Duration::ZERO).unwrap()
    }

    #[tokio::test]
    async fn a_store_that_dies_is_noticed() {
        let died = watch::Sender::new(None);
        let mut noticed = died.subscribe();
        let follower = Arc::new(Follower::new(Timing::default(), Arc::default()));
        let stop = CancellationToken::new();
        let _store = StoreHandle::start(
            follower.clone(),
            Arc::new(Broken),
            Timing::default(),
            "us-test-1".into(),
            stop,
            died,
        );
        follower.with(|store| store.watch(&machine(), "i-1"));
        let region = tokio::time::timeout(Duration::from_mins(2), noticed.wait_for(Option::is_some)).await;
        assert_eq!(region.unwrap().unwrap().as_deref(), Some("us-test-1"));
    }

    #[tokio::test]
    async fn a_store_that_is_stopped_is_not_taken_for_dead() {
        let died = watch::Sender::new(None);
        let mut noticed = died.subscribe();
        let follower = Arc::new(Follower::new(Timing::default(), Arc::default()));
        let stop = CancellationToken::new();
        let store = StoreHandle::start(
            follower,
            Arc::new(Broken),
            Timing::default(),
            "us-test-1".into(),
            stop,
            died,
        );
        drop(store);
        assert!(noticed.changed().await.is_err(), "the task ended and said nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn pages_are_a_second_apart() {
        let began = Instant::now();
        let pause = Duration::from_secs(1);
        perform(&Endless { fails_at: 9 }, &list(), pause).await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_fails_fails_the_listing() {
        let pause = Duration::from_secs(1);
        assert!(perform(&Endless { fails_at: 2 }, &list(), pause).await.is_err());
    }
}
