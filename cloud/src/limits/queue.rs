//! Who waits for an action, and in which order their turns come. Pure.
//!
//! Turns go round: within a priority one caller of each tenant has its turn after the other, and among the callers of a
//! tenant one of each of its clusters. Nothing of the order is fixed when a caller asks, so a tenant that comes waits
//! for one turn of each of the others, however many callers these have waiting.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{CallRequest, Caller, Flow, Priority};

/// How much longer a tenant must have waited for a turn of its own to go before one with a call of the next higher
/// priority.
const AGING: Duration = Duration::from_secs(30);

/// Whom turns go round between.
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

/// What calls cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// How many calls there are.
    pub(super) requests: u64,
    /// How many instances they name or ask for.
    pub(super) instances: u64,
}

struct Waiting {
    caller: Caller,
    instances: u64,
    /// When the caller asked first.
    asked: Duration,
    /// When the caller was told to come.
    turn: Duration,
}

/// The callers of one flow. The one that asked first is the first.
struct Line {
    /// The least among the lines of a tenant has the tenant's next turn.
    place: u64,
    callers: VecDeque<Waiting>,
}

/// The callers of one tenant.
struct Lines {
    /// The least among the tenants has the next turn.
    place: u64,
    /// When the tenant had its last turn, or began to wait.
    since: Duration,
    by_flow: BTreeMap<Flow, Line>,
}

/// The callers of one priority.
type Class = BTreeMap<Tenant, Lines>;

/// Everybody who waits for one action. What nobody waits for any more is not kept.
#[derive(Default)]
pub(super) struct Queue {
    classes: BTreeMap<Priority, Class>,
    /// The last place that was given.
    places: u64,
}

impl Queue {
    /// Takes a caller in, if it does not wait already.
    pub(super) fn join(&mut self, request: &CallRequest, now: Duration) {
        let (for_tenant, for_line) = (self.places + 1, self.places + 2);
        self.places += 2;
        let class = self.classes.entry(request.priority).or_default();
        let lines = class.entry(Tenant::of(&request.flow)).or_insert_with(|| Lines {
            place: for_tenant,
            since: now,
            by_flow: BTreeMap::new(),
        });
        let line = lines.by_flow.entry(request.flow.clone()).or_insert_with(|| Line {
            place: for_line,
            callers: VecDeque::new(),
        });
        if !line.callers.iter().any(|waiting| waiting.caller == request.caller) {
            line.callers.push_back(Waiting {
                caller: request.caller.clone(),
                instances: request.instances,
                asked: now,
                turn: now,
            });
        }
    }

    /// Notes when a caller was told to come.
    pub(super) fn told(&mut self, request: &CallRequest, turn: Duration) {
        let class = self.classes.get_mut(&request.priority);
        let lines = class.and_then(|class| class.get_mut(&Tenant::of(&request.flow)));
        let line = lines.and_then(|lines| lines.by_flow.get_mut(&request.flow));
        let mut callers = line.into_iter().flat_map(|line| &mut line.callers);
        if let Some(waiting) = callers.find(|waiting| waiting.caller == request.caller) {
            waiting.turn = turn;
        }
    }

    /// A caller has its turn: the next ones of its tenant and of its flow come after everybody else's next.
    pub(super) fn served(&mut self, request: &CallRequest, now: Duration) {
        let (for_tenant, for_line) = (self.places + 1, self.places + 2);
        self.places += 2;
        let class = self.classes.get_mut(&request.priority);
        if let Some(lines) = class.and_then(|class| class.get_mut(&Tenant::of(&request.flow))) {
            (lines.place, lines.since) = (for_tenant, now);
            if let Some(line) = lines.by_flow.get_mut(&request.flow) {
                line.place = for_line;
                line.callers.retain(|waiting| waiting.caller != request.caller);
            }
        }
        self.drop_empty();
    }

    /// Takes a caller out that will not come.
    pub(super) fn forget(&mut self, caller: &Caller) {
        self.retain(|waiting| waiting.caller != *caller);
    }

    /// Takes everybody out who did not come until `kept` after the turn that it was told.
    pub(super) fn expire(&mut self, now: Duration, kept: Duration) {
        self.retain(|waiting| now <= waiting.turn + kept);
    }

    /// What is to be paid for before the turn of a caller that waits. `wait` is how long it takes until there is enough
    /// for so much, and for a call with so many instances after that.
    ///
    /// Of the next callers of each priority the one goes first whose tenant has waited the longest for a turn, where
    /// each step down in priority counts as [`AGING`] less. Only a tenant's next caller ages: a tenant with many callers
    /// is not more urgent than one with a single caller.
    pub(super) fn ahead(
        &self,
        request: &CallRequest,
        now: Duration,
        mut wait: impl FnMut(Cost, u64) -> Duration,
    ) -> Cost {
        let mut classes: Vec<Turns<'_>> = self.classes.iter().map(Turns::new).collect();
        let is_merged = classes.len() > 1;
        let mut ahead = Cost::default();
        loop {
            let next = classes.iter_mut().filter_map(|class| Some((class.due()?, class)));
            let Some((_, class)) = next.min_by_key(|(due, _)| *due) else {
                return ahead;
            };
            let Some(turn) = class.coming.pop() else {
                return ahead;
            };
            let is_own = class.priority == request.priority && *turn.flow == request.flow;
            if is_own && turn.waiting.caller == request.caller {
                return ahead;
            }
            if is_merged {
                class
                    .since
                    .insert(turn.tenant, now + wait(ahead, turn.waiting.instances));
            }
            ahead.requests += 1;
            ahead.instances += turn.waiting.instances;
        }
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        let lines = self.classes.values_mut().flat_map(BTreeMap::values_mut);
        for line in lines.flat_map(|lines| lines.by_flow.values_mut()) {
            line.callers.retain(&keep);
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

/// A turn that is to come.
struct Turn<'a> {
    tenant: &'a Tenant,
    flow: &'a Flow,
    waiting: &'a Waiting,
}

/// The turns of one priority that are to come.
struct Turns<'a> {
    priority: Priority,
    /// The next one is the last.
    coming: Vec<Turn<'a>>,
    /// When tenants had their last turn, or will have had it by then.
    since: BTreeMap<&'a Tenant, Duration>,
}

impl<'a> Turns<'a> {
    fn new((priority, class): (&Priority, &'a Class)) -> Self {
        let mut placed = Vec::new();
        for (tenant, lines) in class {
            let mut own: Vec<_> = lines.by_flow.iter().flat_map(by_rounds).collect();
            own.sort_by_key(|(place, ..)| *place);
            let turns = own.into_iter().enumerate().map(|(round, (_, flow, waiting))| {
                let turn = Turn { tenant, flow, waiting };
                ((round, lines.place), turn)
            });
            placed.extend(turns);
        }
        placed.sort_by_key(|(place, _)| Reverse(*place));
        Self {
            priority: *priority,
            coming: placed.into_iter().map(|(_, turn)| turn).collect(),
            since: class.iter().map(|(tenant, lines)| (tenant, lines.since)).collect(),
        }
    }

    /// When the next turn of this priority is due in relation to those of others.
    fn due(&self) -> Option<(Duration, u32)> {
        let next = self.coming.last()?;
        let since = self.since.get(next.tenant).copied().unwrap_or_default();
        let rank = self.priority.rank();
        Some((since.max(next.waiting.asked) + AGING * rank, rank))
    }
}

/// The callers of a flow, each with the round that is its turn and the place of the flow in every round.
fn by_rounds<'a>((flow, line): (&'a Flow, &'a Line)) -> impl Iterator<Item = ((usize, u64), &'a Flow, &'a Waiting)> {
    let callers = line.callers.iter().enumerate();
    callers.map(move |(round, waiting)| ((round, line.place), flow, waiting))
}
