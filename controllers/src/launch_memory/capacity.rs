//! Zones and subnets that lacked capacity recently, shared by the machines with the same needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capa_api::machine::AWSMachineSpec;
use capa_api::network::NetworkSubnet;
use capa_cloud::{CloudError, Timing};
use capa_network::Capacity;
use parking_lot::Mutex;

/// The time after the last attempt at which a shortage is removed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// The number of `capacity_retry` periods after a shortage for which the capacity of its location is in doubt. Until
/// then machines try other locations first, so a machine with slow passes tries all of them, and zones soon fill evenly
/// again.
const UNCERTAIN_RETRIES: u32 = 4;

/// Replaces the id of a host that is not allocated yet.
const ALLOCATED: &str = "allocated";

/// The machines that share shortages: the machines of one cluster that ask for the same capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pool {
    /// Namespace of the Cluster.
    namespace: String,
    /// Its name.
    cluster: String,
    /// The instance type.
    instance_type: String,
    /// The market. Spot capacity may be available where on-demand capacity is not, and the other way round.
    market: String,
    /// The reservation, Dedicated Host and placement group that the capacity is taken from.
    within: [Option<String>; 3],
}

impl Pool {
    /// The pool of a machine with this spec.
    pub(crate) fn new(namespace: &str, cluster: &str, spec: &AWSMachineSpec) -> Self {
        Self {
            namespace: namespace.to_owned(),
            cluster: cluster.to_owned(),
            instance_type: spec.instance_type.clone(),
            market: spec.effective_market_type().to_string(),
            within: [
                spec.capacity_reservation_id.clone(),
                // A zone without hosts to allocate may have capacity for instances.
                spec.host_id.clone().or_else(|| spec.dynamic_host_allocation.as_ref().map(|_| ALLOCATED.to_owned())),
                spec.placement_group_name.clone(),
            ],
        }
    }
}

/// A zone or subnet that may lack capacity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CapacityLocation {
    /// A zone without hosts for the instance type.
    Zone(String),
    /// A subnet without free addresses, or whose zone is unknown.
    Subnet(String),
}

impl CapacityLocation {
    fn holds(&self, subnet: &NetworkSubnet) -> bool {
        match self {
            Self::Zone(zone) => subnet.availability_zone.as_ref() == Some(zone),
            Self::Subnet(id) => subnet.id == *id,
        }
    }
}

/// A location without capacity.
#[derive(Clone, Debug)]
struct Shortage {
    /// The time of the last refusal, or the beginning of the running retry, counted from the start of the process.
    at: Duration,
    /// Number of retries without success.
    retries: u32,
    /// UID of the machine that retries. It may need several passes until its call.
    tried_by: Option<String>,
    /// EC2's code of the last refusal, and its words.
    refusal: Option<(String, String)>,
}

impl Shortage {
    fn remaining(&self, now: Duration, timing: &Timing) -> Duration {
        (self.at + timing.capacity_wait(self.retries)).saturating_sub(now)
    }

    fn capacity(&self, now: Duration, timing: &Timing) -> Option<Capacity> {
        if !self.remaining(now, timing).is_zero() {
            return Some(Capacity::Lacking);
        }
        let doubt = timing.capacity_retry * UNCERTAIN_RETRIES;
        (now < self.at + timing.capacity_wait(self.retries) + doubt).then_some(Capacity::Uncertain)
    }

    /// The time until a machine looks at the location again. The result of a retry is known soon.
    fn looked_at_after(&self, now: Duration, timing: &Timing) -> Duration {
        let remaining = self.remaining(now, timing);
        if self.tried_by.is_some() { remaining.min(timing.capacity_retry) } else { remaining }
    }
}

/// Locations without capacity.
#[derive(Clone, Default)]
pub(crate) struct Shortages(Arc<Mutex<ByPool>>);

type ByPool = BTreeMap<Pool, BTreeMap<CapacityLocation, Shortage>>;

impl Shortages {
    /// Records a location without capacity, and EC2's refusal.
    pub(crate) fn refused(&self, pool: &Pool, location: CapacityLocation, refusal: Option<&CloudError>, at: Duration) {
        let mut by_pool = self.0.lock();
        forget_old(&mut by_pool, at);
        let locations = by_pool.entry(pool.clone()).or_default();
        // Machines whose calls were under way together are refused together, which is no retry.
        let retries = locations
            .get(&location)
            .map_or(0, |known| known.retries.saturating_add(u32::from(known.tried_by.is_some())));
        let shortage = Shortage {
            at,
            retries,
            tried_by: None,
            refusal: refusal.and_then(|error| Some((error.code.clone()?, error.message.clone()))),
        };
        locations.insert(location, shortage);
    }

    /// Number of stored locations.
    pub(super) fn entries(&self) -> usize {
        self.0.lock().values().map(BTreeMap::len).sum()
    }

    /// The capacity of the subnets in which this machine's pool lacked some recently. A location that the machine
    /// itself retries counts as one without a shortage: the machine stays there until EC2 answers.
    pub(super) fn capacity(
        &self,
        uid: &str,
        pool: &Pool,
        subnets: &[NetworkSubnet],
        now: Duration,
        timing: &Timing,
    ) -> BTreeMap<String, Capacity> {
        let by_pool = self.0.lock();
        let locations = by_pool.get(pool).into_iter().flatten();
        let of_others = locations.filter(|(_, short)| short.tried_by.as_deref() != Some(uid));
        let uncertain = of_others.filter_map(|(location, short)| Some((location, short.capacity(now, timing)?)));
        let mut capacity = BTreeMap::new();
        for (location, found) in uncertain {
            for subnet in subnets.iter().filter(|subnet| location.holds(subnet)) {
                let known = capacity.entry(subnet.id.clone()).or_insert(found);
                if found == Capacity::Lacking {
                    *known = found;
                }
            }
        }
        capacity
    }

    /// EC2's codes for the locations without capacity, each with the words of one refusal.
    pub(crate) fn refusals(&self, pool: &Pool) -> BTreeMap<String, String> {
        let by_pool = self.0.lock();
        let locations = by_pool.get(pool).into_iter().flatten();
        locations.filter_map(|(_, short)| short.refusal.clone()).collect()
    }

    /// The time until a machine looks at one of the locations again.
    pub(crate) fn remaining(&self, pool: &Pool, now: Duration, timing: &Timing) -> Duration {
        let by_pool = self.0.lock();
        let locations = by_pool.get(pool).into_iter().flatten();
        let remaining = locations.map(|(_, short)| short.looked_at_after(now, timing));
        remaining.filter(|left| !left.is_zero()).min().unwrap_or(timing.capacity_retry)
    }

    /// Records that a machine tries this subnet. If the subnet lacked capacity, the other machines wait for the result.
    pub(super) fn tried(&self, uid: &str, pool: &Pool, subnet: &NetworkSubnet, now: Duration) {
        let mut by_pool = self.0.lock();
        forget_old(&mut by_pool, now);
        let locations = by_pool.get_mut(pool).into_iter().flatten();
        for (_, short) in locations.filter(|(location, _)| location.holds(subnet)) {
            if short.tried_by.as_deref() != Some(uid) {
                short.at = now;
                short.tried_by = Some(uid.to_owned());
            }
        }
    }

    /// Records that a subnet has capacity.
    pub(crate) fn relieved(&self, pool: &Pool, subnet: &NetworkSubnet) {
        let mut by_pool = self.0.lock();
        if let Some(locations) = by_pool.get_mut(pool) {
            locations.retain(|location, _| !location.holds(subnet));
            if locations.is_empty() {
                by_pool.remove(pool);
            }
        }
    }
}

fn forget_old(by_pool: &mut ByPool, now: Duration) {
    by_pool.retain(|_, locations| {
        locations.retain(|_, last| now < last.at + FORGOTTEN_AFTER);
        !locations.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn timing() -> Timing {
        Timing::default()
    }

    fn pool(instance_type: &str) -> Pool {
        Pool::new("team-a", "dev", &read(&format!("{{instanceType: {instance_type}}}")))
    }

    fn subnet(id: &str, zone: &str) -> NetworkSubnet {
        NetworkSubnet { id: id.into(), availability_zone: Some(zone.into()), ..NetworkSubnet::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn avoided(shortages: &Shortages, instance_type: &str, now: u64) -> Vec<String> {
        let subnets = [subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b")];
        let capacity = shortages.capacity("m", &pool(instance_type), &subnets, at(now), &timing());
        let lacking = capacity.into_iter().filter(|(_, found)| *found == Capacity::Lacking);
        lacking.map(|(subnet, _)| subnet).collect()
    }

    #[test]
    fn a_short_zone_is_avoided_by_machines_of_the_same_type() {
        let shortages = Shortages::default();
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(0));
        assert_eq!(avoided(&shortages, "t3.large", 59), ["a1", "a2"]);
        assert_eq!(avoided(&shortages, "t3.large", 60), [""; 0]);
        assert_eq!(avoided(&shortages, "m5.large", 0), [""; 0]);
        assert_eq!(shortages.remaining(&pool("t3.large"), at(20), &timing()), Duration::from_secs(40));
    }

    #[test]
    fn the_capacity_of_a_zone_is_in_doubt_after_a_shortage() {
        let shortages = Shortages::default();
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(0));
        shortages.refused(&pool("t3.large"), CapacityLocation::Subnet("a1".into()), None, at(30));
        let subnets = [subnet("a1", "a"), subnet("a2", "a"), subnet("b1", "b")];
        let at_second = |now| shortages.capacity("m", &pool("t3.large"), &subnets, at(now), &timing());
        let named = |id: &str, capacity| (id.to_owned(), capacity);
        let half_over = [named("a1", Capacity::Lacking), named("a2", Capacity::Uncertain)];
        assert_eq!(at_second(60), half_over.into());
        let in_doubt = [named("a1", Capacity::Uncertain), named("a2", Capacity::Uncertain)];
        assert_eq!(at_second(299), in_doubt.into());
        assert_eq!(at_second(330), BTreeMap::new());
    }

    #[test]
    fn a_retry_without_success_is_followed_by_a_longer_wait() {
        let shortages = Shortages::default();
        let refuse = |shortages: &Shortages, second| {
            shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(second));
        };
        refuse(&shortages, 0);
        refuse(&shortages, 1);
        assert_eq!(avoided(&shortages, "t3.large", 61), [""; 0], "calls that were under way together are one attempt");
        shortages.tried("another", &pool("t3.large"), &subnet("a1", "a"), at(61));
        let remaining = |shortages: &Shortages, now| shortages.remaining(&pool("t3.large"), at(now), &timing());
        assert_eq!(remaining(&shortages, 62), Duration::from_secs(59));
        refuse(&shortages, 63);
        assert_eq!(remaining(&shortages, 64), Duration::from_secs(299));
        assert_eq!(avoided(&shortages, "t3.large", 362), ["a1", "a2"]);
        assert_eq!(avoided(&shortages, "t3.large", 363), [""; 0]);
        shortages.tried("another", &pool("t3.large"), &subnet("a1", "a"), at(363));
        assert_eq!(remaining(&shortages, 364), Duration::from_secs(60), "the result of the retry is known soon");
    }

    #[test]
    fn a_full_subnet_is_no_shortage_of_its_zone() {
        let shortages = Shortages::default();
        let full = CloudError::answered("RunInstances", "InsufficientFreeAddressesInSubnet", "The subnet is full");
        let location = CapacityLocation::Subnet("a1".into());
        shortages.refused(&pool("t3.large"), location, Some(&full), at(0));
        assert_eq!(avoided(&shortages, "t3.large", 0), ["a1"]);
        let refusals = shortages.refusals(&pool("t3.large"));
        let expected = [("InsufficientFreeAddressesInSubnet".to_owned(), "The subnet is full".to_owned())];
        assert_eq!(refusals, expected.into());
    }

    #[test]
    fn a_lack_of_spare_capacity_is_none_at_the_on_demand_price() {
        let shortages = Shortages::default();
        let spot = Pool::new("team-a", "dev", &read("{instanceType: t3.large, marketType: Spot}"));
        shortages.refused(&spot, CapacityLocation::Zone("a".into()), None, at(0));
        assert_eq!(avoided(&shortages, "t3.large", 0), [""; 0]);
    }

    #[test]
    fn one_machine_tries_a_short_zone_and_the_others_wait() {
        let shortages = Shortages::default();
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(0));
        shortages.tried("another", &pool("t3.large"), &subnet("a1", "a"), at(60));
        assert_eq!(avoided(&shortages, "t3.large", 61), ["a1", "a2"]);
        shortages.relieved(&pool("t3.large"), &subnet("a1", "a"));
        assert_eq!(avoided(&shortages, "t3.large", 61), [""; 0]);
    }

    #[test]
    fn the_machine_that_tries_may_take_several_passes() {
        let shortages = Shortages::default();
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(0));
        shortages.tried("m", &pool("t3.large"), &subnet("a1", "a"), at(60));
        assert_eq!(avoided(&shortages, "t3.large", 61), [""; 0]);
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(62));
        assert_eq!(avoided(&shortages, "t3.large", 63), ["a1", "a2"]);
    }

    #[test]
    fn an_old_shortage_is_forgotten() {
        let shortages = Shortages::default();
        shortages.refused(&pool("m5.large"), CapacityLocation::Zone("a".into()), None, at(0));
        shortages.refused(&pool("t3.large"), CapacityLocation::Zone("a".into()), None, at(3600));
        assert_eq!(shortages.entries(), 1);
        shortages.tried("m", &pool("c5.large"), &subnet("b1", "b"), at(7200));
        assert_eq!(shortages.entries(), 0, "whichever machine is placed next");
    }

    #[test]
    fn an_attempt_without_a_shortage_delays_no_machine() {
        let shortages = Shortages::default();
        shortages.tried("another", &pool("t3.large"), &subnet("b1", "b"), at(0));
        assert_eq!(avoided(&shortages, "t3.large", 0), [""; 0]);
    }
}
