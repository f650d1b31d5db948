//! All periods and ages on which AWS access depends.

use std::time::Duration;

/// Periods and ages. The defaults are for real AWS. Tests with real servers divide the periods by one factor and leave
/// the safety ages as they are, because the safety ages prevent wrong conclusions if the computer or AWS is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time between two full listings of the instances of one identity in one region. Flag `--instance-poll-interval`.
    pub listing_interval: Duration,
    /// Time between two lookups of instances in transition.
    pub transition_interval: Duration,
    /// Safety age: minimum age of an instance that the provider treats as gone. EC2 may not show a younger instance
    /// yet. Listings that have not completed for a shorter time are not overdue.
    pub visibility_age: Duration,
    /// Safety age: time during which a launch without an answer is looked up before the provider treats its instance as
    /// absent. The time counts from the last call that this process knows of, or from its first lookup of the attempt.
    pub launch_lookup_age: Duration,
    /// Time for which lookups before launches are gathered, so that machines that ask at the same time share a call.
    /// They are gathered five times as long soon after another lookup.
    pub lookup_gathering: Duration,
    /// Time before its turn to launch from which a machine shares the lookup of other machines.
    pub lookup_ahead: Duration,
    /// Maximum age of the answer to such a lookup when the machine uses it.
    pub lookup_age: Duration,
    /// Safety age: minimum time between two empty lookups that together prove the absence of an instance.
    pub lookup_spacing: Duration,
    /// Safety age: maximum age of a launch record for a call, counted from the time at which the record was written,
    /// claimed or confirmed. For an older record, the process first reads the record from the API server again. So a
    /// process that was frozen makes no call with an outdated record.
    pub confirmation_age: Duration,
    /// Minimum time between the first and the second attempt, if an instance ended before it ran because of a failure
    /// in EC2. The time doubles with every attempt.
    pub relaunch_backoff: Duration,
    /// Time during which the provider avoids a zone in which EC2 had no capacity for an instance type. After that time
    /// one machine tries the zone again. If EC2 has no capacity then either, the time is `refusal_retry_cap`.
    pub capacity_retry: Duration,
    /// Safety age: maximum age of a recorded launch for a repetition of its call. An older launch is only looked up,
    /// because EC2 forgets tokens.
    pub token_age: Duration,
    /// First wait before a call that AWS refused with a permanent error is repeated. The second wait is three times as
    /// long, and all others are `refusal_retry_cap`. A change of the parameters of the call ends the wait.
    pub refusal_retry: Duration,
    /// Maximum wait before such a call is repeated.
    pub refusal_retry_cap: Duration,
    /// First wait before an unusable network source is read again. The wait doubles up to `source_retry_cap`.
    pub source_retry: Duration,
    /// Maximum wait between two reads of a network source.
    pub source_retry_cap: Duration,
    /// First wait before a failed or incomplete lookup of a cluster's network is repeated. The wait doubles up to
    /// `resolve_retry_cap`.
    pub resolve_retry: Duration,
    /// Maximum wait between two lookups of a cluster's network.
    pub resolve_retry_cap: Duration,
    /// Maximum time for which a failing lookup delays `provisioned` of an unmanaged cluster.
    pub resolve_grace: Duration,
    /// Time during which machines share answers about subnets, security groups and images.
    pub lookup_cache: Duration,
    /// Time between two reads of the targets of a load balancer. All machines share a read. Flag `--sync-period`.
    pub target_interval: Duration,
    /// Time between two reads of the targets while a target is being registered or deregistered, or is not healthy yet.
    pub target_poll: Duration,
    /// Safety age: time during which targets in an undesired state are read at `target_poll`, counted from the last
    /// change. A server must boot within this time so that the provider notices its health within `target_poll`.
    pub target_settling: Duration,
    /// Safety age: time after a call during which a registration may still take effect, if the call got no answer or
    /// another process made it.
    pub late_registration: Duration,
    /// Maximum time for which the provider delays the termination of an instance that has not left a load balancer.
    /// Flag `--target-drain-timeout`.
    pub drain_limit: Duration,
    /// Age of an instance at which its bootstrap data is deleted although it has not become a node.
    pub bootstrap_data_age: Duration,
    /// Safety age: time for which AWS may not show a new resource of a managed cluster. The provider does not request a
    /// resource again before this time has passed.
    pub unseen_age: Duration,
    /// First wait before the provider reads the state of a resource of a managed cluster again. The wait doubles up to
    /// `managed_poll_cap`.
    pub managed_poll: Duration,
    /// Maximum wait before the provider reads the state of a resource of a managed cluster again.
    pub managed_poll_cap: Duration,
    /// Time for which observations of an unchanged managed cluster reuse the details that an earlier observation has
    /// read, and that AWS does not show in its lists.
    pub managed_details: Duration,
    /// Age of the deletion of a managed cluster from which a resource in use blocks it. Until then, the provider waits
    /// for the network interfaces of deleted load balancers, which exist for some minutes.
    pub managed_deletion_age: Duration,
    /// The duration that counts as a second in AWS's request rates. Terminations are batched for this duration, and
    /// calls about targets for a fifth of it.
    pub rate_second: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            listing_interval: Duration::from_secs(60),
            transition_interval: Duration::from_secs(5),
            visibility_age: Duration::from_secs(300),
            launch_lookup_age: Duration::from_secs(600),
            lookup_gathering: Duration::from_millis(200),
            lookup_ahead: Duration::from_secs(20),
            lookup_age: Duration::from_secs(30),
            lookup_spacing: Duration::from_secs(120),
            confirmation_age: Duration::from_secs(30),
            relaunch_backoff: Duration::from_secs(30),
            capacity_retry: Duration::from_secs(60),
            token_age: Duration::from_secs(12 * 3600),
            refusal_retry: Duration::from_secs(15),
            refusal_retry_cap: Duration::from_secs(300),
            source_retry: Duration::from_secs(5),
            source_retry_cap: Duration::from_secs(60),
            resolve_retry: Duration::from_secs(5),
            resolve_retry_cap: Duration::from_secs(300),
            resolve_grace: Duration::from_secs(60),
            lookup_cache: Duration::from_secs(60),
            target_interval: Duration::from_secs(600),
            target_poll: Duration::from_secs(10),
            target_settling: Duration::from_secs(600),
            late_registration: Duration::from_secs(60),
            drain_limit: Duration::from_secs(60),
            bootstrap_data_age: Duration::from_secs(1800),
            unseen_age: Duration::from_secs(60),
            managed_poll: Duration::from_secs(5),
            managed_poll_cap: Duration::from_secs(30),
            managed_details: Duration::from_secs(3600),
            managed_deletion_age: Duration::from_mins(10),
            rate_second: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// The same timing with every period divided by `factor`. Safety ages stay as they are: on a slow computer a
    /// shorter one would be over before AWS or the API server has answered.
    #[must_use]
    pub fn with_periods_divided_by(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self {
            listing_interval: self.listing_interval / factor,
            transition_interval: self.transition_interval / factor,
            lookup_gathering: self.lookup_gathering / factor,
            lookup_ahead: self.lookup_ahead / factor,
            lookup_age: self.lookup_age / factor,
            relaunch_backoff: self.relaunch_backoff / factor,
            capacity_retry: self.capacity_retry / factor,
            refusal_retry: self.refusal_retry / factor,
            refusal_retry_cap: self.refusal_retry_cap / factor,
            source_retry: self.source_retry / factor,
            source_retry_cap: self.source_retry_cap / factor,
            resolve_retry: self.resolve_retry / factor,
            resolve_retry_cap: self.resolve_retry_cap / factor,
            resolve_grace: self.resolve_grace / factor,
            lookup_cache: self.lookup_cache / factor,
            target_interval: self.target_interval / factor,
            target_poll: self.target_poll / factor,
            drain_limit: self.drain_limit / factor,
            bootstrap_data_age: self.bootstrap_data_age / factor,
            managed_poll: self.managed_poll / factor,
            managed_poll_cap: self.managed_poll_cap / factor,
            managed_details: self.managed_details / factor,
            managed_deletion_age: self.managed_deletion_age / factor,
            rate_second: self.rate_second / factor,
            ..self
        }
    }
}

impl Timing {
    /// The time for which a location without capacity is avoided. `retries` is the number of earlier retries without
    /// success.
    #[must_use]
    pub fn capacity_wait(&self, retries: u32) -> Duration {
        if retries == 0 { self.capacity_retry } else { self.capacity_retry.max(self.refusal_retry_cap) }
    }

    /// The time between two lookups of something whose creation is not confirmed, until its absence is proven.
    #[must_use]
    pub fn absence_interval(&self) -> Duration {
        self.transition_interval * 6
    }

    /// The wait before a call that AWS refused with a permanent error is repeated. `before` is the number of earlier
    /// refusals.
    #[must_use]
    pub fn refusal_wait(&self, before: u32) -> Duration {
        let wait = match before {
            0 => self.refusal_retry,
            1 => self.refusal_retry * 3,
            _ => self.refusal_retry_cap,
        };
        wait.min(self.refusal_retry_cap)
    }
}

/// The wait before the next attempt: `first`, doubled as many times as `times` says, and at most `cap`.
#[must_use]
pub fn doubled_wait(first: Duration, times: u32, cap: Duration) -> Duration {
    let factor = 2_u32.saturating_pow(times);
    first.saturating_mul(factor).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_repeated_twice_in_a_minute_then_seldom() {
        let waits = (0..5).map(|before| Timing::default().refusal_wait(before).as_secs());
        assert_eq!(waits.collect::<Vec<_>>(), [15, 45, 300, 300, 300]);
    }

    #[test]
    fn a_wait_doubles_up_to_its_cap() {
        let (first, cap) = (Duration::from_secs(5), Duration::from_secs(300));
        for (times, seconds) in [(0, 5), (1, 10), (5, 160), (6, 300), (32, 300), (u32::MAX, 300)] {
            let wait = doubled_wait(first, times, cap);
            assert_eq!(wait, Duration::from_secs(seconds), "doubled {times} times");
        }
        assert_eq!(doubled_wait(cap, 0, first), first, "the cap holds for the first wait too");
        assert_eq!(doubled_wait(Duration::MAX, 1, Duration::MAX), Duration::MAX);
    }
}
