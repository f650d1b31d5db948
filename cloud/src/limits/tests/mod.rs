mod fairness;
mod fleets;
mod rates;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::queue::{Cost, Queue};
use super::*;

const LAUNCH: &str = "RunInstances";
const DESCRIBE: &str = "DescribeInstances";

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn caller(name: &str) -> Caller {
    Caller::Task(name.to_owned())
}

fn call(action: &'static str, name: &str, priority: Priority) -> CallRequest {
    CallRequest { action, flow: Flow::Session("one".into()), caller: caller(name), priority, instances: 1 }
}

fn launch(name: &str) -> CallRequest {
    call(LAUNCH, name, Priority::Launch)
}

/// A termination of several instances.
fn batch(name: &str, instances: u64) -> CallRequest {
    CallRequest { instances, ..call("TerminateInstances", name, Priority::Terminate) }
}

fn half() -> Limiter {
    Limiter::new(Share::default(), Share::WHOLE)
}

/// Takes all available tokens, each for a different caller, and returns their number.
fn drain(limiter: &mut Limiter, action: &'static str, now: Duration) -> usize {
    let drained = (0..1000)
        .take_while(|index| {
            let turn = call(action, &format!("drain-{index}"), Priority::Describe);
            let taken = limiter.acquire(&turn, now);
            limiter.forget(&turn.caller);
            taken.is_ok()
        })
        .count();
    assert!(drained < 1000);
    drained
}

/// Plays the calls: each caller comes at its time, and then at the times that the limiter returns. Returns the times of
/// the granted turns.
fn play(limiter: &mut Limiter, calls: &[(Duration, CallRequest)]) -> Vec<Duration> {
    let mut granted = vec![Duration::ZERO; calls.len()];
    let mut events: BinaryHeap<_> = calls.iter().enumerate().map(|(index, (at, _))| Reverse((*at, index))).collect();
    let mut asked = 0;
    while let Some(Reverse((now, index))) = events.pop() {
        asked += 1;
        assert!(asked < calls.len() * 100, "asked without end");
        match limiter.acquire(&calls[index].1, now) {
            Ok(()) => granted[index] = now,
            Err(wait) => events.push(Reverse((now + wait, index))),
        }
    }
    granted
}

#[test]
fn a_bucket_starts_with_one_second_and_fills_up_to_its_burst() {
    // The published rate is 20 a second with a burst of 100; launches and terminations have the whole published rate.
    let table = [
        (DESCRIBE, 10, 50),
        ("CreateTags", 5, 50),
        ("ModifyInstanceAttribute", 2, 25),
        (LAUNCH, 2, 5),
        ("TerminateInstances", 5, 100),
    ];
    for (action, first, burst) in table {
        let mut limiter = half();
        assert_eq!(drain(&mut limiter, action, seconds(5.0)), first, "{action}");
        assert_eq!(drain(&mut limiter, action, seconds(5.0)), 0, "{action}");
        assert_eq!(drain(&mut limiter, action, seconds(3600.0)), burst, "{action}");
    }
}

#[test]
fn the_smallest_share_still_allows_some_calls() {
    let mut limiter = Limiter::new("0.001".parse().unwrap(), Share::WHOLE);
    let turn = call(DESCRIBE, "a", Priority::Describe);
    let wait = limiter.acquire(&turn, Duration::ZERO).unwrap_err();
    assert_eq!(wait, seconds(49.0), "one call in 50 s, of which one second is in the bucket");
    assert_eq!(limiter.acquire(&turn, wait), Ok(()));
}

#[test]
fn actions_do_not_share_a_bucket_nor_do_limiters() {
    let (mut one, mut other) = (half(), half());
    assert_eq!(drain(&mut one, DESCRIBE, Duration::ZERO), 10);
    assert_eq!(drain(&mut one, "DescribeSubnets", Duration::ZERO), 10);
    one.throttled(DESCRIBE, Duration::ZERO, Duration::ZERO);
    assert_eq!(drain(&mut one, "DescribeVpcs", Duration::ZERO), 10);
    assert_eq!(drain(&mut other, DESCRIBE, Duration::ZERO), 10);
}

#[test]
fn a_caller_without_a_token_is_told_its_turn_and_gets_it() {
    let mut limiter = half();
    drain(&mut limiter, LAUNCH, Duration::ZERO);
    let waits: Vec<Duration> =
        ["a", "b", "c"].iter().map(|name| limiter.acquire(&launch(name), Duration::ZERO).unwrap_err()).collect();
    assert_eq!(waits, [seconds(0.5), seconds(1.0), seconds(1.5)]);
    // The order in which the callers come back does not matter: no caller takes another caller's turn.
    assert_eq!(limiter.acquire(&launch("b"), seconds(1.0)), Ok(()));
    assert_eq!(limiter.acquire(&launch("late"), seconds(1.0)), Err(seconds(1.0)));
    assert_eq!(limiter.acquire(&launch("c"), seconds(1.5)), Ok(()));
    assert_eq!(limiter.acquire(&launch("a"), seconds(1.5)), Ok(()));
    assert_eq!(limiter.acquire(&launch("late"), seconds(2.0)), Ok(()));
}

#[test]
fn asking_again_too_early_changes_nothing() {
    let mut limiter = half();
    drain(&mut limiter, LAUNCH, Duration::ZERO);
    assert_eq!(limiter.acquire(&launch("a"), Duration::ZERO), Err(seconds(0.5)));
    assert_eq!(limiter.acquire(&launch("b"), Duration::ZERO), Err(seconds(1.0)));
    assert_eq!(limiter.acquire(&launch("a"), seconds(0.25)), Err(seconds(0.25)));
    assert_eq!(limiter.acquire(&launch("b"), seconds(0.25)), Err(seconds(0.75)));
}

#[test]
fn a_turn_that_is_not_used_goes_to_the_others() {
    let mut limiter = half();
    drain(&mut limiter, LAUNCH, Duration::ZERO);
    assert_eq!(limiter.acquire(&launch("gone"), Duration::ZERO), Err(seconds(0.5)));
    assert_eq!(limiter.acquire(&launch("b"), seconds(0.5)), Err(seconds(0.5)), "it is kept");
    assert_eq!(limiter.acquire(&launch("forgotten"), seconds(0.5)), Err(seconds(1.0)));
    limiter.forget(&caller("forgotten"));
    assert_eq!(limiter.acquire(&launch("c"), seconds(0.5)), Err(seconds(1.0)));
    // Ten seconds after its time the turn has expired.
    let late = seconds(10.6);
    assert_eq!(drain(&mut limiter, LAUNCH, late), 3, "five, less those of b and c");
    // Its caller still comes before others.
    assert_eq!(limiter.acquire(&launch("new"), late), Err(seconds(0.5)));
    assert_eq!(limiter.acquire(&launch("gone"), late), Ok(()));
    assert_eq!(limiter.acquire(&launch("new"), late), Err(seconds(1.0)));
}

#[test]
fn a_caller_whose_reserved_turn_expires_keeps_its_place() {
    let mut limiter = half();
    drain(&mut limiter, LAUNCH, Duration::ZERO);
    assert_eq!(limiter.reserve(&launch("a"), Duration::ZERO), Err(seconds(0.5)));
    for other in 0..100 {
        assert!(limiter.reserve(&launch(&other.to_string()), Duration::ZERO).is_err());
    }
    assert_eq!(limiter.reserve(&launch("a"), seconds(0.5)), Ok(()));
    assert_eq!(limiter.acquire(&launch("a"), seconds(20.0)), Ok(()));
    assert!(limiter.acquire(&launch("a"), seconds(20.0)).is_err(), "once");
}

#[test]
fn a_reserved_turn_waits_for_its_call() {
    let mut limiter = half();
    assert_eq!(limiter.reserve(&launch("a"), Duration::ZERO), Ok(()));
    assert_eq!(limiter.reserve(&launch("a"), seconds(0.1)), Ok(()), "asking twice costs once");
    assert_eq!(drain(&mut limiter, LAUNCH, seconds(0.1)), 1);
    assert_eq!(limiter.acquire(&launch("a"), seconds(9.0)), Ok(()));
    let mut limiter = half();
    assert_eq!(limiter.reserve(&launch("a"), Duration::ZERO), Ok(()));
    assert_eq!(limiter.reserve(&launch("b"), Duration::ZERO), Ok(()));
    limiter.forget(&caller("b"));
    assert_eq!(drain(&mut limiter, LAUNCH, Duration::ZERO), 1, "what is given up is there again");
    assert_eq!(drain(&mut limiter, LAUNCH, seconds(1.0)), 2);
    assert_eq!(drain(&mut limiter, LAUNCH, seconds(10.5)), 5, "and what is not used in ten seconds");
}

#[test]
fn a_turn_is_reserved_for_exactly_ten_seconds() {
    let (mut queue, request) = (Queue::default(), launch("a"));
    queue.join(&request, Duration::ZERO);
    queue.grant(&request, seconds(100.0));
    for now in [100.0, 105.0, 110.0] {
        assert_eq!(queue.expire(seconds(now)), Cost::default(), "{now}");
        assert!(queue.is_granted(&request), "{now}");
    }
    let unused = Cost { requests: 1, instances: 1 };
    assert_eq!(queue.expire(seconds(110.001)), unused);
    assert!(!queue.is_granted(&request));
}

#[test]
fn a_machine_gives_up_its_turn_to_launch_only() {
    let mut limiter = half();
    let machine = MachineKey { namespace: "default".into(), name: "m".into() };
    let flow = Flow::Session("a".into());
    let (launch_of_machine, update) =
        (CallRequest::launch(&flow, &machine), CallRequest::update("CreateTags", &flow, &machine));
    assert_eq!(limiter.reserve(&launch_of_machine, Duration::ZERO), Ok(()));
    assert_eq!(limiter.reserve(&update, Duration::ZERO), Ok(()));
    drain(&mut limiter, "CreateTags", Duration::ZERO);
    limiter.release(&launch_of_machine);
    assert_eq!(drain(&mut limiter, LAUNCH, Duration::ZERO), 2, "the turn is there again");
    assert_eq!(drain(&mut limiter, "CreateTags", Duration::ZERO), 0, "the other turn stays reserved");
    assert_eq!(limiter.acquire(&update, Duration::ZERO), Ok(()));
}

#[test]
fn the_more_urgent_call_goes_first() {
    let order = [Priority::Tag, Priority::Describe, Priority::Launch, Priority::Terminate];
    let mut limiter = half();
    drain(&mut limiter, DESCRIBE, Duration::ZERO);
    let turn = |priority| call(DESCRIBE, &format!("{priority:?}"), priority);
    for priority in order {
        assert_eq!(limiter.acquire(&turn(priority), Duration::ZERO), Err(seconds(0.1)), "{priority:?} overtakes");
    }
    for (index, priority) in order.iter().rev().enumerate() {
        let now = Duration::from_millis(100 * (index as u64 + 1));
        for later in order.iter().rev().skip(index + 1) {
            assert!(limiter.acquire(&turn(*later), now).is_err(), "{later:?} before {priority:?}");
        }
        assert_eq!(limiter.acquire(&turn(*priority), now), Ok(()), "{priority:?}");
    }
}

#[test]
fn no_caller_is_overtaken_for_ever() {
    let mut limiter = half();
    let tag = call("CreateTags", "tag", Priority::Tag);
    drain(&mut limiter, "CreateTags", Duration::ZERO);
    // Ten terminations a second exceed the rate of five a second.
    let terminations = (0_u32..2000).map(|index| {
        let turn = call("CreateTags", &format!("t-{index}"), Priority::Terminate);
        (Duration::from_millis(100) * index, turn)
    });
    let calls: Vec<_> = std::iter::once((Duration::ZERO, tag)).chain(terminations).collect();
    let granted = play(&mut limiter, &calls)[0];
    assert!(granted > seconds(90.0), "terminations go first: {granted:?}");
    assert!(granted < seconds(190.0), "{granted:?}");
}

#[test]
fn a_throttle_slows_calls_down_for_seconds() {
    // Calls at the full rate of ten a second for ten seconds.
    let mut limiter = half();
    let steady = |limiter: &mut Limiter, from: f64| -> Vec<usize> {
        let halves = (1_u32..=6).map(|half| seconds(from) + Duration::from_millis(500) * half);
        halves.map(|now| drain(limiter, DESCRIBE, now)).collect()
    };
    drain(&mut limiter, DESCRIBE, seconds(0.0));
    assert_eq!(steady(&mut limiter, 0.0), [5; 6]);
    assert_eq!(steady(&mut limiter, 3.0), [5; 6]);
    limiter.throttled(DESCRIBE, seconds(6.0), seconds(6.0));
    let recovered = steady(&mut limiter, 6.0);
    assert_eq!(recovered, [3, 5, 5, 5, 5, 5], "seven a second, and ten again after two seconds");
    // AWS accepts nothing for a while: the rate of calls falls, and so does the rate after each throttle.
    let mut calls = 0;
    for tenth in 0..600 {
        let now = seconds(20.0) + Duration::from_millis(100) * tenth;
        let count = drain(&mut limiter, DESCRIBE, now);
        if count > 0 {
            limiter.throttled(DESCRIBE, now, now);
        }
        calls += count;
    }
    assert!((60..=130).contains(&calls), "{calls} calls in a minute");
    drain(&mut limiter, DESCRIBE, seconds(84.0));
    assert_eq!(drain(&mut limiter, DESCRIBE, seconds(85.0)), 10, "ten a second again");
}

#[test]
fn calls_that_were_throttled_together_count_once() {
    let wait = |throttles: &[(f64, f64)]| {
        let mut limiter = half();
        drain(&mut limiter, DESCRIBE, Duration::ZERO);
        for (began, now) in throttles {
            limiter.throttled(DESCRIBE, seconds(*began), seconds(*now));
        }
        let now = throttles.last().map_or(Duration::ZERO, |(_, now)| seconds(*now));
        limiter.acquire(&call(DESCRIBE, "a", Priority::Describe), now).unwrap_err()
    };
    let once = wait(&[(0.0, 1.0)]);
    assert_eq!(wait(&[(0.0, 1.0), (0.2, 1.0), (0.5, 1.0)]), once);
    assert!(wait(&[(0.0, 1.0), (1.1, 1.1)]) > once, "one that began after the rate was reduced reduces it again");
}

#[test]
fn endless_throttles_still_allow_some_calls() {
    let mut limiter = half();
    let turn = launch("a");
    let mut now = Duration::ZERO;
    for _ in 0..100 {
        while let Err(wait) = limiter.acquire(&turn, now) {
            assert!(wait <= seconds(4.0), "{wait:?}");
            now += wait;
        }
        limiter.throttled(LAUNCH, now, now);
    }
}

#[test]
fn further_pages_do_not_wait_but_use_tokens() {
    let mut limiter = half();
    assert_eq!(drain(&mut limiter, DESCRIBE, Duration::ZERO), 10);
    for _ in 0..3 {
        limiter.charge(DESCRIBE, Duration::ZERO);
    }
    let next = limiter.acquire(&call(DESCRIBE, "a", Priority::Describe), Duration::ZERO);
    assert_eq!(next, Err(seconds(0.4)));
}

#[test]
fn a_batch_costs_as_many_instances_as_it_names() {
    let mut limiter = half();
    // The refill is 20 instances a second, and the bucket starts with one second of refill.
    assert_eq!(limiter.acquire(&batch("a", 20), Duration::ZERO), Ok(()));
    assert_eq!(limiter.acquire(&batch("b", 60), Duration::ZERO), Err(seconds(3.0)));
    assert_eq!(limiter.acquire(&batch("c", 20), Duration::ZERO), Err(seconds(4.0)));
    assert_eq!(limiter.acquire(&batch("b", 60), seconds(3.0)), Ok(()));
    assert_eq!(limiter.acquire(&batch("c", 20), seconds(4.0)), Ok(()));
    assert_eq!(limiter.acquire(&batch("huge", 5000), seconds(3600.0)), Ok(()), "no more than ever fits");
}

#[test]
fn an_unused_turn_refunds_its_tokens() {
    let mut limiter = half();
    assert_eq!(limiter.acquire(&batch("first", 1), Duration::ZERO), Ok(()));
    let full = seconds(3600.0);
    assert_eq!(limiter.reserve(&batch("gone", 900), full), Ok(()));
    assert!(limiter.acquire(&batch("next", 1000), full + seconds(9.0)).is_err(), "it is kept");
    assert_eq!(limiter.acquire(&batch("next", 1000), full + seconds(10.5)), Ok(()));
}

proptest! {
    /// In any period the limiter grants at most the bucket's capacity plus the refill of the period.
    #[test]
    fn no_window_grants_more_than_burst_and_refill(
        asked in proptest::collection::vec((0_u64..3000, 0_usize..12, 0_usize..4, 0_usize..4), 1..200),
    ) {
        let priorities = [Priority::Terminate, Priority::Launch, Priority::Describe, Priority::Tag];
        let mut limiter = half();
        let mut now = Duration::ZERO;
        let mut granted = Vec::new();
        for (pause, name, priority, tenant) in asked {
            now += Duration::from_millis(pause);
            let turn = call(LAUNCH, &format!("{name}-{priority}"), priorities[priority]);
            let turn = fairness::of_tenant(tenant, turn);
            if limiter.acquire(&turn, now).is_ok() {
                granted.push(now);
            }
        }
        for (index, from) in granted.iter().enumerate() {
            for (count, until) in granted.iter().skip(index).enumerate() {
                let window = until.saturating_sub(*from);
                let most = 5 + window.as_millis() * 2 / 1000;
                prop_assert!((count as u128) < most, "{} in {window:?}", count + 1);
            }
        }
    }

    /// Every caller that returns in time is granted its turn in the end.
    #[test]
    fn every_caller_that_returns_in_time_gets_its_turn(
        arrivals in proptest::collection::vec((0_u64..20_000, 0_usize..4, 0_usize..4), 1..60),
    ) {
        let priorities = [Priority::Terminate, Priority::Launch, Priority::Describe, Priority::Tag];
        let mut limiter = half();
        let calls: Vec<_> = arrivals
            .iter()
            .enumerate()
            .map(|(index, (at, priority, tenant))| {
                let turn = call(LAUNCH, &index.to_string(), priorities[*priority]);
                (Duration::from_millis(*at), fairness::of_tenant(*tenant, turn))
            })
            .collect();
        let last = play(&mut limiter, &calls).into_iter().max().unwrap_or_default();
        // No token is wasted: the last caller is served no later than if all callers had come at the end.
        let callers = u32::try_from(arrivals.len()).unwrap();
        prop_assert!(last <= Duration::from_millis(20_000) + Duration::from_millis(500) * callers);
    }
}
