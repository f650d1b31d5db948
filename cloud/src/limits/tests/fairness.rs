//! Tests of the fair order of tenants.

use proptest::prelude::*;

use super::*;
use crate::ClusterKey;

fn cluster(namespace: &str, name: &str) -> Flow {
    Flow::Cluster(ClusterKey { namespace: namespace.to_owned(), name: name.to_owned() })
}

/// The call of the tenant with this number; the first two are clusters of one namespace.
pub(super) fn of_tenant(tenant: usize, turn: CallRequest) -> CallRequest {
    let flow = match tenant {
        0 | 1 => cluster("team-a", &tenant.to_string()),
        2 => cluster("team-b", "only"),
        _ => Flow::Session(tenant.to_string()),
    };
    CallRequest { flow, ..turn }
}

fn launch_in(flow: Flow, name: &str) -> CallRequest {
    CallRequest { flow, ..launch(name) }
}

/// A limiter without a token for launches.
fn drained() -> Limiter {
    let mut limiter = half();
    drain(&mut limiter, LAUNCH, Duration::ZERO);
    limiter
}

/// Requests launches for this many machines of a cluster.
fn flood(limiter: &mut Limiter, flow: &Flow, machines: usize, now: Duration) {
    for machine in 0..machines {
        let turn = launch_in(flow.clone(), &format!("flood-{machine}"));
        assert!(limiter.reserve(&turn, now).is_err());
    }
}

#[test]
fn a_new_tenant_does_not_wait_for_a_thousand_callers() {
    let mut limiter = drained();
    flood(&mut limiter, &cluster("team-a", "large"), 1_000, Duration::ZERO);
    let newcomer = launch_in(cluster("team-b", "small"), "first");
    assert_eq!(limiter.reserve(&newcomer, Duration::ZERO), Err(seconds(1.0)), "after one");
    let next = launch_in(cluster("team-b", "small"), "second");
    assert_eq!(limiter.reserve(&next, Duration::ZERO), Err(seconds(2.0)), "in turns");
    assert_eq!(limiter.acquire(&newcomer, seconds(1.0)), Ok(()));
}

#[test]
fn an_overtaken_caller_gets_its_new_turn() {
    let mut limiter = drained();
    let large = cluster("team-a", "large");
    let (first, second) = (launch_in(large.clone(), "first"), launch_in(large, "second"));
    assert_eq!(limiter.reserve(&first, Duration::ZERO), Err(seconds(0.5)));
    assert_eq!(limiter.reserve(&second, Duration::ZERO), Err(seconds(1.0)));
    let newcomer = launch_in(cluster("team-b", "small"), "first");
    assert_eq!(limiter.reserve(&newcomer, Duration::ZERO), Err(seconds(1.0)));
    assert_eq!(limiter.acquire(&first, seconds(0.5)), Ok(()));
    assert_eq!(limiter.acquire(&second, seconds(1.0)), Err(seconds(0.5)));
    assert_eq!(limiter.acquire(&newcomer, seconds(1.0)), Ok(()));
    assert_eq!(limiter.acquire(&second, seconds(1.5)), Ok(()));
}

#[test]
fn clusters_of_a_namespace_share_its_turns() {
    let mut limiter = drained();
    for index in 0..10 {
        flood(&mut limiter, &cluster("team-a", &index.to_string()), 10, Duration::ZERO);
    }
    let newcomer = launch_in(cluster("team-b", "small"), "first");
    assert_eq!(limiter.reserve(&newcomer, Duration::ZERO), Err(seconds(1.0)));
    limiter.forget(&newcomer.caller);
    let of_the_same = launch_in(cluster("team-a", "another"), "first");
    assert_eq!(limiter.reserve(&of_the_same, Duration::ZERO), Err(seconds(5.5)), "after ten");
}

#[test]
fn sessions_take_turns_with_their_listings() {
    let mut limiter = half();
    let query = Query::filter("tag-key", ["role"]);
    let page = |identity: usize| {
        CallRequest::describe(DESCRIBE, &Flow::Session(identity.to_string()), &query, Priority::Describe)
    };
    drain(&mut limiter, DESCRIBE, Duration::ZERO);
    // Each session requests one page after the other, each immediately after the last.
    let mut pages = [0_usize; 20];
    let mut due = [Duration::ZERO; 20];
    while pages.iter().sum::<usize>() < 400 {
        let (identity, now) = due.iter().copied().enumerate().min_by_key(|(_, due)| *due).unwrap();
        match limiter.acquire(&page(identity), now) {
            Ok(()) => pages[identity] += 1,
            Err(wait) => due[identity] = now + wait,
        }
    }
    assert_eq!(pages, [20; 20]);
}

#[test]
fn a_tenant_with_many_old_callers_is_not_urgent() {
    let mut limiter = half();
    drain(&mut limiter, DESCRIBE, Duration::ZERO);
    let lookup = |number: usize| {
        let query = Query::filter("tag:MachineName", [number.to_string()]);
        CallRequest::lookup(&cluster("team-a", "large"), &query)
    };
    let listing = CallRequest::describe(DESCRIBE, &Flow::Session("b".into()), &Query::default(), Priority::Describe);
    let mut calls: Vec<_> = (0..1_000).map(|number| (Duration::ZERO, lookup(number))).collect();
    calls.push((seconds(50.0), listing));
    let granted = *play(&mut limiter, &calls).last().unwrap();
    assert!(granted >= seconds(80.0), "lookups go first: {granted:?}");
    assert!(granted <= seconds(81.0), "{granted:?}");
}

/// Serves the caller that is next, and returns its name.
fn serve(queue: &mut Queue, waiting: &mut Vec<CallRequest>) -> String {
    let is_next = |request: &CallRequest| {
        let ahead = queue.ahead(request, Duration::ZERO, |_, _| Duration::ZERO);
        ahead.requests == 0
    };
    let next = waiting.iter().position(is_next).expect("a caller is next");
    let served = waiting.remove(next);
    queue.grant(&served, Duration::ZERO);
    queue.remove(&served);
    match served.caller {
        Caller::Task(name) => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_tenant_comes_before_the_next_turn_of_another() {
    let mut queue = Queue::default();
    let (a, b) = (cluster("team-a", "large"), cluster("team-b", "small"));
    let mut waiting = vec![launch_in(a.clone(), "a-1"), launch_in(a, "a-2"), launch_in(b, "b-1")];
    for request in &waiting {
        queue.join(request, Duration::ZERO);
    }
    let order: Vec<_> = (0..3).map(|_| serve(&mut queue, &mut waiting)).collect();
    assert_eq!(order, ["a-1", "b-1", "a-2"]);
}

#[test]
fn clusters_of_a_tenant_come_in_the_order_of_their_last_turns() {
    let mut queue = Queue::default();
    let [x, y, z] = ["x", "y", "z"].map(|name| cluster("team-a", name));
    let mut waiting =
        vec![launch_in(x.clone(), "x-1"), launch_in(x.clone(), "x-2"), launch_in(x, "x-3"), launch_in(y, "y-1")];
    for request in &waiting {
        queue.join(request, Duration::ZERO);
    }
    assert_eq!(serve(&mut queue, &mut waiting), "x-1");
    waiting.push(launch_in(z, "z-1"));
    queue.join(&waiting[waiting.len() - 1], Duration::ZERO);
    let order: Vec<_> = (0..4).map(|_| serve(&mut queue, &mut waiting)).collect();
    assert_eq!(order, ["y-1", "x-2", "z-1", "x-3"]);
}

#[test]
fn flows_without_waiting_callers_are_removed() {
    let mut limiter = drained();
    for tenant in 0..1_000 {
        let turn = launch_in(cluster(&tenant.to_string(), "c"), "m");
        assert!(limiter.reserve(&turn, Duration::ZERO).is_err());
    }
    assert!(!limiter.is_idle());
    // These callers never return, and another caller comes long after their turns.
    let later = seconds(2_000.0);
    assert_eq!(limiter.acquire(&launch("one"), later), Ok(()));
    assert!(limiter.is_idle());
    let turn = launch_in(cluster("team-a", "c"), "m");
    assert_eq!(limiter.reserve(&turn, later), Ok(()));
    limiter.forget(&turn.caller);
    assert!(limiter.is_idle(), "one that is forgotten");
}

proptest! {
    /// A new tenant waits for one turn of each other tenant, regardless of the number of their callers.
    #[test]
    fn a_new_tenant_waits_for_one_turn_of_each_other_tenant(
        waiting in proptest::collection::vec((0_usize..6, 0_usize..3), 0..100),
    ) {
        let mut limiter = drained();
        let mut tenants = std::collections::BTreeSet::new();
        for (caller, (tenant, part)) in waiting.into_iter().enumerate() {
            tenants.insert(tenant);
            let turn = launch_in(cluster(&tenant.to_string(), &part.to_string()), &caller.to_string());
            prop_assert!(limiter.reserve(&turn, Duration::ZERO).is_err());
        }
        let newcomer = launch_in(cluster("newcomer", "c"), "m");
        let turns = u32::try_from(tenants.len() + 1).unwrap();
        prop_assert_eq!(limiter.reserve(&newcomer, Duration::ZERO), Err(seconds(0.5) * turns));
    }

    /// While two tenants wait, their numbers of turns differ by at most one, regardless of their clusters.
    #[test]
    fn waiting_tenants_get_equally_many_turns(
        first in proptest::collection::vec(0_usize..5, 20..60),
        second in proptest::collection::vec(0_usize..5, 20..60),
    ) {
        let mut limiter = drained();
        let of = |namespace: &'static str, clusters: &[usize]| -> Vec<(Duration, CallRequest)> {
            let calls = clusters.iter().enumerate();
            calls
                .map(|(index, name)| {
                    let flow = cluster(namespace, &name.to_string());
                    (Duration::ZERO, launch_in(flow, &format!("{namespace}-{index}")))
                })
                .collect()
        };
        let (first, second) = (of("team-a", &first), of("team-b", &second));
        let shorter = first.len().min(second.len());
        let count = first.len();
        let calls: Vec<_> = first.into_iter().chain(second).collect();
        let granted = play(&mut limiter, &calls);
        let mut order: Vec<_> = granted.iter().enumerate().map(|(index, at)| (*at, index < count)).collect();
        order.sort();
        let (mut a, mut b) = (0_usize, 0_usize);
        for (_, is_first) in order.into_iter().take(2 * shorter) {
            if is_first { a += 1 } else { b += 1 }
            prop_assert!(a.abs_diff(b) <= 1, "{a} and {b}");
        }
    }
}
