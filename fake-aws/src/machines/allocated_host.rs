//! A Dedicated Host that a call has allocated.

use jiff::Timestamp;

use capa_cloud::{Host, HostRequest, HostState};

/// A host that a call has allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedHost {
    /// `h-…`
    pub id: String,
    /// The request that allocated it.
    pub request: HostRequest,
    /// Time of the allocation.
    pub allocated_at: Timestamp,
    /// Access key that allocated it; empty for a host of another user.
    pub allocated_by: String,
    /// Time of the release, and the access key that released it.
    pub released: Option<(Timestamp, String)>,
    /// Time from which on describes show it.
    pub visible_from: Timestamp,
    /// Time until which EC2 refuses to release it.
    pub kept_until: Timestamp,
}

impl AllocatedHost {
    pub(super) fn shown(&self) -> Host {
        Host {
            id: self.id.clone(),
            client_token: Some(self.request.client_token.clone()).filter(|token| !token.is_empty()),
            availability_zone: self.request.availability_zone.clone(),
            instance_type: self.request.instance_type.clone(),
            state: self.state(),
            tags: self.request.tags.clone(),
        }
    }

    fn state(&self) -> HostState {
        if self.released.is_some() { HostState::Released } else { HostState::Available }
    }

    pub(super) fn filter_values(&self, filter: &str) -> Vec<String> {
        match filter {
            "auto-placement" => vec!["off".to_owned()],
            "availability-zone" => vec![self.request.availability_zone.clone()],
            "client-request-token" => vec![self.request.client_token.clone()],
            "instance-type" => vec![self.request.instance_type.clone()],
            "state" => vec![self.state().to_string()],
            _ => Vec::new(),
        }
    }
}
