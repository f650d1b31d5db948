//! Shares the reads of network sources between the objects that wait for them. No pass waits for a slow read:
//! the read continues as a task of its own, and wakes the waiting objects when it has ended.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use capa_cloud::Timing;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::mappings::MappingVersion;
use crate::kubernetes_api::{NetworkReader, ReadPending, SourceOutcome, SourceRead, SourceRequest};

/// The longest time from the beginning of a read that a pass waits for its end. Nearly all reads end within this time.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// The longest duration of a read. The API server itself ends a call of a conversion webhook after 30 s.
const TIMEOUT: Duration = Duration::from_secs(45);

/// What a read depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) request: SourceRequest,
    /// The version of the AWSNetworkMapping that reads the objects.
    pub(super) mapping: Option<MappingVersion>,
}

/// The last reads of network sources, and the running reads. While many objects wait for one source, the source is read
/// once per period. The period is 5 s at first and doubles up to 60 s while the source is unusable
/// ([`Timing::source_retry`]).
pub(super) struct SharedReads {
    timing: Timing,
    objects: Mutex<Objects>,
    listeners: Mutex<Vec<mpsc::UnboundedSender<NetworkReader>>>,
}

#[derive(Default)]
struct Objects {
    by_key: HashMap<Key, Object>,
    /// The time of the last removal of unused objects.
    swept: Option<Instant>,
}

#[derive(Default)]
struct Object {
    last: Option<Reading>,
    under_way: Option<Arc<UnderWay>>,
}

/// A completed read.
struct Reading {
    read: SourceRead,
    at: Instant,
    good_for: Duration,
}

/// A running read.
struct UnderWay {
    began: Instant,
    answer: watch::Receiver<Option<SourceRead>>,
    /// The objects to wake. `None` after the end of the read.
    waiting: Mutex<Option<BTreeSet<NetworkReader>>>,
}

impl SharedReads {
    pub(super) fn new(timing: Timing) -> Self {
        Self { timing, objects: Mutex::default(), listeners: Mutex::default() }
    }

    /// The objects that waited for a slow read, when the read has ended.
    pub(super) fn ended(&self) -> mpsc::UnboundedReceiver<NetworkReader> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.listeners.lock().push(sender);
        receiver
    }

    /// Drops a read after a watch event about its object. The answer of a running read may be older than the event.
    pub(super) fn changed(&self, key: &Key) {
        self.objects.lock().by_key.remove(key);
    }

    /// The source from the last read, or from a new read by `fetch`.
    ///
    /// # Errors
    /// The read takes long. `reader` is woken when the read has ended.
    pub(super) async fn read<F>(
        self: &Arc<Self>,
        reader: &NetworkReader,
        key: Key,
        fetch: impl FnOnce() -> F,
    ) -> Result<SourceRead, ReadPending>
    where
        F: Future<Output = SourceRead> + Send + 'static,
    {
        let under_way = {
            let mut objects = self.objects.lock();
            objects.sweep(&self.timing);
            let object = objects.by_key.entry(key.clone()).or_default();
            if let Some(reading) = object.last.as_ref().filter(|reading| reading.is_fresh()) {
                return Ok(reading.read.clone());
            }
            let begin = || self.begin(key, fetch());
            Arc::clone(object.under_way.get_or_insert_with(begin))
        };
        let mut answer = under_way.answer.clone();
        let ended = timeout_at(under_way.began + MAX_WAIT, answer.wait_for(Option::is_some)).await;
        if let Ok(Ok(answer)) = ended
            && let Some(read) = answer.clone()
        {
            return Ok(read);
        }
        match under_way.waiting.lock().as_mut() {
            Some(waiting) => {
                waiting.insert(reader.clone());
                Err(ReadPending)
            }
            // The read ended meanwhile.
            None => under_way.answer.borrow().clone().ok_or(ReadPending),
        }
    }

    /// Number of stored objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.objects.lock().by_key.len()
    }

    /// Starts a read as a task.
    fn begin<F>(self: &Arc<Self>, key: Key, fetch: F) -> Arc<UnderWay>
    where
        F: Future<Output = SourceRead> + Send + 'static,
    {
        let (sender, answer) = watch::channel(None);
        let under_way =
            Arc::new(UnderWay { began: Instant::now(), answer, waiting: Mutex::new(Some(BTreeSet::new())) });
        let (reads, read) = (Arc::clone(self), Arc::clone(&under_way));
        tokio::spawn(async move {
            // The fetch is a task of its own, so that a panic is the failure of this read and its readers are woken.
            let mut fetching = tokio::spawn(fetch);
            let fetched = timeout(TIMEOUT, &mut fetching).await;
            fetching.abort();
            let answer = match fetched {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => failed(&key, "the read panicked"),
                Err(_) => failed(&key, &format!("no answer within {TIMEOUT:?}")),
            };
            let answer = reads.keep(&key, &read, answer);
            sender.send_replace(Some(answer));
            let waiting = read.waiting.lock().take();
            reads.wake(waiting.unwrap_or_default());
        });
        under_way
    }

    /// Stores the answer of a read, unless the object changed meanwhile. Returns the answer for the waiting objects: a
    /// failure keeps the text of the first failure of its kind.
    fn keep(&self, key: &Key, read: &Arc<UnderWay>, shown: SourceRead) -> SourceRead {
        let mut objects = self.objects.lock();
        let object = objects.by_key.get_mut(key);
        let is_this = |object: &&mut Object| object.under_way.as_ref().is_some_and(|other| Arc::ptr_eq(other, read));
        let Some(object) = object.filter(is_this) else {
            return shown;
        };
        object.under_way = None;
        let before = object.last.take();
        let good_for = match &before {
            Some(before) if !is_usable(&shown.outcome) => (before.good_for * 2).min(self.timing.source_retry_cap),
            Some(_) | None => self.timing.source_retry,
        };
        // An object may wait for several slow reads. The slowest answer stays valid until expired answers of the others
        // have been fetched again.
        let good_for = good_for.max(read.began.elapsed() * 2);
        let before = before.map(|before| before.read);
        let is_same = |before: &SourceRead| is_same_failure(&before.outcome, &shown.outcome);
        let read = match before {
            Some(before) if is_same(&before) => before,
            _ => shown,
        };
        object.last = Some(Reading { read: read.clone(), at: Instant::now(), good_for });
        read
    }

    fn wake(&self, waiting: BTreeSet<NetworkReader>) {
        let mut listeners = self.listeners.lock();
        for reader in waiting {
            listeners.retain(|listener| listener.send(reader.clone()).is_ok());
        }
    }
}

impl Objects {
    /// Removes objects without a recent read. Users choose the names of the objects, so their number has no limit.
    fn sweep(&mut self, timing: &Timing) {
        let now = Instant::now();
        if self.swept.is_some_and(|swept| now < swept + timing.source_retry_cap) {
            return;
        }
        self.swept = Some(now);
        // A waiting object reads again within the longest wait between two reads.
        let kept = timing.source_retry_cap * 3;
        self.by_key.retain(|_, object| {
            let is_recent = |reading: &Reading| now < reading.at + kept;
            object.under_way.is_some() || object.last.as_ref().is_some_and(is_recent)
        });
    }
}

impl Reading {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < self.good_for
    }
}

fn failed(key: &Key, why: &str) -> SourceRead {
    let Key { namespace, request, mapping } = key;
    let outcome = SourceOutcome::Unreadable {
        code: None,
        text: format!("failed to read {request} in namespace {namespace}: {why}"),
    };
    match mapping {
        Some(_) => SourceRead::of_unknown_mapping(outcome),
        None => SourceRead::of_unknown_shape(request, outcome),
    }
}

/// Whether no machine waits for a change of the source.
fn is_usable(outcome: &SourceOutcome) -> bool {
    match outcome {
        SourceOutcome::Described { network, .. } => matches!(network, Ok(Some(_))),
        SourceOutcome::Undescribed => true,
        _ => false,
    }
}

/// Whether two errors have the same status code. Ports and addresses in the texts may change with every call, and each
/// new text would cause a status write of every waiting machine. So the reader keeps the first text while the code is
/// the same.
fn is_same_failure(before: &SourceOutcome, now: &SourceOutcome) -> bool {
    match (before, now) {
        (SourceOutcome::Unreadable { code: before, .. }, SourceOutcome::Unreadable { code: now, .. }) => before == now,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use capa_api::contract::ContractReference;
    use capa_network::Trust;

    use super::*;
    use crate::kubernetes_api::NetworkReaderKind;

    fn key(name: &str) -> Key {
        let reference =
            ContractReference { api_group: "example.org".into(), kind: "Landscape".into(), name: name.into() };
        Key { namespace: "team-a".into(), request: SourceRequest::infrastructure(&reference), mapping: None }
    }

    fn answer(outcome: SourceOutcome) -> SourceRead {
        SourceRead { trust: Trust::Placement, fields: vec![], outcome }
    }

    fn machine(number: usize) -> NetworkReader {
        NetworkReader { kind: NetworkReaderKind::Machine, namespace: "team-a".into(), name: format!("m{number}") }
    }

    /// The objects that were woken until now.
    fn woken(listener: &mut mpsc::UnboundedReceiver<NetworkReader>) -> Vec<NetworkReader> {
        std::iter::from_fn(|| listener.try_recv().ok()).collect()
    }

    async fn read_within(
        reads: &Arc<SharedReads>,
        name: &str,
        reader: usize,
        takes: Duration,
    ) -> Option<SourceOutcome> {
        let fetch = || async move {
            tokio::time::sleep(takes).await;
            answer(SourceOutcome::Undescribed)
        };
        let read = reads.read(&machine(reader), key(name), fetch).await;
        read.ok().map(|read| read.outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_read_delays_no_pass_and_wakes_the_waiting() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        let mut listener = reads.ended();
        let began = Instant::now();
        for number in 0..100 {
            let takes = Duration::from_secs(10);
            assert!(read_within(&reads, "slow", number, takes).await.is_none());
        }
        assert!(began.elapsed() <= 2 * MAX_WAIT, "all reads together");
        assert!(read_within(&reads, "fast", 0, Duration::ZERO).await.is_some());
        assert!(woken(&mut listener).is_empty());
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(woken(&mut listener).len(), 100);
        assert!(read_within(&reads, "slow", 0, Duration::ZERO).await.is_some());
        assert!(woken(&mut listener).is_empty(), "each is woken once");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reads_are_known_together_in_the_end() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        let takes = [("one", 6), ("two", 8), ("three", 40)].map(|(name, takes)| (name, Duration::from_secs(takes)));
        let known = async || {
            let read = takes.map(|(name, takes)| read_within(&reads, name, 0, takes));
            let read = futures::future::join_all(read).await;
            read.into_iter().flatten().count()
        };
        assert_eq!(known().await, 0);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert_eq!(known().await, 1, "the answers of the others are too old");
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(known().await, takes.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_an_answer_ends_as_a_failure() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        let mut listener = reads.ended();
        let fetches = Arc::new(AtomicUsize::new(0));
        let read = async |number| {
            let fetch = || {
                fetches.fetch_add(1, Ordering::SeqCst);
                std::future::pending()
            };
            reads.read(&machine(number), key("l"), fetch).await
        };
        let began = Instant::now();
        assert!(read(0).await.is_err());
        assert_eq!(listener.recv().await, Some(machine(0)));
        assert_eq!(began.elapsed().as_secs(), TIMEOUT.as_secs());
        let Ok(SourceOutcome::Unreadable { code, text }) = read(0).await.map(|read| read.outcome) else {
            panic!("the read has ended");
        };
        assert_eq!(
            (code, text.as_str()),
            (None, "failed to read Landscape/l in namespace team-a: no answer within 45s")
        );
        assert_eq!(fetches.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_panics_ends_as_a_failure_and_is_repeated() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        let mut listener = reads.ended();
        let fetch = || async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            panic!("a bug in the read")
        };
        assert!(reads.read(&machine(0), key("l"), fetch).await.is_err());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(woken(&mut listener), [machine(0)]);
        let Some(SourceOutcome::Unreadable { text, .. }) = read_within(&reads, "l", 0, Duration::ZERO).await else {
            panic!("the read has ended");
        };
        assert_eq!(text, "failed to read Landscape/l in namespace team-a: the read panicked");
        tokio::time::advance(Timing::default().source_retry).await;
        let anew = read_within(&reads, "l", 0, Duration::ZERO).await;
        assert!(matches!(anew, Some(SourceOutcome::Undescribed)), "another read has begun");
    }

    #[tokio::test(start_paused = true)]
    async fn the_answer_about_a_changed_object_is_not_stored() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        let slow = read_within(&reads, "l", 0, Duration::from_millis(400));
        let changed = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            reads.changed(&key("l"));
        };
        let (shown, ()) = tokio::join!(slow, changed);
        assert!(shown.is_some(), "the waiting object gets the answer");
        let fetch = || async { answer(SourceOutcome::NotFound) };
        let anew = reads.read(&machine(0), key("l"), fetch).await;
        assert!(matches!(anew.unwrap().outcome, SourceOutcome::NotFound));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_objects_are_removed() {
        let reads = Arc::new(SharedReads::new(Timing::default()));
        for number in 0..10_000 {
            read_within(&reads, &number.to_string(), 0, Duration::ZERO).await;
        }
        assert_eq!(reads.len(), 10_000);
        tokio::time::advance(Timing::default().source_retry_cap * 3).await;
        read_within(&reads, "one more", 0, Duration::ZERO).await;
        assert_eq!(reads.len(), 1);
    }
}
