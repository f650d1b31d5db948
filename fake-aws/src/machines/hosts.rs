//! Dedicated Hosts: AllocateHosts, DescribeHosts and ReleaseHosts. A client token is remembered for as long as that of
//! a launch. A host that this region did not allocate belongs to the user: launches may name it, and nothing else is
//! known of it.

use jiff::Timestamp;

use capa_cloud::{CloudError, Host, HostRequest, Query};

use super::allocated_host::AllocatedHost;
use super::client::Client;
use super::region::Region;
use super::time::after;

const ALLOCATE: &str = "AllocateHosts";
const RELEASE: &str = "ReleaseHosts";

/// The known filters of DescribeHosts, besides `tag-key`.
const FILTERS: [&str; 6] =
    ["auto-placement", "availability-zone", "client-request-token", "host-reservation-id", "instance-type", "state"];

impl Client<'_> {
    /// AllocateHosts for exactly one host.
    pub fn allocate_host(&mut self, now: Timestamp, request: &HostRequest) -> Result<String, CloudError> {
        let (region, key) = self.enter(now, ALLOCATE, 0)?;
        let key = key.to_owned();
        region.allocate_host(now, &key, request)
    }

    /// DescribeHosts, all pages.
    pub fn describe_hosts(&mut self, now: Timestamp, query: &Query) -> Result<Vec<Host>, CloudError> {
        const ACTION: &str = "DescribeHosts";
        let (region, _) = self.enter(now, ACTION, 0)?;
        if query.filters.iter().any(|(name, _)| name.starts_with("tag:")) {
            let message = "The filter by the value of a tag is invalid";
            return Err(CloudError::answered(ACTION, "InvalidParameterValue", message));
        }
        let known = region.hosts.iter().filter(|host| host.visible_from <= now);
        let things = known.map(|host| (host, &host.request.tags));
        let found = crate::filters::select(ACTION, query, &FILTERS, things, |host, filter| host.filter_values(filter))?;
        Ok(found.into_iter().map(AllocatedHost::shown).collect())
    }

    /// ReleaseHosts of one host. The error is that of the answer's list of hosts that were not released.
    pub fn release_host(&mut self, now: Timestamp, id: &str) -> Result<(), CloudError> {
        let (region, key) = self.enter(now, RELEASE, 0)?;
        let key = key.to_owned();
        let refuse = |code: &str, message: String| Err(CloudError::answered(RELEASE, code, &message));
        let occupant = region.occupant(now, id);
        let mut hosts = region.hosts.iter_mut();
        let Some(host) = hosts.find(|host| host.id == id && host.visible_from <= now) else {
            return refuse("InvalidHostID.NotFound", format!("The host ID '{id}' does not exist"));
        };
        if let Some(instance) = occupant {
            let message = format!("Dedicated host {id} cannot be released as it is occupied by {instance}");
            return refuse("InvalidHost.Occupied", message);
        }
        if now < host.kept_until {
            let message = format!("Dedicated host {id} cannot be released before its minimum allocation period ends");
            return refuse("InvalidHost.MinimumAllocationPeriod", message);
        }
        if host.released.is_none() {
            host.released = Some((now, key));
        }
        Ok(())
    }
}

impl Region {
    fn allocate_host(&mut self, now: Timestamp, key: &str, request: &HostRequest) -> Result<String, CloudError> {
        if let Some(first) = self.host_of_token(now, &request.client_token) {
            if first.request == *request {
                return Ok(first.id.clone());
            }
            let message = "The request uses the same client token as a previous, but non-identical request.";
            return Err(CloudError::answered(ALLOCATE, "IdempotentParameterMismatch", message));
        }
        let pair = (request.instance_type.clone(), request.availability_zone.clone());
        if self.exhausted.contains(&pair) {
            let message = format!("Insufficient capacity to fulfill the request for a host in {}.", pair.1);
            return Err(CloudError::answered(ALLOCATE, "InsufficientHostCapacity", &message));
        }
        let visible_from = after(now, self.behaviour().hidden);
        let id = self.add_host(now, key, request);
        if let Some(host) = self.hosts.last_mut() {
            host.visible_from = visible_from;
        }
        Ok(id)
    }

    fn host_of_token(&self, now: Timestamp, token: &str) -> Option<&AllocatedHost> {
        let memory = self.behaviour().token_memory;
        let remembered = |host: &&AllocatedHost| now < after(host.allocated_at, memory);
        let mut hosts = self.hosts.iter().filter(remembered);
        hosts.find(|host| !token.is_empty() && host.request.client_token == token)
    }

    /// Adds a host as if another user had allocated it, where `access_key` is empty. Returns its id.
    pub fn add_host(&mut self, now: Timestamp, access_key: &str, request: &HostRequest) -> String {
        let id = format!("h-{}{:010x}", self.place, self.hosts.len() + 1);
        self.hosts.push(AllocatedHost {
            id: id.clone(),
            request: request.clone(),
            allocated_at: now,
            allocated_by: access_key.to_owned(),
            released: None,
            visible_from: now,
            kept_until: now,
        });
        id
    }

    /// All hosts that were ever allocated, oldest first.
    pub fn hosts(&self) -> &[AllocatedHost] {
        &self.hosts
    }

    /// The hosts that are not released.
    pub fn live_hosts(&self) -> impl Iterator<Item = &AllocatedHost> {
        self.hosts.iter().filter(|host| host.released.is_none())
    }

    /// Makes EC2 refuse to release a host until then, as it does with those for Mac instances.
    pub fn keep_host(&mut self, id: &str, until: Timestamp) -> &mut Self {
        if let Some(host) = self.hosts.iter_mut().find(|host| host.id == id) {
            host.kept_until = until;
        }
        self
    }

    /// Whether a launch may name this host.
    pub(super) fn has_host(&self, now: Timestamp, id: &str) -> bool {
        let has = |host: &AllocatedHost| host.released.is_none() && host.visible_from <= now;
        self.hosts.iter().all(|host| host.id != id || has(host))
    }

    /// Whether this host has room for instances of the type, whatever capacity its zone has.
    pub(super) fn is_allocated(&self, id: &str) -> bool {
        self.live_hosts().any(|host| host.id == id)
    }

    /// A living instance on a host.
    fn occupant(&self, now: Timestamp, host_id: &str) -> Option<String> {
        let mut live = self.instances.values().filter(|instance| instance.is_live(now));
        let on_host = live.find(|instance| {
            let host = instance.request.options.host.as_ref();
            host.is_some_and(|host| host.id == host_id)
        });
        on_host.map(|instance| instance.id.clone())
    }
}
