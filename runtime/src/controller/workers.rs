//! Decides which passes may start, so that no group of objects occupies all workers.
//!
//! A pass may take long, for example because its AWS account is slow, and many objects may depend on that account. So a
//! pass starts only while each group of its object has fewer running passes than there are free workers. A single group
//! uses half of the workers, and the first pass of another group finds a free worker. An object whose pass may not
//! start occupies no worker. The object is put aside, and is called when workers become free. A called object has its
//! worker: the queue may deliver others first, and an object that came too late each time would never start.
//!
//! Objects whose passes continue earlier ones, and objects that have changed, are called in turns. A continued pass may
//! have to come soon: a turn at AWS's request rate and the answer to a lookup are valid for seconds only. Behind
//! thousands of new objects it would come too late each time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::kinds::CachedKind;

/// The workers of one controller.
pub(super) struct Workers<K: CachedKind> {
    all: usize,
    state: Mutex<State<K>>,
    called: mpsc::UnboundedSender<ObjectRef<K>>,
}

struct State<K: CachedKind> {
    /// Number of running passes and called objects.
    busy: usize,
    /// Number of running passes and called objects by group.
    by_group: HashMap<String, usize>,
    /// The called objects whose passes have not started yet, with their groups.
    called: HashMap<ObjectRef<K>, Vec<String>>,
    /// Objects whose passes may not start yet, by their groups. The first element is called first.
    aside: VecDeque<Aside<K>>,
}

struct Aside<K: CachedKind> {
    groups: Vec<String>,
    /// Objects whose passes continue earlier ones.
    continued: Line<K>,
    /// Objects that have changed.
    changed: Line<K>,
    /// Whether the last called object was one that has changed.
    called_changed: bool,
}

/// Objects in the order of their arrival.
struct Line<K: CachedKind> {
    objects: HashSet<ObjectRef<K>>,
    order: VecDeque<ObjectRef<K>>,
}

/// A running pass. Dropping the value ends the pass.
pub(super) struct Busy<K: CachedKind> {
    workers: Arc<Workers<K>>,
    groups: Vec<String>,
}

impl<K: CachedKind> Workers<K> {
    /// A number of workers, and the stream of the objects that are called when workers become free.
    pub(super) fn new(all: usize) -> (Arc<Self>, mpsc::UnboundedReceiver<ObjectRef<K>>) {
        let (called, receiver) = mpsc::unbounded_channel();
        let state = State { busy: 0, by_group: HashMap::new(), called: HashMap::new(), aside: VecDeque::new() };
        let workers = Self { all, state: Mutex::new(state), called };
        (Arc::new(workers), receiver)
    }

    /// Starts a pass, which may continue an earlier one. `None` if the pass may not start yet; the object is called
    /// when it may.
    pub(super) fn begin(
        self: &Arc<Self>,
        object: &ObjectRef<K>,
        groups: Vec<String>,
        continues: bool,
    ) -> Option<Busy<K>> {
        let mut state = self.state.lock();
        if state.called.get(object) == Some(&groups) {
            state.called.remove(object);
            return Some(Busy { workers: Arc::clone(self), groups });
        }
        state.take_worker_back(object);
        if !state.has_room(self.all, &groups) {
            state.put_aside(object, groups, continues);
            // The worker that the object had under other groups is free for others.
            self.call(&mut state);
            return None;
        }
        state.take_back(object);
        state.occupy(&groups);
        self.call(&mut state);
        Some(Busy { workers: Arc::clone(self), groups })
    }

    /// Forgets an object whose pass does not start, such as a deleted one.
    pub(super) fn forget(&self, object: &ObjectRef<K>) {
        let mut state = self.state.lock();
        state.take_back(object);
        state.take_worker_back(object);
        self.call(&mut state);
    }

    /// Calls the objects whose passes may start now.
    fn call(&self, state: &mut State<K>) {
        for object in state.call(self.all) {
            // The receiver is gone after the end of the controller.
            let _ = self.called.send(object);
        }
    }
}

impl<K: CachedKind> State<K> {
    /// Whether a pass of these groups may start with this number of workers.
    fn has_room(&self, all: usize, groups: &[String]) -> bool {
        let free = all.saturating_sub(self.busy);
        let of_group = |group: &String| self.by_group.get(group).copied().unwrap_or_default();
        free > 0 && groups.iter().all(|group| of_group(group) < free)
    }

    fn occupy(&mut self, groups: &[String]) {
        self.busy += 1;
        for group in groups {
            *self.by_group.entry(group.clone()).or_default() += 1;
        }
    }

    fn release(&mut self, groups: &[String]) {
        self.busy -= 1;
        for group in groups {
            if let Some(under_way) = self.by_group.get_mut(group) {
                *under_way -= 1;
            }
        }
        self.by_group.retain(|_, under_way| *under_way > 0);
    }

    /// Releases the worker of a called object.
    fn take_worker_back(&mut self, object: &ObjectRef<K>) {
        if let Some(groups) = self.called.remove(object) {
            self.release(&groups);
        }
    }

    /// Puts an object aside under its current groups. An object that already waits keeps its place.
    fn put_aside(&mut self, object: &ObjectRef<K>, groups: Vec<String>, continues: bool) {
        self.aside.retain_mut(|aside| aside.groups == groups || aside.retains_without(object));
        let same = self.aside.iter_mut().find(|aside| aside.groups == groups);
        if let Some(aside) = same {
            aside.add(object, continues);
        } else {
            let mut aside = Aside { groups, continued: Line::new(), changed: Line::new(), called_changed: true };
            aside.add(object, continues);
            self.aside.push_back(aside);
        }
    }

    fn take_back(&mut self, object: &ObjectRef<K>) {
        self.aside.retain_mut(|aside| aside.retains_without(object));
    }

    /// The objects whose passes may start now. Each gets a worker. Groups take turns: a group whose object is called
    /// moves to the end.
    fn call(&mut self, all: usize) -> Vec<ObjectRef<K>> {
        let mut called = Vec::new();
        while let Some(first) = self.aside.iter().position(|aside| self.has_room(all, &aside.groups)) {
            let Some(mut aside) = self.aside.remove(first) else {
                break;
            };
            if let Some(object) = aside.next() {
                self.occupy(&aside.groups);
                self.called.insert(object.clone(), aside.groups.clone());
                called.push(object);
            }
            if !aside.is_empty() {
                self.aside.push_back(aside);
            }
        }
        called
    }
}

impl<K: CachedKind> Aside<K> {
    /// Adds an object, unless it waits already. A changed object whose pass now continues an earlier one moves to
    /// these.
    fn add(&mut self, object: &ObjectRef<K>, continues: bool) {
        if continues {
            self.changed.remove(object);
            self.continued.add(object);
        } else if !self.continued.objects.contains(object) {
            self.changed.add(object);
        }
    }

    fn next(&mut self) -> Option<ObjectRef<K>> {
        self.called_changed =
            self.continued.order.is_empty() || !(self.called_changed || self.changed.order.is_empty());
        let line = if self.called_changed { &mut self.changed } else { &mut self.continued };
        line.next()
    }

    fn is_empty(&self) -> bool {
        self.continued.order.is_empty() && self.changed.order.is_empty()
    }

    /// Removes an object. Returns whether another object is left.
    fn retains_without(&mut self, object: &ObjectRef<K>) -> bool {
        self.continued.remove(object);
        self.changed.remove(object);
        !self.is_empty()
    }
}

impl<K: CachedKind> Line<K> {
    fn new() -> Self {
        Self { objects: HashSet::new(), order: VecDeque::new() }
    }

    fn add(&mut self, object: &ObjectRef<K>) {
        if self.objects.insert(object.clone()) {
            self.order.push_back(object.clone());
        }
    }

    fn next(&mut self) -> Option<ObjectRef<K>> {
        let object = self.order.pop_front()?;
        self.objects.remove(&object);
        Some(object)
    }

    fn remove(&mut self, object: &ObjectRef<K>) {
        if self.objects.remove(object) {
            self.order.retain(|other| other != object);
        }
    }
}

impl<K: CachedKind> Drop for Busy<K> {
    fn drop(&mut self) {
        let mut state = self.workers.state.lock();
        state.release(&self.groups);
        self.workers.call(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Widget;

    type Called = mpsc::UnboundedReceiver<ObjectRef<Widget>>;

    fn object(name: &str) -> ObjectRef<Widget> {
        ObjectRef::new(name).within("team")
    }

    /// Starts as many passes of a group as may start. The objects are named after the group.
    fn fill(workers: &Arc<Workers<Widget>>, group: &str, objects: usize) -> Vec<Busy<Widget>> {
        let begin = |number| workers.begin(&object(&format!("{group}-{number}")), vec![group.to_owned()], false);
        (0..objects).filter_map(begin).collect()
    }

    fn names(called: &mut Called) -> Vec<String> {
        std::iter::from_fn(|| called.try_recv().ok()).map(|object| object.name).collect()
    }

    /// Makes the passes of the called objects, one after the other, until none is called. Returns the objects.
    fn run_called(workers: &Arc<Workers<Widget>>, called: &mut Called) -> Vec<String> {
        let mut order = Vec::new();
        while let Ok(next) = called.try_recv() {
            let group = next.name.split('-').next().unwrap().to_owned();
            let pass = workers.begin(&next, vec![group], false);
            drop(pass.expect("a called object has a worker"));
            order.push(next.name);
        }
        order
    }

    #[test]
    fn groups_share_the_workers_and_leave_one_free() {
        let (workers, mut called) = Workers::new(10);
        let passes = [("a", 5), ("b", 3), ("c", 1)].map(|(group, expected)| {
            let passes = fill(&workers, group, 100);
            assert_eq!(passes.len(), expected, "{group}");
            passes
        });
        drop(passes);
        assert_eq!(run_called(&workers, &mut called).len(), 300 - 9);
        let passes: Vec<_> = (0..10).map(|group| fill(&workers, &group.to_string(), 1)).collect();
        assert!(passes.iter().all(|passes| passes.len() == 1), "each of ten");
    }

    #[test]
    fn a_single_worker_serves_all_groups() {
        let (workers, mut called) = Workers::new(1);
        for group in ["a", "a", "b"] {
            assert_eq!(fill(&workers, group, 2).len(), 1, "{group}");
            assert_eq!(run_called(&workers, &mut called), [format!("{group}-1")]);
        }
    }

    #[test]
    fn an_object_of_two_groups_counts_for_both() {
        let (workers, _called) = Workers::new(10);
        let begin = |number: usize, cluster: &str| {
            let groups = vec![cluster.to_owned(), "account".to_owned()];
            workers.begin(&object(&number.to_string()), groups, false)
        };
        let passes: Vec<_> = (0..8).map(|number| begin(number, &number.to_string())).collect();
        assert_eq!(passes.iter().flatten().count(), 5, "of one account");
        assert_eq!(fill(&workers, "elsewhere", 1).len(), 1);
    }

    #[test]
    fn objects_are_called_in_turns_when_workers_become_free() {
        let (workers, mut called) = Workers::new(4);
        let mut passes = fill(&workers, "a", 5);
        passes.extend(fill(&workers, "b", 3));
        assert_eq!(passes.len(), 3);
        assert!(names(&mut called).is_empty());
        passes.pop();
        passes.clear();
        // `b-1` was called first, because two of `a` were under way.
        assert_eq!(run_called(&workers, &mut called), ["b-1", "a-2", "b-2", "a-3", "a-4"]);
    }

    #[test]
    fn a_called_object_keeps_its_worker_although_other_groups_begin() {
        let (workers, mut called) = Workers::new(4);
        let mut passes = fill(&workers, "a", 3);
        assert_eq!(passes.len(), 2);
        passes.pop();
        assert_eq!(names(&mut called), ["a-2"]);
        let others = [fill(&workers, "b", 1), fill(&workers, "c", 1)];
        assert!(others.iter().all(|passes| passes.len() == 1));
        assert!(workers.begin(&object("a-2"), vec!["a".to_owned()], false).is_some());
    }

    #[test]
    fn a_called_object_of_other_groups_leaves_its_worker_to_others() {
        let (workers, mut called) = Workers::new(2);
        let mut passes = fill(&workers, "a", 2);
        let waiting = fill(&workers, "b", 1);
        assert_eq!((passes.len(), waiting.len()), (1, 1));
        assert!(fill(&workers, "c", 1).is_empty());
        passes.clear();
        assert_eq!(names(&mut called), ["a-1"]);
        assert!(workers.begin(&object("a-1"), vec!["b".to_owned()], false).is_none());
        assert_eq!(names(&mut called), ["c-0"]);
    }

    #[test]
    fn a_called_object_has_its_worker_however_late_it_comes() {
        let (workers, mut called) = Workers::new(1);
        let mut passes = fill(&workers, "a", 2);
        passes.clear();
        let others = fill(&workers, "b", 3);
        assert!(others.is_empty(), "the worker belongs to the called object");
        assert_eq!(run_called(&workers, &mut called), ["a-1", "b-0", "b-1", "b-2"]);
        let state = workers.state.lock();
        assert_eq!((state.busy, state.by_group.len(), state.called.len()), (0, 0, 0));
    }

    /// The number of objects that are put aside, and the length of their queues.
    fn aside(workers: &Workers<Widget>) -> (usize, usize) {
        let state = workers.state.lock();
        let lines = state.aside.iter().flat_map(|aside| [&aside.continued, &aside.changed]);
        let sizes = lines.map(|line| (line.objects.len(), line.order.len()));
        sizes.fold((0, 0), |(objects, order), (more, longer)| (objects + more, order + longer))
    }

    #[test]
    fn continued_passes_do_not_wait_for_all_objects_that_have_changed() {
        let (workers, mut called) = Workers::new(1);
        let begin = |name: &str, continues| workers.begin(&object(name), vec!["a".to_owned()], continues);
        let mut running = begin("running", false);
        for name in ["new-1", "new-2", "new-3", "new-4", "new-5"] {
            assert!(begin(name, false).is_none());
        }
        for name in ["turn-1", "turn-2", "new-4"] {
            assert!(begin(name, true).is_none());
        }
        // Another change of an object does not take its place away.
        assert!(begin("turn-2", false).is_none());
        let mut order = Vec::new();
        while running.take().is_some() {
            order.extend(names(&mut called));
            running = order.last().and_then(|name| begin(name, false));
            if order.len() == 7 {
                break;
            }
        }
        assert_eq!(order, ["turn-1", "new-1", "turn-2", "new-2", "new-4", "new-3", "new-5"]);
    }

    #[test]
    fn an_object_put_aside_again_and_again_waits_once() {
        let (workers, mut called) = Workers::new(2);
        let group = || vec!["a".to_owned()];
        let running = workers.begin(&object("running"), group(), false);
        assert!(workers.begin(&object("other"), group(), false).is_none());
        for _ in 0..10_000 {
            assert!(workers.begin(&object("one"), group(), false).is_none());
            workers.forget(&object("one"));
            assert!(workers.begin(&object("one"), group(), false).is_none());
        }
        assert_eq!(aside(&workers), (2, 2));
        drop(running);
        assert_eq!(names(&mut called), ["other"]);
        assert_eq!(aside(&workers), (1, 1));
    }

    #[test]
    fn an_object_whose_groups_change_leaves_its_former_groups() {
        let (workers, mut called) = Workers::new(4);
        let passes: Vec<_> = ["a", "b"].iter().map(|group| fill(&workers, group, 2)).collect();
        for round in 0..10_000 {
            let groups = vec!["a".to_owned(), format!("account {round}")];
            assert!(workers.begin(&object("one"), groups, false).is_none());
        }
        assert_eq!(workers.state.lock().aside.iter().filter(|aside| aside.groups.len() > 1).count(), 1);
        drop(passes);
        let called = names(&mut called);
        assert_eq!(called.iter().filter(|name| *name == "one").count(), 1, "{called:?}");
        assert_eq!(aside(&workers), (0, 0));
    }

    #[test]
    fn forgotten_and_started_objects_are_not_called() {
        let (workers, mut called) = Workers::new(2);
        let mut passes = fill(&workers, "a", 4);
        workers.forget(&object("a-1"));
        passes.clear();
        assert_eq!(names(&mut called), ["a-2"]);
        workers.forget(&object("a-2"));
        assert_eq!(names(&mut called), ["a-3"], "the worker of a forgotten object is free");
        let _began = workers.begin(&object("a-3"), vec!["a".to_owned()], false);
        let state = workers.state.lock();
        assert!(state.aside.is_empty(), "no object is put aside");
        assert_eq!((state.by_group.len(), state.called.len()), (1, 0));
    }
}
