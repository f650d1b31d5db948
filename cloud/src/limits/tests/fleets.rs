//! Tests of fleets of machines that are launched at once, against EC2's own bucket.

use super::*;

/// EC2's own bucket, which other clients of the account use too.
struct Server {
    level: f64,
    burst: f64,
    refill: f64,
    others: f64,
    at: Duration,
    /// The time until which every call is throttled.
    closed_until: Duration,
    /// The first call after each of these times is throttled.
    throttles: Vec<Duration>,
}

impl Server {
    fn launches(others: f64) -> Self {
        let Rate { burst, refill } = quota(LAUNCH).requests;
        Self {
            level: f64::from(burst),
            burst: f64::from(burst),
            refill: f64::from(refill),
            others,
            at: Duration::ZERO,
            closed_until: Duration::ZERO,
            throttles: Vec::new(),
        }
    }

    fn accepts(&mut self, now: Duration) -> bool {
        let gained = now.saturating_sub(self.at).as_secs_f64() * (self.refill - self.others);
        self.level = (self.level + gained).min(self.burst);
        self.at = now;
        let single = self.throttles.iter().position(|at| *at <= now);
        if let Some(single) = single {
            self.throttles.remove(single);
        }
        let accepted = self.level >= 1.0 - 1e-9 && self.closed_until <= now && single.is_none();
        if accepted {
            self.level -= 1.0;
        }
        accepted
    }
}

struct Fleet {
    took: Duration,
    calls: usize,
    throttles: usize,
}

/// Launches all machines at once. Each returns at the time that the limiter returns, and two seconds after a throttle.
fn launch_fleet(machines: usize, server: Server) -> Fleet {
    launch_late_fleet(machines, server, Duration::ZERO)
}

/// Launches all machines at once, with a manager that makes each pass `late`.
fn launch_late_fleet(machines: usize, mut server: Server, late: Duration) -> Fleet {
    let mut limiter = half();
    let mut events: BinaryHeap<_> = (0..machines).map(|machine| Reverse((Duration::ZERO, machine))).collect();
    let mut fleet = Fleet { took: Duration::ZERO, calls: 0, throttles: 0 };
    while let Some(Reverse((now, machine))) = events.pop() {
        assert!(now < seconds(3600.0), "{} of {machines} machines are launched", fleet.calls);
        let again = if let Err(wait) = limiter.acquire(&launch(&machine.to_string()), now) {
            wait + late
        } else {
            fleet.calls += 1;
            if server.accepts(now) {
                fleet.took = now;
                continue;
            }
            fleet.throttles += 1;
            limiter.throttled(LAUNCH, now, now);
            seconds(2.0)
        };
        events.push(Reverse((now + again, machine)));
    }
    fleet
}

#[test]
fn two_hundred_machines_launch_as_fast_as_the_quota_allows() {
    let fleet = launch_fleet(200, Server::launches(0.0));
    // Five at once, then two a second.
    let allowed = seconds((200.0 - 5.0) / 2.0);
    assert!(fleet.took <= allowed.mul_f64(1.1), "{:?} of {allowed:?}", fleet.took);
    assert_eq!((fleet.calls, fleet.throttles), (200, 0));
}

/// The passes of a busy manager begin later than each turn, and later than turns are kept.
#[test]
fn a_late_fleet_launches_as_fast_as_the_quota_allows() {
    let late = seconds(60.0);
    let fleet = launch_late_fleet(200, Server::launches(0.0), late);
    let allowed = late + seconds(200.0 / 2.0);
    assert!(fleet.took <= allowed.mul_f64(1.1), "{:?} of {allowed:?}", fleet.took);
    assert_eq!((fleet.calls, fleet.throttles), (200, 0));
}

#[test]
fn beside_other_users_a_fleet_takes_what_they_leave() {
    for (others, throttled) in [(0.25, 15), (0.5, 30), (1.0, 50)] {
        let fleet = launch_fleet(200, Server::launches(others));
        let allowed = seconds((200.0 - 5.0) / (2.0 - others));
        assert!(fleet.throttles >= 1, "with {others} a second of others the bucket must run dry");
        // The rate grows until AWS throttles a call, and grows again afterwards: throttles are the price of using the
        // whole rate.
        assert!(
            fleet.throttles * 100 <= fleet.calls * throttled,
            "{} of {} with {others}",
            fleet.throttles,
            fleet.calls
        );
        assert!(fleet.took <= allowed.mul_f64(1.1), "{:?} of {allowed:?} with {others}", fleet.took);
    }
}

#[test]
fn one_throttle_costs_a_fleet_two_seconds() {
    let mut server = Server::launches(0.0);
    server.throttles = vec![seconds(10.0)];
    let fleet = launch_fleet(100, server);
    let allowed = seconds((100.0 - 5.0) / 2.0);
    assert_eq!((fleet.calls, fleet.throttles), (101, 1));
    assert!(fleet.took <= allowed + seconds(4.0), "{:?} of {allowed:?}", fleet.took);
}

#[test]
fn a_throttled_minute_costs_few_calls_and_no_time_afterwards() {
    let mut server = Server::launches(0.0);
    server.closed_until = seconds(60.0);
    let fleet = launch_fleet(50, server);
    let allowed = seconds((50.0 - 5.0) / 2.0);
    assert!(fleet.throttles <= 40, "{} calls in the minute", fleet.throttles);
    assert!(fleet.took <= seconds(60.0) + allowed + seconds(5.0), "{:?}", fleet.took);
}
