//! One cache for each kind, filled by one watch, and the stream of its changes.
//!
//! Differences from kube's reflector streams: the store has a change before subscribers receive it; each subscriber
//! filters the changes for itself ([`ObjectCache::changes`]) while the store has every version; a deletion that the
//! watch missed is still reported, because the next list is compared with the store; a malformed object is skipped.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{Stream, StreamExt};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{Predicate, WatchStreamExt};
use kube::{Api, Resource};
use parking_lot::Mutex;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::Runtime;
pub use crate::changes::Change;
use crate::changes::changes;
use crate::guarded::Guarded;
use crate::health::Gate;
use crate::index::{CacheIndex, Follower};
use crate::kinds::{CachedKind, ObjectName};
use crate::malformed::MalformedOfKind;
use crate::repeated_failure::RepeatedFailure;
use crate::tally::Tally;
use crate::tasks::Tasks;

/// The status code if the server no longer has the events since the watched version. It is normal after a pause.
const EXPIRED: u16 = 410;

/// A watch ended before it was asked to.
#[derive(Debug, Error)]
#[error("the watch of {kind} ended")]
pub struct WatchEnded {
    kind: String,
}

/// The last known objects of one kind. Clones share the cache.
#[derive(Clone, Debug)]
pub struct ObjectCache<K: CachedKind> {
    store: Store<K>,
    subscribers: Subscribers<K>,
    followers: Followers<K>,
}

/// The followers that receive every change before the subscribers.
type Followers<K> = Arc<Mutex<Vec<Box<dyn Follower<K>>>>>;

/// `None` once the watch has ended.
type Subscribers<K> = Arc<Mutex<Option<Vec<UnboundedSender<Change<K>>>>>>;

impl<K: CachedKind> ObjectCache<K> {
    /// Starts the watch as one of `tasks`, and adds a readiness gate that opens when the cache is filled.
    pub fn start(runtime: &Runtime, tasks: &mut Tasks, api: Api<Guarded<K>>, config: watcher::Config) -> Self {
        let (cache, filler) = Self::new(runtime);
        let events = watcher(api, config).default_backoff();
        tasks.spawn(format!("cache of {}", K::kind(&())), filler.run(events, tasks.stop()));
        cache
    }

    /// A cache and its filler.
    pub(crate) fn new(runtime: &Runtime) -> (Self, CacheFiller<K>) {
        let kind = K::kind(&());
        let (store, writer) = reflector::store();
        let subscribers = Arc::new(Mutex::new(Some(Vec::new())));
        let followers = Followers::default();
        let filler = CacheFiller {
            writer,
            store: store.clone(),
            subscribers: Arc::clone(&subscribers),
            followers: Arc::clone(&followers),
            malformed: MalformedOfKind::new(runtime.malformed.clone(), runtime.metrics.malformed(&kind)),
            gate: runtime.readiness.gate(format!("cache of {kind}")),
        };
        let cache = Self { store, subscribers, followers };
        (cache, filler)
    }

    /// The objects. Before the cache is filled (see [`crate::health::Readiness::all_open`]) it is empty.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    /// An index of the objects by the keys that `keys_of` returns. Reading it needs a lookup in a map instead of a walk
    /// over all objects.
    pub fn index(&self, keys_of: fn(&K) -> Vec<String>) -> CacheIndex<K> {
        let index = CacheIndex::new(keys_of);
        self.let_follow(Box::new(index.clone()));
        index
    }

    /// Counts the objects by the keys that `keys_of` returns. The counts are updated for every change, so reading them
    /// needs no walk over the objects.
    pub fn tally<T>(&self, keys_of: fn(&K) -> Vec<T>) -> Tally<K, T>
    where
        T: Copy + Debug + Eq + Hash + Send + Sync + 'static,
    {
        let tally = Tally::new(keys_of);
        self.let_follow(Box::new(tally.clone()));
        tally
    }

    fn let_follow(&self, follower: Box<dyn Follower<K>>) {
        // The lock keeps the store and its followers consistent.
        let _in_step = self.subscribers.lock();
        for object in self.store.state() {
            follower.follow(None, Some(&object));
        }
        self.followers.lock().push(follower);
    }

    /// The changes from now on whose `predicate` hash differs from the object's last one, and every deletion. The
    /// stream begins with all objects that are in the cache now, and ends with the watch. Unread changes stay in
    /// memory: read the stream, or drop it.
    pub fn changes<P>(&self, predicate: P) -> impl Stream<Item = Change<K>> + Send + use<K, P>
    where
        P: Predicate<K> + Send + 'static,
    {
        let (sender, receiver) = unbounded();
        // The lock keeps the store and the subscribers consistent, so that no change is sent twice or lost.
        let mut subscribers = self.subscribers.lock();
        for object in self.store.state() {
            // The receiver exists until this function returns it.
            let _ = sender.unbounded_send(Change::Applied(object));
        }
        if let Some(subscribers) = subscribers.as_mut() {
            subscribers.push(sender);
        }
        changes(receiver, predicate)
    }
}

/// A change, and what the store had before.
struct Replaced<K> {
    before: Option<Arc<K>>,
    change: Change<K>,
}

impl<K> Replaced<K> {
    fn deleted(object: Arc<K>) -> Self {
        Self { before: Some(Arc::clone(&object)), change: Change::Deleted(object) }
    }
}

/// Writes the objects of a watch into the store and sends the changes to the subscribers.
pub(crate) struct CacheFiller<K: CachedKind> {
    writer: reflector::store::Writer<K>,
    store: Store<K>,
    subscribers: Subscribers<K>,
    followers: Followers<K>,
    malformed: MalformedOfKind,
    gate: Gate,
}

impl<K: CachedKind> CacheFiller<K> {
    /// Reads `events` until `stop`. The stream itself must back off after errors.
    pub(crate) async fn run(
        mut self,
        events: impl Stream<Item = watcher::Result<Event<Guarded<K>>>>,
        stop: CancellationToken,
    ) -> Result<(), WatchEnded> {
        let mut events = std::pin::pin!(events.take_until(stop.cancelled()));
        let mut failure = RepeatedFailure::new(format!("watch {}", K::kind(&())));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // This event precedes the list request, so it does not show that a request has succeeded.
                    if !matches!(event, Event::Init) {
                        failure.succeeded();
                    }
                    self.apply(event);
                }
                Err(watcher::Error::WatchError(status)) if status.code == EXPIRED => {
                    debug!(kind = %K::kind(&()), "the watched version is too old, everything is listed anew");
                }
                Err(error) => failure.failed(&error),
            }
        }
        if stop.is_cancelled() { Ok(()) } else { Err(WatchEnded { kind: K::kind(&()).into_owned() }) }
    }

    /// Applies an event to the store and to its followers, and sends the changes to the subscribers.
    pub(crate) fn apply(&mut self, event: Event<Guarded<K>>) {
        let subscribers = Arc::clone(&self.subscribers);
        let mut subscribers = subscribers.lock();
        let changes = self.store_event(event);
        for follower in self.followers.lock().iter() {
            for Replaced { before, change } in &changes {
                follower.follow(before.as_ref(), change.current());
            }
        }
        for Replaced { change, .. } in changes {
            if let Some(subscribers) = subscribers.as_mut() {
                subscribers.retain(|subscriber| subscriber.unbounded_send(change.clone()).is_ok());
            }
        }
    }

    /// Applies an event to the store and returns the changes that result.
    fn store_event(&mut self, event: Event<Guarded<K>>) -> Vec<Replaced<K>> {
        match event {
            Event::Init => {
                self.malformed.list_begins();
                self.writer.apply_watcher_event(&Event::Init);
                Vec::new()
            }
            Event::InitApply(guard) => {
                if let Some(object) = self.readable(guard) {
                    self.writer.apply_watcher_event(&Event::InitApply(object));
                }
                Vec::new()
            }
            Event::InitDone => self.list_done(),
            Event::Apply(guard) => {
                let reference = reference(&guard);
                match self.readable(guard) {
                    Some(object) => {
                        let before = self.store.get(&reference);
                        self.writer.apply_watcher_event(&Event::Apply(object));
                        let now = self.store.get(&reference);
                        now.map(|now| Replaced { before, change: Change::Applied(now) }).into_iter().collect()
                    }
                    None => self.remove(&reference),
                }
            }
            Event::Delete(guard) => {
                let reference = reference(&guard);
                self.malformed.gone(&ObjectName::of(&guard));
                self.remove(&reference)
            }
        }
    }

    fn list_done(&mut self) -> Vec<Replaced<K>> {
        let by_reference = |object: Arc<K>| (ObjectRef::from_obj(&*object), object);
        let mut former: HashMap<_, _> = self.store.state().into_iter().map(by_reference).collect();
        self.malformed.list_done();
        self.writer.apply_watcher_event(&Event::InitDone);
        self.gate.open();
        let (mut gone, mut applied) = (Vec::new(), Vec::new());
        for object in self.store.state() {
            let mut before = former.remove(&ObjectRef::from_obj(&*object));
            // An object with the same name and another UID is another object.
            gone.extend(before.take_if(|before| before.meta().uid != object.meta().uid));
            applied.push(Replaced { before, change: Change::Applied(object) });
        }
        gone.extend(former.into_values());
        gone.into_iter().map(Replaced::deleted).chain(applied).collect()
    }

    fn remove(&mut self, reference: &ObjectRef<K>) -> Vec<Replaced<K>> {
        let Some(object) = self.store.get(reference) else {
            return Vec::new();
        };
        self.writer.apply_watcher_event(&Event::Delete(K::clone(&object)));
        vec![Replaced::deleted(object)]
    }

    /// The object; `None` for a malformed one, which counts as absent.
    fn readable(&mut self, guard: Guarded<K>) -> Option<K> {
        let name = ObjectName::of(&guard);
        match guard.0 {
            Ok(object) => {
                self.malformed.gone(&name);
                Some(object)
            }
            Err(malformed) => {
                self.malformed.seen(name, *malformed);
                None
            }
        }
    }
}

/// Ends the streams of the subscribers, however the filling ends.
impl<K: CachedKind> Drop for CacheFiller<K> {
    fn drop(&mut self) {
        self.subscribers.lock().take();
    }
}

fn reference<K: CachedKind>(guard: &Guarded<K>) -> ObjectRef<K> {
    let metadata = guard.meta();
    let reference = ObjectRef::new(metadata.name.as_deref().unwrap_or_default());
    match &metadata.namespace {
        Some(namespace) => reference.within(namespace),
        None => reference,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use kube::ResourceExt;

    use super::*;
    use crate::predicate::spec_or_metadata;
    use crate::testing::{FakeServer, WIDGETS, Widget, WidgetStatus, eventually, runtime, scrape, widget};

    type WidgetEvent = Event<Guarded<Widget>>;

    fn good(object: &Widget) -> Guarded<Widget> {
        Guarded(Ok(object.clone()))
    }

    fn cache() -> (Runtime, ObjectCache<Widget>, CacheFiller<Widget>) {
        let (runtime, _) = runtime(&FakeServer::default());
        let (cache, filler) = ObjectCache::new(&runtime);
        (runtime, cache, filler)
    }

    fn list(filler: &mut CacheFiller<Widget>, objects: &[&Widget]) {
        let listed = objects.iter().map(|object| WidgetEvent::InitApply(good(object)));
        for event in std::iter::once(Event::Init).chain(listed).chain([Event::InitDone]) {
            filler.apply(event);
        }
    }

    /// The changes that a subscriber can read now, as `+name` and `-name`.
    fn told(changes: &mut (impl Stream<Item = Change<Widget>> + Unpin)) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(Some(change)) = changes.next().now_or_never() {
            told.push(match change {
                Change::Applied(object) => format!("+{}", object.name_any()),
                Change::Deleted(object) => format!("-{}", object.name_any()),
            });
        }
        told.sort();
        told
    }

    #[tokio::test]
    async fn a_status_change_reaches_the_store_but_not_filtered_readers() {
        let (_, cache, mut filler) = cache();
        list(&mut filler, &[&widget("a")]);
        let mut changes = Box::pin(cache.changes(spec_or_metadata::<Widget>));
        assert_eq!(told(&mut changes), ["+a"], "begins with what is there");
        let mut object = widget("a");
        object.status = Some(WidgetStatus { phase: Some("New".into()), ..WidgetStatus::default() });
        filler.apply(Event::Apply(good(&object)));
        assert!(told(&mut changes).is_empty());
        assert_eq!(cache.store().state()[0].status, object.status);
        object.metadata.generation = Some(2);
        filler.apply(Event::Apply(good(&object)));
        assert_eq!(told(&mut changes), ["+a"]);
    }

    #[tokio::test]
    async fn a_deletion_is_reported_by_watch_and_by_list() {
        let (_, cache, mut filler) = cache();
        list(&mut filler, &[&widget("a"), &widget("b"), &widget("c")]);
        let mut changes = Box::pin(cache.changes(spec_or_metadata::<Widget>));
        told(&mut changes);
        filler.apply(Event::Delete(good(&widget("a"))));
        assert_eq!(told(&mut changes), ["-a"]);
        let mut recreated = widget("c");
        recreated.metadata.uid = Some("another".into());
        list(&mut filler, &[&recreated]);
        assert_eq!(told(&mut changes), ["+c", "-b", "-c"]);
        assert_eq!(cache.store().len(), 1);
    }

    #[tokio::test]
    async fn a_malformed_object_leaves_the_cache_and_is_counted() {
        let server = FakeServer::default();
        let (runtime, registry) = runtime(&server);
        let (cache, mut filler) = ObjectCache::<Widget>::new(&runtime);
        list(&mut filler, &[&widget("a")]);
        let mut malformed = serde_json::to_value(widget("a")).unwrap();
        malformed["spec"]["size"] = "huge".into();
        let malformed = serde_json::from_value(malformed).unwrap();
        filler.apply(Event::Apply(malformed));
        assert!(cache.store().is_empty());
        assert!(scrape(&registry).contains("widgets_malformed_objects{kind=\"Widget\"} 1"));
        filler.apply(Event::Apply(good(&widget("a"))));
        assert_eq!(cache.store().len(), 1);
        assert!(scrape(&registry).contains("widgets_malformed_objects{kind=\"Widget\"} 0"));
    }

    #[tokio::test]
    async fn a_malformed_object_does_not_stop_the_watch() {
        let server = FakeServer::default();
        server.put_widget(&widget("good"));
        server.put_widget(&widget("bad"));
        server.edit(&format!("{WIDGETS}/bad"), |object| {
            object["spec"]["size"] = "huge".into();
        });
        let (runtime, _) = runtime(&server);
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone(), std::time::Duration::from_secs(5));
        let api = Api::all(server.client());
        let cache = ObjectCache::<Widget>::start(&runtime, &mut tasks, api, watcher::Config::default());
        let running = tokio::spawn(tasks.run());
        runtime.readiness.all_open().await;
        let names = || {
            let mut names: Vec<_> = cache.store().state().iter().map(|object| object.name_any()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), ["good"]);
        server.edit(&format!("{WIDGETS}/bad"), |object| {
            object["metadata"]["labels"] = serde_json::json!({"a": "b"});
        });
        server.put_widget(&widget("later"));
        eventually("the object after the malformed one", || names() == ["good", "later"]).await;
        server.edit(&format!("{WIDGETS}/bad"), |object| object["spec"]["size"] = 1.into());
        eventually("the mended object", || names() == ["bad", "good", "later"]).await;
        stop.cancel();
        running.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_watch_restarts_without_missing_changes() {
        let server = FakeServer::default();
        server.put_widget(&widget("stays"));
        server.put_widget(&widget("goes"));
        let (runtime, _) = runtime(&server);
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone(), std::time::Duration::from_secs(5));
        let api = Api::all(server.client());
        let cache = ObjectCache::<Widget>::start(&runtime, &mut tasks, api, watcher::Config::default());
        let running = tokio::spawn(tasks.run());
        runtime.readiness.all_open().await;
        let mut changes = Box::pin(cache.changes(spec_or_metadata::<Widget>));
        assert_eq!(told(&mut changes), ["+goes", "+stays"]);
        let listed = server.gets("/apis/test.example.org/v1/widgets");

        server.hold_watches(true);
        server.delete(&format!("{WIDGETS}/goes"));
        server.put_widget(&widget("comes"));
        server.expire_watches();
        eventually("another list", || server.gets("/apis/test.example.org/v1/widgets") > listed + 1).await;
        eventually("the object that came", || cache.store().len() == 2).await;
        assert_eq!(told(&mut changes), ["+comes", "-goes"]);
        server.put_widget(&widget("later"));
        eventually("the watch to go on", || cache.store().len() == 3).await;
        assert_eq!(told(&mut changes), ["+later"]);
        stop.cancel();
        running.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn the_gate_opens_when_the_first_list_is_complete() {
        let (runtime, _, mut filler) = cache();
        assert!(runtime.readiness.all_open().now_or_never().is_none());
        filler.apply(Event::Init);
        filler.apply(Event::InitApply(good(&widget("a"))));
        assert!(runtime.readiness.all_open().now_or_never().is_none());
        filler.apply(Event::InitDone);
        runtime.readiness.all_open().await;
    }

    #[tokio::test]
    async fn a_watch_that_ends_is_an_error_unless_it_was_stopped() {
        let (_, _, filler) = cache();
        let ended = filler.run(futures::stream::empty(), CancellationToken::new()).await;
        assert_eq!(ended.unwrap_err().to_string(), "the watch of Widget ended");
        let (_, _, filler) = cache();
        let stop = CancellationToken::new();
        stop.cancel();
        filler.run(futures::stream::pending(), stop).await.unwrap();
    }
}
