//! Every period and age that AWS access depends on, in one place.

use std::time::Duration;

/// Periods and ages. The defaults are for real AWS; tests over real servers divide all of them by one factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two full listings of the instances of one (identity, region). Flag `--instance-poll-interval`.
    pub listing_interval: Duration,
    /// Between two lookups of instances in transition.
    pub transition_interval: Duration,
    /// An instance younger than this is never concluded to be gone: EC2 may not show it yet.
    pub visibility_age: Duration,
    /// How long a launch without an answer is looked up before its absence is believed, counted from the last call that
    /// this process knows of, or from its first look at the attempt.
    pub launch_lookup_age: Duration,
    /// Least time between two empty lookups that together prove the absence of an instance.
    pub lookup_spacing: Duration,
    /// A launch is called at most this long after its record was written, claimed or confirmed; later the API server is
    /// asked first whether the record still stands. A process that was frozen in between makes no call.
    pub confirmation_age: Duration,
    /// Least time between the first attempt and the next one, after an instance died before it ran for reasons of EC2's
    /// own; doubles with every attempt.
    pub relaunch_backoff: Duration,
    /// How long a zone in which EC2 had no capacity for an instance type is left aside; then one machine tries it
    /// again.
    pub capacity_retry: Duration,
    /// A launch that was recorded longer ago than this is looked up and no more repeated: EC2 forgets tokens.
    pub token_age: Duration,
    /// First wait before a call is repeated that AWS has refused for good; doubles up to `refusal_retry_cap`. A change of
    /// what the call is made from ends the wait.
    pub refusal_retry: Duration,
    /// Longest wait before such a call is repeated.
    pub refusal_retry_cap: Duration,
    /// First wait before a network source that was not usable is read again; doubles up to `source_retry_cap`.
    pub source_retry: Duration,
    /// Longest wait between two reads of a source.
    pub source_retry_cap: Duration,
    /// First wait before a failed or incomplete lookup of a cluster's network is repeated; doubles up to the cap.
    pub resolve_retry: Duration,
    /// Longest wait between two lookups of a cluster's network.
    pub resolve_retry_cap: Duration,
    /// How long a failing lookup may hold back `provisioned` of an unmanaged cluster.
    pub resolve_grace: Duration,
    /// How long answers about subnets, groups and images are shared between machines.
    pub lookup_cache: Duration,
    /// Between two reads of the targets of a load balancer, all machines together. Flag `--sync-period`.
    pub target_interval: Duration,
    /// The same while a target is on its way in or out, or not healthy yet.
    pub target_poll: Duration,
    /// How long targets that are not as they should be are looked at that often, counted from the last change.
    pub target_settling: Duration,
    /// How long after it was asked for a registration may still take effect that got no answer, or whose answer another
    /// process waited for.
    pub late_registration: Duration,
    /// The longest time that an instance is kept for the sake of a load balancer that it is to leave.
    pub drain_limit: Duration,
    /// The second of AWS's rates, which are so many calls a second. Terminations and targets are collected for a fifth
    /// of it.
    pub rate_second: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            listing_interval: Duration::from_secs(60),
            transition_interval: Duration::from_secs(5),
            visibility_age: Duration::from_secs(300),
            launch_lookup_age: Duration::from_secs(600),
            lookup_spacing: Duration::from_secs(120),
            confirmation_age: Duration::from_secs(30),
            relaunch_backoff: Duration::from_secs(30),
            capacity_retry: Duration::from_secs(60),
            token_age: Duration::from_secs(12 * 3600),
            refusal_retry: Duration::from_secs(1),
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
            drain_limit: Duration::from_secs(300),
            rate_second: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// The same timing, every duration divided by `factor`.
    #[must_use]
    pub fn divided_by(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self {
            listing_interval: self.listing_interval / factor,
            transition_interval: self.transition_interval / factor,
            visibility_age: self.visibility_age / factor,
            launch_lookup_age: self.launch_lookup_age / factor,
            lookup_spacing: self.lookup_spacing / factor,
            confirmation_age: self.confirmation_age / factor,
            relaunch_backoff: self.relaunch_backoff / factor,
            capacity_retry: self.capacity_retry / factor,
            token_age: self.token_age / factor,
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
            target_settling: self.target_settling / factor,
            late_registration: self.late_registration / factor,
            drain_limit: self.drain_limit / factor,
            rate_second: self.rate_second / factor,
        }
    }
}
