//! How often calls may be made.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_cloud::Timing;
use capa_runtime::backoff::BackoffSettings;

use crate::aws::TARGET_GROUPS;
use crate::calls::Service;
use crate::simulation::Made;

/// How often in a minute something is done that is done once in every such interval.
fn regularly(interval: Duration) -> usize {
    let times = 60_u64.div_ceil(interval.as_secs().max(1)) + 1;
    usize::try_from(times).unwrap_or(usize::MAX)
}

/// How often in a minute something is tried whose waits double from the first one on, each cut short by up to a
/// quarter; once more for what wakes an object besides.
fn backing_off(first: Duration) -> usize {
    let waits = (1..u32::BITS).take_while(|count| first.as_secs() * (2_u64.pow(*count) - 1) * 3 <= 60 * 4);
    2 + waits.count()
}

/// The most calls to AWS that a process may make in a minute, by the intervals of the protocol. A loop that waits for
/// nothing but its answers makes hundreds.
pub(super) fn allowed_a_minute(machines: usize) -> usize {
    let timing = Timing::default();
    let stores = regularly(timing.listing_interval) + regularly(timing.transition_interval);
    let account = regularly(timing.resolve_retry);
    // VPC, subnets, groups, route tables and targets.
    let cluster = 5 * backing_off(timing.resolve_retry);
    // Looked for by tags and by token at the shortest interval; and what fails, a launch or a termination.
    let machine = 2 * regularly(timing.transition_interval) + backing_off(BackoffSettings::default().start);
    // Looked at while something settles; for each machine brought in and out, what fails of it.
    // Facts and delay once, and tags as long as they cannot be read.
    let once = 2 + backing_off(timing.resolve_retry);
    let group = once + regularly(timing.target_poll) + 2 * machines * backing_off(timing.resolve_retry);
    stores + account + cluster + machines * machine + TARGET_GROUPS.len() * group
}

pub(super) fn busiest_minute(made: &[Made], service: Service) -> usize {
    let mut minutes: BTreeMap<(usize, i64), usize> = BTreeMap::new();
    for call in made.iter().filter(|call| call.service == service) {
        *minutes.entry((call.process, call.at.as_second() / 60)).or_default() += 1;
    }
    minutes.into_values().max().unwrap_or_default()
}
