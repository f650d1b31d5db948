//! The contents of the Lease.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;

use super::LeaseSettings;

/// The holder of the Lease; `None` after a release.
pub(super) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The time within which the holder has to renew the Lease.
pub(super) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// A new Lease, held by this process.
pub(super) fn created(settings: &LeaseSettings) -> Lease {
    let metadata = ObjectMeta {
        name: Some(settings.name.clone()),
        namespace: Some(settings.namespace.clone()),
        ..ObjectMeta::default()
    };
    claimed(&Lease { metadata, spec: None }, settings)
}

/// The Lease with this process as the holder, renewed now. The time of acquisition and the number of transitions change
/// only when the holder does.
pub(super) fn claimed(lease: &Lease, settings: &LeaseSettings) -> Lease {
    let now = MicroTime(Timestamp::now());
    let mut next = lease.clone();
    let is_ours = holder(lease) == Some(settings.identity.as_str());
    let spec = next.spec.get_or_insert_with(LeaseSpec::default);
    if !is_ours {
        let transitions = spec.lease_transitions.map_or(0, |count| count.saturating_add(1));
        spec.lease_transitions = Some(transitions);
        spec.acquire_time = Some(now.clone());
        spec.holder_identity = Some(settings.identity.clone());
    }
    spec.lease_duration_seconds = Some(i32::try_from(settings.duration.as_secs()).unwrap_or(i32::MAX));
    spec.renew_time = Some(now);
    next
}

/// The Lease without a holder.
pub(super) fn released(lease: &Lease) -> Lease {
    let mut next = lease.clone();
    let spec = next.spec.get_or_insert_with(LeaseSpec::default);
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    next
}
