//! One manager process, as the runtime would run it: caches that follow the watches, a queue for each controller,
//! passes that are polled by hand, back-off, and the sessions' own calls. A crash is dropping it.

mod kept;
mod watches;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use capa_cloud::Timing;
use capa_cloud::session::{EndedCall, SessionKey, perform};
use capa_cloud::targets::TargetPolicy;
use capa_controllers::LaunchMemory;
use capa_controllers::awscluster::{
    CheckTimes, ClusterContext, ClusterReconciler, FactsSources, KnownDetails, LookupCache, ManagedContext,
    WarningDedup,
};
use capa_controllers::awsmachine::{MachineContext, MachineReconciler};
use capa_controllers::orphans::OrphanScanner;
use capa_fake_aws::FakeAccount;
use capa_preflight::{FactsSource, SavedFacts};
use capa_runtime::backoff::{Backoff, BackoffSettings};
use capa_runtime::reconcile::{Next, ReconcileError, ReconcileErrorKind};
use capa_runtime::writes::Freshness;
use jiff::Timestamp;

use crate::calls::{Answer, Call};
use crate::management_cluster::ManagementCluster;
use crate::manager::Manager;
use crate::names::IDENTITY_NAMESPACE;
use crate::passes;
use crate::server::{Change, Kind, Object, Stored};
use crate::time::{START, after, since_start};
use watches::Watch;

/// Objects of one kind that are reconciled at once, as the runtime's default is.
const CONCURRENCY: usize = 10;
/// The longest a pass may take, as the runtime's default is.
const PASS_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a pass waits for the cache to show the last write before it reads the object itself, as in the runtime.
const CACHE_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a pass looks again whether the cache shows the last write, as in the runtime.
const CACHE_GLANCE: Duration = Duration::from_millis(100);
/// `--sync-period`.
const SYNC_PERIOD: Duration = Duration::from_secs(600);

/// An object in a controller's queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Cluster(String),
    Machine(String),
}

/// How a task ends.
enum Ended {
    Pass(Result<Next, ReconcileError>),
    Session(EndedCall),
}

enum Purpose {
    /// A pass over an object, as the cache had it.
    Pass {
        item: Item,
        object: Object,
    },
    Session {
        key: SessionKey,
    },
}

struct Task {
    purpose: Purpose,
    deadline: Timestamp,
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// Whether more objects of a kind may be reconciled now.
struct Room {
    machines: bool,
    clusters: bool,
}

impl Room {
    fn for_item(&self, item: &Item) -> bool {
        match item {
            Item::Machine(_) => self.machines,
            Item::Cluster(_) => self.clusters,
        }
    }
}

/// A process.
pub(crate) struct Process {
    pub(crate) of: ManagementCluster,
    pub(crate) leading: bool,
    pub(crate) manager: Manager,
    machines: Arc<MachineReconciler>,
    clusters: Arc<ClusterReconciler>,
    machine_backoff: Backoff,
    cluster_backoff: Backoff,
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
    queue: BTreeMap<Item, Timestamp>,
    running: BTreeMap<Item, u64>,
    told: BTreeMap<(Watch, String), (Option<String>, u64)>,
    /// Since when the cache owes the last write to an object.
    owing: BTreeMap<Item, Timestamp>,
    deliveries: BTreeMap<Kind, VecDeque<(Timestamp, Change)>>,
    /// When the simulation has planned to wake the process. A time is planned once, however often earlier events come.
    pub(crate) planned: BTreeSet<Timestamp>,
}

/// A call and the task that made it.
pub(crate) type TaskCall = (u64, Call);

impl Process {
    /// A process of a management cluster, with filled caches, that does not lead. `access_key`: what it calls AWS with.
    pub(crate) fn new(id: usize, of: ManagementCluster, stored: Stored, access_key: &'static str) -> Self {
        let manager = Manager::new(of, stored, access_key);
        let timing = Timing::default();
        let machines = MachineReconciler {
            context: MachineContext {
                kubernetes: Arc::new(manager.clone()),
                clouds: Arc::new(manager.clone()),
                memory: LaunchMemory::new(format!("process-{id}")),
                timing,
                identity_namespace: IDENTITY_NAMESPACE.to_owned(),
                target_policy: TargetPolicy::Any,
            },
            sync_period: SYNC_PERIOD,
        };
        let clusters = ClusterReconciler {
            context: ClusterContext {
                kubernetes: Arc::new(manager.clone()),
                clouds: Arc::new(manager.clone()),
                facts: good_facts(),
                lookups: LookupCache::default(),
                checks: CheckTimes::default(),
                warnings: WarningDedup::default(),
                timing,
                identity_namespace: IDENTITY_NAMESPACE.to_owned(),
            },
            managed: ManagedContext {
                kubernetes: Arc::new(manager.clone()),
                clouds: Arc::new(FakeAccount::default()),
                timing,
                identity_namespace: IDENTITY_NAMESPACE.to_owned(),
                known_details: KnownDetails::default(),
            },
            sync_period: SYNC_PERIOD,
        };
        let backoff_settings = BackoffSettings { cap: timing.source_retry_cap, ..BackoffSettings::default() };
        Self {
            of,
            leading: false,
            manager,
            machines: Arc::new(machines),
            clusters: Arc::new(clusters),
            machine_backoff: Backoff::new(backoff_settings),
            cluster_backoff: Backoff::default(),
            tasks: BTreeMap::new(),
            last_task: 0,
            queue: BTreeMap::new(),
            running: BTreeMap::new(),
            told: BTreeMap::new(),
            owing: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            planned: BTreeSet::new(),
        }
    }

    /// Starts the controllers: every object is news to them.
    pub(crate) fn lead(&mut self, now: Timestamp) {
        self.leading = true;
        let (clusters, machines): (Vec<_>, Vec<_>) = {
            let cache = &self.manager.state().cache;
            let clusters = cache.aws_clusters.values().cloned().map(Object::AwsCluster);
            let machines = cache.aws_machines.values().cloned().map(Object::AwsMachine);
            let others = cache.clusters.values().cloned().map(Object::Cluster);
            let owners = cache.machines.values().cloned().map(Object::Machine);
            (clusters.chain(others).collect(), machines.chain(owners).collect())
        };
        for object in clusters.into_iter().chain(machines) {
            self.trigger(&Change::Applied(object), now);
        }
    }

    /// A watch event that the cache will show at `at`, or later where earlier events of its kind are later.
    pub(crate) fn expect(&mut self, at: Timestamp, change: Change) {
        let queue = self.deliveries.entry(change.object().kind()).or_default();
        let at = queue.back().map_or(at, |(last, _)| at.max(*last));
        queue.push_back((at, change));
    }

    /// The answer to a call of a task.
    pub(crate) fn answered(&mut self, task: u64, call: u64, answer: Answer, now: Timestamp) -> Vec<TaskCall> {
        if !self.tasks.contains_key(&task) {
            return Vec::new();
        }
        self.manager.mailbox.deliver(call, answer);
        self.manager.state().now = now;
        let mut asked = self.poll(task, now);
        asked.extend(self.advance(now));
        asked
    }

    /// Does all that is due: watch events, time-outs, passes, the sessions' calls.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Vec<TaskCall> {
        self.manager.state().now = now;
        self.take_deliveries(now);
        self.take_woken(now);
        if !self.leading {
            return Vec::new();
        }
        self.cancel_overdue(now);
        let mut asked = self.start_passes(now);
        asked.extend(self.start_session_calls(now));
        self.take_woken(now);
        asked
    }

    /// When [`Self::advance`] has something to do next.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let deliveries = self.deliveries.values().filter_map(|queue| queue.front().map(|(at, _)| *at)).min();
        if !self.leading {
            return deliveries;
        }
        let room = self.room();
        let waiting = self.queue.iter().filter(|(item, _)| room.for_item(item) && !self.running.contains_key(*item));
        let passes = waiting.map(|(_, due)| *due).min();
        let deadlines = self.tasks.values().map(|task| task.deadline).min();
        let session = self.manager.state().sessions.next_due();
        let session = session.map(|due| after(START, due));
        [deliveries, passes, deadlines, session].into_iter().flatten().min()
    }

    /// How many orphaned instances the scan for them reports.
    pub(crate) fn orphans(&self) -> u32 {
        let snapshots = || self.manager.state().sessions.snapshots();
        let mut scanner = OrphanScanner::default();
        // Only the second scan counts an instance.
        drop(scanner.scan(snapshots(), &self.manager));
        let findings = scanner.scan(snapshots(), &self.manager);
        findings.without_machine.values().sum()
    }

    fn enqueue(&mut self, item: Item, due: Timestamp) {
        let earliest = self.queue.entry(item).or_insert(due);
        *earliest = due.min(*earliest);
    }

    fn take_woken(&mut self, now: Timestamp) {
        let woken = self.manager.state().sessions.take_woken();
        for machine in woken {
            self.enqueue(Item::Machine(machine.name), now);
        }
    }

    fn has_room(&self, item: &Item) -> bool {
        self.room().for_item(item) && !self.running.contains_key(item)
    }

    fn room(&self) -> Room {
        let machines = self.running.keys().filter(|item| matches!(item, Item::Machine(_))).count();
        Room { machines: machines < CONCURRENCY, clusters: self.running.len() - machines < CONCURRENCY }
    }

    fn start_passes(&mut self, now: Timestamp) -> Vec<TaskCall> {
        let due: Vec<Item> = self.queue.iter().filter(|(_, due)| **due <= now).map(|(item, _)| item.clone()).collect();
        let mut asked = Vec::new();
        for item in due {
            if self.has_room(&item) {
                self.queue.remove(&item);
                asked.extend(self.start_pass(item, now));
            }
        }
        asked
    }

    fn start_pass(&mut self, item: Item, now: Timestamp) -> Vec<TaskCall> {
        let future: Pin<Box<dyn Future<Output = _> + Send>>;
        let object;
        match &item {
            Item::Machine(name) => {
                let Some(machine) = self.manager.state().cache.aws_machines.get(name).cloned() else {
                    return Vec::new();
                };
                let fresh = self.manager.writes.freshness(machine.as_ref());
                let Some(reread) = self.wait_for_cache(&item, fresh, now) else {
                    return Vec::new();
                };
                object = Object::AwsMachine(machine.clone());
                let (manager, reconciler) = (self.manager.clone(), self.machines.clone());
                future = Box::pin(passes::machine(manager, reconciler, machine, reread));
            }
            Item::Cluster(name) => {
                let Some(cluster) = self.manager.state().cache.aws_clusters.get(name).cloned() else {
                    return Vec::new();
                };
                let fresh = self.manager.writes.freshness(cluster.as_ref());
                if self.wait_for_cache(&item, fresh, now).is_none() {
                    return Vec::new();
                }
                object = Object::AwsCluster(cluster.clone());
                let (manager, reconciler) = (self.manager.clone(), self.clusters.clone());
                future = Box::pin(passes::cluster(manager, reconciler, cluster));
            }
        }
        let future = Box::pin(async move { Ended::Pass(future.await) });
        let task = self.spawn(Purpose::Pass { item: item.clone(), object }, after(now, PASS_TIMEOUT), future);
        self.running.insert(item, task);
        self.poll(task, now)
    }

    /// `None`: not yet, because the cache owes the last write. Else whether the object has to be read anew.
    fn wait_for_cache(&mut self, item: &Item, freshness: Freshness, now: Timestamp) -> Option<bool> {
        if freshness == Freshness::Fresh {
            self.owing.remove(item);
            return Some(false);
        }
        let since = *self.owing.entry(item.clone()).or_insert(now);
        let deadline = after(since, CACHE_TIMEOUT);
        if deadline <= now {
            self.owing.remove(item);
            return Some(true);
        }
        // Looking costs nothing, so looks that can show nothing new are left out.
        let kind = match item {
            Item::Machine(_) => Kind::AwsMachine,
            Item::Cluster(_) => Kind::AwsCluster,
        };
        let next_event = self.deliveries.get(&kind).and_then(|queue| queue.front());
        let glance = after(now, CACHE_GLANCE);
        let next = next_event.map_or(deadline, |(at, _)| (*at).max(glance));
        self.enqueue(item.clone(), next.min(deadline));
        None
    }

    fn start_session_calls(&mut self, now: Timestamp) -> Vec<TaskCall> {
        let due = self.manager.state().sessions.next_calls(since_start(now));
        let mut asked = Vec::new();
        for (key, call) in due {
            let session = self.manager.session(key.clone());
            let future = Box::pin(async move { Ended::Session(perform(&session, call).await) });
            let task = self.spawn(Purpose::Session { key }, Timestamp::MAX, future);
            asked.extend(self.poll(task, now));
        }
        asked
    }

    fn spawn(
        &mut self,
        purpose: Purpose,
        deadline: Timestamp,
        future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    ) -> u64 {
        self.last_task += 1;
        let task = Task { purpose, deadline, future };
        self.tasks.insert(self.last_task, task);
        self.last_task
    }

    fn poll(&mut self, id: u64, now: Timestamp) -> Vec<TaskCall> {
        let Some(task) = self.tasks.get_mut(&id) else {
            return Vec::new();
        };
        let mut context = Context::from_waker(Waker::noop());
        let polled = task.future.as_mut().poll(&mut context);
        let asked = self.manager.mailbox.take_asked();
        if let Poll::Ready(ended) = polled
            && let Some(task) = self.tasks.remove(&id)
        {
            self.ended(task.purpose, ended, now);
        }
        asked.into_iter().map(|call| (id, call)).collect()
    }

    fn cancel_overdue(&mut self, now: Timestamp) {
        let overdue: Vec<u64> = self.tasks.iter().filter(|(_, task)| task.deadline <= now).map(|(id, _)| *id).collect();
        for id in overdue {
            let Some(task) = self.tasks.remove(&id) else { continue };
            let ended = Ended::Pass(Err(ReconcileError::new("Timeout", "the pass took too long")));
            drop(task.future);
            self.ended(task.purpose, ended, now);
        }
    }

    fn ended(&mut self, purpose: Purpose, ended: Ended, now: Timestamp) {
        match (purpose, ended) {
            (Purpose::Pass { item, object }, Ended::Pass(result)) => {
                self.running.remove(&item);
                self.pass_ended(item, &object, result, now);
            }
            (Purpose::Session { key }, Ended::Session(call)) => {
                self.manager.state().sessions.call_ended(&key, call, since_start(now));
            }
            (Purpose::Pass { .. }, Ended::Session(_)) | (Purpose::Session { .. }, Ended::Pass(_)) => {}
        }
    }

    /// Handles the result of a pass as the runtime does.
    fn pass_ended(&mut self, item: Item, object: &Object, result: Result<Next, ReconcileError>, now: Timestamp) {
        let uid = &object.uid();
        let backoff = match &item {
            Item::Machine(_) => &self.machine_backoff,
            Item::Cluster(_) => &self.cluster_backoff,
        };
        let delay = match result.map_err(|error| error.kind()) {
            Ok(Next::AwaitChange) => {
                backoff.reset(uid);
                None
            }
            Ok(Next::Requeue(delay)) => {
                backoff.reset(uid);
                Some(delay)
            }
            Ok(Next::Deferred(delay)) => Some(delay),
            Err(ReconcileErrorKind::Gone) => None,
            Err(ReconcileErrorKind::Conflict) => Some(CACHE_GLANCE),
            Ok(Next::Retry) | Err(ReconcileErrorKind::Failed) => Some(backoff.failed(uid)),
        };
        // An object deleted while its pass ran must not leave anything behind.
        let still_there = {
            let cache = &self.manager.state().cache;
            let current = match &item {
                Item::Machine(name) => cache.aws_machines.get(name).map(|object| &object.metadata),
                Item::Cluster(name) => cache.aws_clusters.get(name).map(|object| &object.metadata),
            };
            current.is_some_and(|metadata| metadata.uid.as_ref() == Some(uid))
        };
        if !still_there {
            return self.forget(object);
        }
        if let Some(delay) = delay {
            self.enqueue(item, after(now, delay));
        }
    }
}

/// The checks of the infrastructure find nothing: histories are about machines. The facts are parsed once, and not by
/// each process.
fn good_facts() -> FactsSources {
    static FACTS: LazyLock<Arc<SavedFacts>> = LazyLock::new(|| {
        let saved = include_str!("../../preflight/fixtures/good.json");
        Arc::new(SavedFacts(serde_json::from_str(saved).expect("facts")))
    });
    Arc::new(|_, _| Arc::clone(&*FACTS) as Arc<dyn FactsSource>)
}
