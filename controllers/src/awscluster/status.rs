//! The status of an AWSCluster from the facts of a reconcile. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use capa_api::cluster::discovery::discovery_request;
use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::cluster::status::{AWSClusterStatus, DiscoveryStatus, PreflightStatus, PublishedEndpoint};
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::common::{ControlPlaneTarget, Initialization};
use capa_api::conditions::{self, ConditionStatus, ConditionType, ConditionUpdate, Reason, find, holds};
use capa_api::contract::{ApiEndpoint, Cluster};
use capa_api::unsupported::{self, Found};
use capa_cloud::Timing;
use capa_runtime::reconcile::Next;
use jiff::Timestamp;

use super::check_results;
use super::facts::{Facts, IdentityFailure, NetworkLookup};
use super::load_balancer::endpoint_port;
use super::ready::ReadyInputs;
use super::resolve::{Published, Resolution, resolve};
use crate::filters::candidates;
use crate::machine_networks::MachineNetworks;
use crate::pause::not_paused;

/// Status of a paused AWSCluster: only the condition `Paused` changes.
pub(super) fn paused(cluster: &AWSCluster, paused: ConditionUpdate, now: Timestamp) -> AWSClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    conditions::set(&mut status.conditions, paused, cluster.metadata.generation, now);
    status
}

/// Status of an AWSCluster that a move has marked and not deleted: only the condition `Paused` changes.
pub(super) fn move_interrupted(cluster: &AWSCluster, now: Timestamp) -> AWSClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let generation = cluster.metadata.generation;
    conditions::set(&mut status.conditions, not_paused(&cluster.metadata), generation, now);
    status
}

/// Status of an AWSCluster whose owner reference is not set yet or whose Cluster does not exist. `deletion` is `Ready`
/// of one that is being deleted.
pub(super) fn without_owner(
    cluster: &AWSCluster,
    deletion: Option<ConditionUpdate>,
    now: Timestamp,
) -> AWSClusterStatus {
    let message = "no Cluster owns this object: a Cluster must name it in spec.infrastructureRef";
    let waiting = || ConditionType::Ready.is_false(Reason::WaitingForOwnerCluster, message);
    only_ready(cluster, deletion.unwrap_or_else(waiting), now)
}

/// `Ready` of an AWSCluster that is deleted before the machines of its Cluster. They keep its network.
pub(super) fn waiting_for_machines(machines: &BTreeSet<String>) -> ConditionUpdate {
    let message = format!(
        "the deletion waits for the machines of the Cluster, which need this network until they are gone: {}; delete \
         the Cluster, or its machines",
        candidates(machines)
    );
    ConditionType::Ready.is_false(Reason::DeletionBlocked, message)
}

fn only_ready(cluster: &AWSCluster, ready: ConditionUpdate, now: Timestamp) -> AWSClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let generation = cluster.metadata.generation;
    conditions::set(&mut status.conditions, not_paused(&cluster.metadata), generation, now);
    conditions::set(&mut status.conditions, ready, generation, now);
    status.network_status = None;
    status
}

/// The inputs of the status of an unmanaged AWSCluster.
pub(super) struct Inputs<'a> {
    /// The facts of the reconcile.
    pub(super) facts: &'a Facts,
    /// The network that results from them.
    pub(super) resolution: Resolution,
    /// The result of the last checks of the infrastructure.
    pub(super) checked: Option<PreflightStatus>,
    /// The parts of a network that the machines of the cluster name in their own specs.
    pub(super) machines: MachineNetworks,
    /// The condition `Ready` of an AWSCluster that is being deleted.
    pub(super) deletion: Option<ConditionUpdate>,
}

/// Status of an unmanaged AWSCluster, and the time of the next reconcile.
pub(super) fn unmanaged(
    cluster: &AWSCluster,
    owner: &Cluster,
    inputs: Inputs<'_>,
    timing: &Timing,
    now: Timestamp,
) -> (AWSClusterStatus, Next) {
    let before = status_before(cluster);
    let Inputs { facts, resolution, checked, machines, deletion } = inputs;
    let identity = identity_condition(facts);
    let network_failing_for = failing_for(&before, &resolution.condition, now);
    let failing_for = failing_for(&before, &identity, now).max(network_failing_for);
    let held_back = check_results::holds_back(cluster, checked.as_ref(), &before);
    let may_provision = may_provision(&cluster.spec, facts, network_failing_for, timing) && !held_back;
    let provisioned = before.provisioned() || may_provision;
    let found = unsupported::found(&cluster.spec);
    let discovery = discovery(cluster, facts, &resolution.condition);
    let endpoint = endpoint(cluster, Some(owner));
    let preflight = checked.as_ref().map(check_results::condition);
    let others: Vec<&ConditionUpdate> =
        [&identity, &resolution.condition, &endpoint].into_iter().chain(&preflight).collect();
    let ready = ReadyInputs {
        facts,
        identity: &identity,
        resolution: &resolution,
        preflight: preflight.as_ref().filter(|_| held_back),
        machines,
        was_ready: was_ready(cluster, &before),
        others: &others,
        ignored: &ignored_fields(&cluster.spec, &found),
    };
    let ready = ready.condition();
    // While its Cluster exists, the remediation of its machines continues.
    let ready = match deletion {
        Some(deletion) => ConditionUpdate { status: ready.status, ..deletion },
        None => ready,
    };
    let updates = [not_paused(&cluster.metadata), ready, identity, resolution.condition, endpoint];
    let updates = updates.into_iter().chain(preflight);
    let status = AWSClusterStatus {
        ready: Some(provisioned),
        initialization: provisioned.then_some(Initialization { provisioned: Some(true) }),
        control_plane_endpoint: published_endpoint(cluster, Some(owner)),
        failure_domains: resolution.failure_domains,
        network: Some(resolution.network),
        discovery,
        preflight: checked,
        conditions: conditions::merge(&before.conditions, updates, cluster.metadata.generation, now),
        ..AWSClusterStatus::default()
    };
    let delayed_for = network_failing_for.filter(|_| !provisioned);
    let next = failing_for.map_or(Next::AwaitChange, |failing_for| {
        let rate_limited_for = facts.lookup.rate_limited_for();
        Next::Requeue(rate_limited_for.unwrap_or_else(|| retry_after(failing_for, delayed_for, timing)))
    });
    (status, next)
}

/// The status before the reconcile. The time of a failure in another region, or without a region, does not count.
fn status_before(cluster: &AWSCluster) -> AWSClusterStatus {
    let mut before = cluster.status.clone().unwrap_or_default();
    if !before.provisioned() && !is_of_region(cluster, &before) {
        conditions::remove(&mut before.conditions, ConditionType::NetworkReady);
    }
    before
}

/// Whether `Ready` was True before, about the region of the spec.
fn was_ready(cluster: &AWSCluster, before: &AWSClusterStatus) -> bool {
    before.provisioned() && holds(&before.conditions, ConditionType::Ready) && is_of_region(cluster, before)
}

/// Whether a status is about the region of the spec. Its conditions prove nothing about another region.
fn is_of_region(cluster: &AWSCluster, status: &AWSClusterStatus) -> bool {
    let region = status.network.as_ref().and_then(|network| network.region.as_deref());
    region == cluster.spec.region()
}

/// The network of an unmanaged AWSCluster.
pub(super) fn resolution(cluster: &AWSCluster, owner: &Cluster, facts: &Facts) -> Resolution {
    let endpoint = owner.spec.control_plane_endpoint.as_ref();
    resolve(
        &cluster.spec,
        owner.metadata.name.as_deref().unwrap_or_default(),
        endpoint_port(&cluster.spec, endpoint.map(|endpoint| endpoint.port)),
        &facts.lookup,
        cluster.status.as_ref().and_then(|before| published(cluster, before)),
    )
}

/// The wait before the next reconcile. It equals the duration of the failure so far, so that it doubles each time.
/// While a failing lookup delays provisioning, the wait ends with `resolve_grace`.
fn retry_after(failing_for: Duration, delayed_for: Option<Duration>, timing: &Timing) -> Duration {
    let doubling = failing_for.clamp(timing.resolve_retry, timing.resolve_retry_cap);
    let remaining_grace = delayed_for.map(|delayed_for| timing.resolve_grace.saturating_sub(delayed_for));
    match remaining_grace.filter(|remaining| !remaining.is_zero()) {
        Some(remaining) => doubling.min(remaining),
        None => doubling,
    }
}

fn published<'a>(cluster: &AWSCluster, before: &'a AWSClusterStatus) -> Option<Published<'a>> {
    let condition = find(&before.conditions, ConditionType::NetworkReady);
    Some(Published {
        network: before.network.as_ref()?,
        failure_domains: &before.failure_domains,
        of_this_spec: condition.is_some_and(|condition| condition.observed_generation == cluster.metadata.generation),
    })
}

/// The last request for a search that a complete search has answered.
fn discovery(cluster: &AWSCluster, facts: &Facts, network: &ConditionUpdate) -> Option<DiscoveryStatus> {
    cluster.spec.discovery.as_ref()?;
    let is_complete = network.status == ConditionStatus::True && matches!(facts.lookup, NetworkLookup::Found(_));
    if !is_complete {
        return cluster.status.as_ref()?.discovery.clone();
    }
    let observed_request = discovery_request(&cluster.metadata)?;
    Some(DiscoveryStatus { observed_request })
}

fn identity_condition(facts: &Facts) -> ConditionUpdate {
    match &facts.identity {
        Ok(()) => ConditionType::IdentityReady.is_true(Reason::Ready),
        Err(IdentityFailure::Objects(problem) | IdentityFailure::Unread(problem)) => problem.condition(),
        Err(IdentityFailure::Credentials(error)) => ConditionType::IdentityReady.is_false(
            Reason::CredentialsFailed,
            format!("AWS refuses the credentials: {error}: correct the Secret, the role or its trust policy"),
        ),
    }
}

/// Whether the AWSCluster may become provisioned. The AWSCluster needs a region and usable identity objects. A failing
/// lookup delays provisioning by at most `resolve_grace`: the network may be correct, and `Ready` reports the problem.
fn may_provision(spec: &AWSClusterSpec, facts: &Facts, network_failing_for: Option<Duration>, timing: &Timing) -> bool {
    match (&facts.identity, &facts.lookup) {
        _ if spec.region().is_none() => false,
        (Err(IdentityFailure::Objects(_) | IdentityFailure::Unread(_)), _) => false,
        (_, NetworkLookup::Failed(_)) => {
            network_failing_for.is_some_and(|failing_for| failing_for >= timing.resolve_grace)
        }
        (Ok(()) | Err(IdentityFailure::Credentials(_)), _) => true,
    }
}

/// The endpoint comes from the Cluster or the spec. A control plane provider may set it late.
pub(super) fn endpoint(cluster: &AWSCluster, owner: Option<&Cluster>) -> ConditionUpdate {
    let of_owner = owner.and_then(|owner| owner.spec.control_plane_endpoint.as_ref());
    let known = cluster.spec.endpoint().is_some() || of_owner.is_some_and(ApiEndpoint::is_set);
    if known {
        return ConditionType::ControlPlaneEndpointReady.is_true(Reason::Ready);
    }
    let own = cluster.spec.control_plane_endpoint.as_ref();
    let host = own.and_then(|own| own.host.as_deref()).filter(|host| !host.is_empty());
    let port = own.and_then(|own| own.port).filter(|port| *port != 0);
    let (reason, message) = match (host, port) {
        (Some(host), None) => (
            Reason::MissingField,
            format!(
                "spec.controlPlaneEndpoint has the host {host} and no port: set port, for example to {}",
                ControlPlaneTarget::API_PORT
            ),
        ),
        (None, Some(port)) => (
            Reason::MissingField,
            format!("spec.controlPlaneEndpoint has the port {port} and no host: set host"),
        ),
        _ => (
            Reason::WaitingForEndpoint,
            "neither spec.controlPlaneEndpoint nor the Cluster's is set: set one, or let the control plane provider do \
             so"
            .to_owned(),
        ),
    };
    ConditionType::ControlPlaneEndpointReady.is_false(reason, message)
}

/// The address of the Kubernetes API from the spec, or else from the Cluster.
pub(super) fn published_endpoint(cluster: &AWSCluster, owner: Option<&Cluster>) -> Option<PublishedEndpoint> {
    let of_owner = owner.and_then(|owner| owner.spec.control_plane_endpoint.as_ref());
    let of_owner = of_owner.filter(|endpoint| endpoint.is_set());
    let of_owner = of_owner.map(|endpoint| (endpoint.host.as_str(), endpoint.port));
    let (host, port) = cluster.spec.endpoint().or(of_owner)?;
    Some(PublishedEndpoint { host: host.to_owned(), port })
}

/// The fields of the managed mode: an unmanaged AWSCluster ignores them by design.
fn ignored_fields(spec: &AWSClusterSpec, found: &[Found]) -> Vec<String> {
    found.iter().map(ToString::to_string).chain(ignored_roles(spec)).collect()
}

/// Security groups that no machine gets. The table of fields without effect cannot list them, because it has no keys of
/// maps.
fn ignored_roles(spec: &AWSClusterSpec) -> impl Iterator<Item = String> {
    let overrides = spec.network.iter().flat_map(|network| &network.security_group_overrides);
    let named = overrides.filter(|(_, id)| !id.is_empty());
    let roles = named.filter_map(|(name, _)| SecurityGroupRole::named(name));
    roles
        .filter(|role| !role.concerns_machines())
        .map(|role| format!("network.securityGroupOverrides.{}", role.as_str()))
}

/// The time for which the condition has not been True; `None` if it is True. The time comes from `lastTransitionTime`,
/// which survives restarts of the manager.
fn failing_for(before: &AWSClusterStatus, update: &ConditionUpdate, now: Timestamp) -> Option<Duration> {
    if update.status == ConditionStatus::True {
        return None;
    }
    let since = find(&before.conditions, update.condition)
        .filter(|condition| condition.status == update.status.to_string())
        .map(|condition| condition.last_transition_time.0);
    let age = since.and_then(|since| now.duration_since(since).try_into().ok());
    Some(age.unwrap_or_default())
}
