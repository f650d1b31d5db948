//! The queue of the callers of one API action.
//!
//! Within a priority the queue is round robin: each tenant has one turn per round, and the clusters of a tenant share
//! its turns round robin. The order is computed at each request and not fixed when a caller joins. So a new tenant
//! waits for at most one turn of each other tenant, regardless of the number of their callers. The turns are computed
//! one after the other up to the turn of the request, because a queue may contain thousands of callers.
//!
//! A caller that does not come at its turn does not delay the others, but keeps its place: the passes of a busy manager
//! come later than the callers were told to come, and a caller that lost its place each time would never be served.

use std::collections::{BTreeMap, VecDeque};
use std::iter::Peekable;
use std::time::Duration;

use super::{CallRequest, Caller, Flow, Priority};

/// The additional waiting time after which a tenant's caller precedes another tenant's caller of the next higher
/// priority.
const AGING: Duration = Duration::from_secs(30);

/// The time after its turn for which a caller is expected. The turns of the callers behind it allow for its call.
const TURN_GRACE: Duration = Duration::from_secs(10);

/// The time after its turn for which an absent caller keeps its place.
const PLACE_RETENTION: Duration = Duration::from_mins(10);

/// The unit of the outer round robin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tenant {
    Namespace(String),
    Session(String),
}

impl Tenant {
    fn of(flow: &Flow) -> Self {
        match flow {
            Flow::Cluster(cluster) => Self::Namespace(cluster.namespace.clone()),
            Flow::Session(identity) => Self::Session(identity.clone()),
        }
    }
}

/// The tokens that calls need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Number of calls.
    pub(super) requests: u64,
    /// Number of instances that the calls name or request.
    pub(super) instances: u64,
}

impl Cost {
    /// Adds the call of a caller.
    fn add(&mut self, waiting: &Waiting) {
        self.requests += 1;
        self.instances += waiting.instances;
    }
}

struct Waiting {
    caller: Caller,
    instances: u64,
    /// The time of the caller's first request.
    asked: Duration,
    /// The time of the turn that the caller was promised, or at which its turn came.
    turn: Duration,
    /// Whether the caller's turn has come. Its tokens are taken, and it keeps its place until the call is made.
    is_granted: bool,
}

impl Waiting {
    fn is_expected(&self, now: Duration) -> bool {
        !self.is_granted && now <= self.turn + TURN_GRACE
    }

    /// Whether this is not the entry of a caller that is removed. If it is, adds the tokens of its turn to `taken`.
    fn stays_without(&self, caller: &Caller, taken: &mut Cost) -> bool {
        let stays = self.caller != *caller;
        if !stays && self.is_granted {
            taken.add(self);
        }
        stays
    }
}

/// The callers of one flow, in the order of their first requests.
struct Line {
    /// The line with the lowest place has the next turn of its tenant.
    place: u64,
    callers: VecDeque<Waiting>,
}

impl Line {
    fn waiting_mut(&mut self, caller: &Caller) -> Option<&mut Waiting> {
        self.callers.iter_mut().find(|waiting| waiting.caller == *caller)
    }
}

/// The callers of one tenant.
struct Lines {
    /// The tenant with the lowest place has the next turn.
    place: u64,
    /// The time of the tenant's last turn, or of its first request.
    since: Duration,
    by_flow: BTreeMap<Flow, Line>,
}

/// The callers of one priority.
type Class = BTreeMap<Tenant, Lines>;

/// All waiting callers of one action. Tenants and flows without a waiting caller are removed.
#[derive(Default)]
pub(super) struct Queue {
    classes: BTreeMap<Priority, Class>,
    /// The last place that was assigned.
    places: u64,
}

impl Queue {
    /// Adds a caller, unless it waits already.
    pub(super) fn join(&mut self, request: &CallRequest, now: Duration) {
        let (for_tenant, for_line) = (self.places + 1, self.places + 2);
        self.places += 2;
        let class = self.classes.entry(request.priority).or_default();
        let lines = class.entry(Tenant::of(&request.flow)).or_insert_with(|| Lines {
            place: for_tenant,
            since: now,
            by_flow: BTreeMap::new(),
        });
        let line = lines
            .by_flow
            .entry(request.flow.clone())
            .or_insert_with(|| Line { place: for_line, callers: VecDeque::new() });
        if !line.callers.iter().any(|waiting| waiting.caller == request.caller) {
            line.callers.push_back(Waiting {
                caller: request.caller.clone(),
                instances: request.instances,
                asked: now,
                turn: now,
                is_granted: false,
            });
        }
    }

    /// Records the time of the turn that a caller is promised.
    pub(super) fn promise(&mut self, request: &CallRequest, turn: Duration) {
        let lines = self.lines_mut(request);
        let line = lines.and_then(|lines| lines.by_flow.get_mut(&request.flow));
        if let Some(waiting) = line.and_then(|line| line.waiting_mut(&request.caller)) {
            waiting.turn = turn;
        }
    }

    /// Records that a caller's turn has come. Its tenant and its flow move to the end of the round.
    pub(super) fn grant(&mut self, request: &CallRequest, now: Duration) {
        let (for_tenant, for_line) = (self.places + 1, self.places + 2);
        self.places += 2;
        let Some(lines) = self.lines_mut(request) else {
            return;
        };
        (lines.place, lines.since) = (for_tenant, now);
        let Some(line) = lines.by_flow.get_mut(&request.flow) else {
            return;
        };
        line.place = for_line;
        if let Some(waiting) = line.waiting_mut(&request.caller) {
            (waiting.turn, waiting.is_granted) = (now, true);
        }
    }

    /// Whether a caller's turn has come, at any priority, and no call has used it yet.
    pub(super) fn is_granted(&self, request: &CallRequest) -> bool {
        let tenant = Tenant::of(&request.flow);
        let lines = self.classes.values().filter_map(|class| class.get(&tenant));
        let mut callers = lines.filter_map(|lines| lines.by_flow.get(&request.flow)).flat_map(|line| &line.callers);
        callers.any(|waiting| waiting.is_granted && waiting.caller == request.caller)
    }

    /// Removes the caller of a request. Returns the tokens of its turn, which are unused if the call is not made.
    pub(super) fn remove(&mut self, request: &CallRequest) -> Cost {
        let mut taken = Cost::default();
        let tenant = Tenant::of(&request.flow);
        let lines = self.classes.values_mut().filter_map(|class| class.get_mut(&tenant));
        for line in lines.filter_map(|lines| lines.by_flow.get_mut(&request.flow)) {
            line.callers.retain(|waiting| waiting.stays_without(&request.caller, &mut taken));
        }
        self.drop_empty();
        taken
    }

    /// Removes a caller that will not come from all flows. Returns the tokens of its unused turns.
    pub(super) fn forget(&mut self, caller: &Caller) -> Cost {
        let mut unused = Cost::default();
        self.retain(|waiting| waiting.stays_without(caller, &mut unused));
        unused
    }

    /// Takes back the turns that no call has used in time, and removes the callers that have been absent for so long
    /// that they will hardly come. Returns the tokens of the unused turns.
    pub(super) fn expire(&mut self, now: Duration) -> Cost {
        let mut unused = Cost::default();
        self.retain(|waiting| {
            if waiting.is_granted && now > waiting.turn + TURN_GRACE {
                waiting.is_granted = false;
                unused.add(waiting);
            }
            now <= waiting.turn + PLACE_RETENTION
        });
        unused
    }

    /// The tokens that the expected callers ahead of a waiting caller need. `wait` gives the time until the tokens
    /// suffice for a cost, and after it for a call with this number of instances.
    ///
    /// The first callers of all priorities compete by the time since the last turn of their tenants, and a priority has
    /// a handicap of [`AGING`] for each rank. Only the first caller of a tenant ages. So a tenant with many callers is
    /// not more urgent than a tenant with one caller.
    pub(super) fn ahead(
        &self,
        request: &CallRequest,
        now: Duration,
        mut wait: impl FnMut(Cost, u64) -> Duration,
    ) -> Cost {
        let is_in_line = |waiting: &Waiting| waiting.is_expected(now) || waiting.caller == request.caller;
        let mut classes: Vec<Turns<'_>> = self.classes.iter().map(|class| Turns::new(class, &is_in_line)).collect();
        let is_merged = classes.len() > 1;
        let mut ahead = Cost::default();
        loop {
            let next = classes.iter_mut().filter_map(|class| Some((class.due()?, class)));
            let Some((_, class)) = next.min_by_key(|(due, _)| *due) else {
                return ahead;
            };
            let Some(turn) = class.coming.next() else {
                return ahead;
            };
            let is_own = class.priority == request.priority && *turn.flow == request.flow;
            if is_own && turn.waiting.caller == request.caller {
                return ahead;
            }
            if is_merged {
                let at = now + wait(ahead, turn.waiting.instances);
                class.future.insert(turn.tenant, at);
            }
            ahead.add(turn.waiting);
        }
    }

    /// Whether no caller waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The callers of a request's priority and tenant.
    fn lines_mut(&mut self, request: &CallRequest) -> Option<&mut Lines> {
        self.classes.get_mut(&request.priority)?.get_mut(&Tenant::of(&request.flow))
    }

    fn retain(&mut self, mut keep: impl FnMut(&mut Waiting) -> bool) {
        let lines = self.classes.values_mut().flat_map(BTreeMap::values_mut);
        for line in lines.flat_map(|lines| lines.by_flow.values_mut()) {
            line.callers.retain_mut(&mut keep);
        }
        self.drop_empty();
    }

    fn drop_empty(&mut self) {
        self.classes.retain(|_, class| {
            class.retain(|_, lines| {
                lines.by_flow.retain(|_, line| !line.callers.is_empty());
                !lines.by_flow.is_empty()
            });
            !class.is_empty()
        });
    }
}

/// A future turn.
struct Turn<'a> {
    tenant: &'a Tenant,
    /// The time of the tenant's last turn, or of its first request.
    since: Duration,
    flow: &'a Flow,
    waiting: &'a Waiting,
}

/// The future turns of one priority.
struct Turns<'a> {
    priority: Priority,
    /// The turns in their order.
    coming: Peekable<Box<dyn Iterator<Item = Turn<'a>> + 'a>>,
    /// The time of the last future turn of each tenant that has been taken from `coming`.
    future: BTreeMap<&'a Tenant, Duration>,
}

impl<'a> Turns<'a> {
    fn new((priority, class): (&Priority, &'a Class), is_in_line: &'a impl Fn(&Waiting) -> bool) -> Self {
        let mut tenants: Vec<_> = class.iter().collect();
        tenants.sort_unstable_by_key(|(_, lines)| lines.place);
        let of_tenants = tenants.into_iter().map(|(tenant, lines)| of_tenant(tenant, lines, is_in_line));
        let coming: Box<dyn Iterator<Item = Turn<'a>> + 'a> = Box::new(round_robin(of_tenants.collect()));
        Self { priority: *priority, coming: coming.peekable(), future: BTreeMap::new() }
    }

    /// The rank of the next turn of this priority among the next turns of all priorities.
    fn due(&mut self) -> Option<(Duration, u32)> {
        let next = self.coming.peek()?;
        let since = self.future.get(next.tenant).copied().unwrap_or(next.since);
        let rank = self.priority.rank();
        Some((since.max(next.waiting.asked) + AGING * rank, rank))
    }
}

/// The future turns of a tenant: the turns of its flows, round robin.
fn of_tenant<'a>(
    tenant: &'a Tenant,
    lines: &'a Lines,
    is_in_line: &'a impl Fn(&Waiting) -> bool,
) -> impl Iterator<Item = Turn<'a>> {
    let mut flows: Vec<_> = lines.by_flow.iter().collect();
    flows.sort_unstable_by_key(|(_, line)| line.place);
    let since = lines.since;
    let of_flow = |(flow, line): (&'a Flow, &'a Line)| {
        let turn = move |waiting| Turn { tenant, since, flow, waiting };
        line.callers.iter().filter(|waiting| is_in_line(waiting)).map(turn)
    };
    round_robin(flows.into_iter().map(of_flow).collect())
}

/// The elements of all iterators: the first of each, then the second of each, and so on.
fn round_robin<I: Iterator>(mut iterators: VecDeque<I>) -> impl Iterator<Item = I::Item> {
    std::iter::from_fn(move || {
        while let Some(mut iterator) = iterators.pop_front() {
            if let Some(element) = iterator.next() {
                iterators.push_back(iterator);
                return Some(element);
            }
        }
        None
    })
}
