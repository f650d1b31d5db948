//! The record of a Dedicated Host in the status.

use capa_api::machine::{DedicatedHost, HostPhase};
use capa_cloud::Host;

use crate::awsmachine::locate::InstanceLocation;

/// A record with the place of the host alone.
pub(super) fn located(location: &InstanceLocation) -> DedicatedHost {
    DedicatedHost {
        region: Some(location.region.clone()),
        account_id: Some(location.account_id.clone()),
        identity_ref: Some(location.identity_ref.clone()),
        ..DedicatedHost::default()
    }
}

/// The record of a host that exists already.
pub(super) fn existing(host: Host, location: &InstanceLocation) -> DedicatedHost {
    DedicatedHost {
        id: Some(host.id),
        phase: Some(HostPhase::Allocated),
        client_token: host.client_token,
        availability_zone: Some(host.availability_zone),
        instance_type: Some(host.instance_type),
        ..located(location)
    }
}
