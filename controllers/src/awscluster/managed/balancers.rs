//! The network load balancers of the API server that the spec asks for. They equal CAPA's, except for the differences
//! that `docs/managed.md` lists. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::{
    DnsResolutionCheck, HealthCheckProtocol, Listener, ListenerHealthCheckProtocol, LoadBalancerScheme,
    LoadBalancerSpec, LoadBalancerType, TargetGroupIpType,
};
use capa_api::common::Tags;
use capa_api::conditions::Reason;
use capa_cloud::elb::{HealthCheck, Protocol};

use super::names::Names;
use super::problem::Problem;
use super::reference::{Id, Kind, Ref};

/// The path that the health check of an API server requests.
pub(super) const READINESS: &str = "/readyz";
/// The message about a health check whose timeout is too long.
pub(super) const TOO_LONG: &str =
    "a health check takes less time than there is between two of them: set timeoutSeconds below intervalSeconds";
/// The path of the field of the first load balancer, and of the second one.
const PATHS: [&str; 2] = ["controlPlaneLoadBalancer", "secondaryControlPlaneLoadBalancer"];
/// The most listeners of a cluster: each is a target of every control plane machine.
const MAX_LISTENERS: usize = 8;

/// A load balancer that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedLoadBalancer {
    /// The reference has the name of the load balancer in AWS.
    pub(crate) target: Ref,
    pub(crate) scheme: LoadBalancerScheme,
    pub(crate) places: Vec<Place>,
    /// The Elastic IP in each place, if the addresses come from a pool of the user.
    pub(crate) addresses: Vec<Ref>,
    pub(crate) additional_security_groups: Vec<String>,
    pub(crate) is_cross_zone: bool,
    pub(crate) listeners: Vec<WantedListener>,
    pub(crate) tags: Tags,
    /// Whether its address is the endpoint of the cluster.
    pub(crate) is_endpoint: bool,
    /// Whether its address has to resolve before it becomes the endpoint.
    pub(crate) has_to_resolve: bool,
}

impl WantedLoadBalancer {
    /// Adds an Elastic IP for each place, if the load balancer is internet-facing.
    pub(super) fn want_addresses(&mut self) {
        if self.scheme == LoadBalancerScheme::InternetFacing {
            let numbers = 1..=self.places.len();
            let addresses =
                numbers.map(|number| Ref::new(Kind::LoadBalancerAddress, format!("{}/{number}", self.target.name)));
            self.addresses = addresses.collect();
        }
    }
}

/// A subnet of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The zone, where it is known. A load balancer has one subnet in a zone.
    pub(crate) zone: Option<String>,
    pub(crate) subnet: Id,
}

/// The subnets that load balancers of each scheme are in, one in each zone.
pub(crate) struct Places {
    pub(crate) internet_facing: Vec<Place>,
    pub(crate) internal: Vec<Place>,
}

impl Places {
    /// The subnets of a load balancer: those that the spec lists, or else those for its scheme.
    pub(super) fn of(&self, spec: &LoadBalancerSpec) -> Vec<Place> {
        let listed = spec.subnets.iter().map(|id| Place { zone: None, subnet: Id::Known(id.clone()) });
        match spec.scheme {
            _ if !spec.subnets.is_empty() => listed.collect(),
            LoadBalancerScheme::InternetFacing => self.internet_facing.clone(),
            LoadBalancerScheme::Internal => self.internal.clone(),
        }
    }
}

/// A port of a load balancer, with the target group that it forwards to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedListener {
    pub(crate) target: Ref,
    pub(crate) port: i32,
    pub(crate) group: WantedTargetGroup,
}

/// A target group that the cluster is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedTargetGroup {
    /// The reference has the name of the target group in AWS, unless CAPA has created the target group with a random
    /// name.
    pub(crate) target: Ref,
    pub(crate) health_check: HealthCheck,
    pub(crate) preserves_client_ip: bool,
}

/// The names and the scheme that the second load balancer must not have too.
struct First {
    /// The names that the first one has with one type or another.
    names: [String; 2],
    scheme: LoadBalancerScheme,
}

/// The network load balancers of the spec, and what is wrong with them. `port` is that of the API server.
pub(super) fn wanted(
    spec: &AWSClusterSpec,
    names: &Names,
    port: i64,
    places: &Places,
) -> (Vec<WantedLoadBalancer>, Vec<Problem>) {
    let mut wanted = vec![];
    let mut problems = vec![];
    let first = spec.effective_control_plane_load_balancer();
    let of_first = first.load_balancer_type;
    let is_classic = of_first == LoadBalancerType::Classic;
    let before = (is_classic || of_first == LoadBalancerType::Nlb)
        .then(|| First { names: of_endpoint(spec, names).map(|target| target.name), scheme: first.scheme });
    let specs = [Some(first), spec.secondary_control_plane_load_balancer.clone()];
    for (path, spec) in PATHS.into_iter().zip(specs) {
        let Some(spec) = spec else { continue };
        let is_endpoint = path == PATHS[0];
        if is_endpoint && of_first != LoadBalancerType::Nlb {
            continue;
        }
        let balancer = load_balancer(&spec, names, port, places, is_endpoint);
        let before = before.as_ref().filter(|_| !is_endpoint);
        let found = mistakes(&spec, &balancer, before, port).into_iter();
        problems.extend(found.map(|message| problem(&balancer.target, path, &message)));
        wanted.push(balancer);
    }
    let listeners = wanted.iter().map(|balancer| balancer.listeners.len());
    let listeners = listeners.sum::<usize>() + usize::from(is_classic);
    for balancer in wanted.iter().filter(|_| listeners > MAX_LISTENERS) {
        let message = format!("the cluster would have {listeners} listeners, and may have {MAX_LISTENERS}: list fewer");
        problems.push(problem(&balancer.target, "additionalListeners", &message));
    }
    (wanted, problems)
}

/// The first load balancer by its name, as a network load balancer and as a classic one.
pub(super) fn of_endpoint(spec: &AWSClusterSpec, names: &Names) -> [Ref; 2] {
    let spec = spec.effective_control_plane_load_balancer();
    [
        Ref::new(Kind::LoadBalancer, name(&spec, || names.load_balancer())),
        Ref::new(Kind::ClassicLoadBalancer, name(&spec, || names.classic_load_balancer())),
    ]
}

fn name(spec: &LoadBalancerSpec, default: impl FnOnce() -> String) -> String {
    let of_spec = spec.name.clone().filter(|name| !name.is_empty());
    of_spec.unwrap_or_else(default)
}

pub(super) fn problem(target: &Ref, path: &str, message: &str) -> Problem {
    Problem { target: target.clone(), reason: Reason::InvalidSpec, message: format!("{path}: {message}") }
}

/// The problems of a load balancer of the spec. `first` is the first load balancer, if this is the second one.
fn mistakes(spec: &LoadBalancerSpec, balancer: &WantedLoadBalancer, first: Option<&First>, port: i64) -> Vec<String> {
    let (target, is_endpoint) = (&balancer.target, balancer.is_endpoint);
    let name = spec.name.as_deref().unwrap_or_default();
    let protocol = spec.effective_health_check_protocol();
    let ports = spec.additional_listeners.iter().map(|listener| listener.port);
    let ports: Vec<i64> = std::iter::once(port).chain(ports).collect();
    let is_twice = |port: &&i64| ports.iter().filter(|other| other == port).count() > 1;
    let timings = spec.additional_listeners.iter().map(Listener::effective_health_check_timing);
    let mut timings = timings.chain([spec.effective_health_check_timing()]);
    [
        (
            !is_endpoint && spec.load_balancer_type != LoadBalancerType::Nlb,
            "the secondary load balancer is a network load balancer: set loadBalancerType: nlb".to_owned(),
        ),
        (!is_endpoint && name.is_empty(), "the secondary load balancer needs a name: set name".to_owned()),
        (
            first.is_some_and(|first| first.names.contains(&target.name)),
            format!("both load balancers have the name {name}, or would have it with another type: set another one"),
        ),
        (
            first.is_some_and(|first| first.scheme == spec.scheme),
            "both load balancers have the same scheme: set scheme: internal on one and internet-facing on the other"
                .to_owned(),
        ),
        (
            protocol_of(protocol).is_none(),
            "network load balancers check by TCP, HTTP or HTTPS: set healthCheckProtocol to one of them".to_owned(),
        ),
        (timings.any(|timing| timing.timeout_seconds >= timing.interval_seconds), TOO_LONG.to_owned()),
        (
            ports.iter().any(|port| is_twice(&port)),
            format!("two listeners have one port, or one has the port {port} of the API server: set different ports"),
        ),
        (
            target.name.starts_with("internal-"),
            format!("AWS keeps names that begin with internal- for itself: set another name than {}", target.name),
        ),
        (
            spec.additional_listeners.iter().any(|listener| !is_port(&listener.effective_health_check_port())),
            "the port of a health check is a number, or traffic-port: set healthCheck.port to one".to_owned(),
        ),
        (has_ipv6(spec), "this release offers no IPv6 in managed clusters: leave targetGroupIPType out".to_owned()),
    ]
    .into_iter()
    .filter_map(|(is_wrong, message)| is_wrong.then_some(message))
    .collect()
}

/// Whether AWS shows the port of a health check as it is written.
fn is_port(text: &str) -> bool {
    text == "traffic-port" || text.parse::<u16>().is_ok_and(|port| port > 0 && port.to_string() == text)
}

fn has_ipv6(spec: &LoadBalancerSpec) -> bool {
    let of_listeners = spec.additional_listeners.iter().map(|listener| listener.target_group_ip_type);
    let mut types = of_listeners.chain([spec.target_group_ip_type]);
    types.any(|of_targets| of_targets == Some(TargetGroupIpType::Ipv6))
}

fn load_balancer(
    spec: &LoadBalancerSpec,
    names: &Names,
    port: i64,
    places: &Places,
    is_endpoint: bool,
) -> WantedLoadBalancer {
    let name = name(spec, || names.load_balancer());
    let api = HealthCheck {
        protocol: protocol_of(spec.effective_health_check_protocol()).unwrap_or(Protocol::Tcp),
        port: port.to_string(),
        path: has_path(spec.effective_health_check_protocol()).then(|| READINESS.to_owned()),
        timing: spec.effective_health_check_timing(),
    };
    let api = listener(names, &name, port, true, api, spec.preserve_client_ip);
    let additional = spec.additional_listeners.iter().map(|of_spec| {
        let check = health_check(of_spec);
        listener(names, &name, of_spec.port, false, check, spec.preserve_client_ip)
    });
    WantedLoadBalancer {
        scheme: spec.scheme,
        places: places.of(spec),
        addresses: vec![],
        additional_security_groups: spec.additional_security_groups.clone(),
        is_cross_zone: spec.cross_zone_load_balancing,
        listeners: std::iter::once(api).chain(additional).collect(),
        tags: names.load_balancer_tags(&name),
        is_endpoint,
        has_to_resolve: spec.effective_dns_resolution_check() == DnsResolutionCheck::Enabled,
        target: Ref::new(Kind::LoadBalancer, name),
    }
}

fn listener(
    names: &Names,
    load_balancer: &str,
    port: i64,
    is_api: bool,
    health_check: HealthCheck,
    preserves_client_ip: bool,
) -> WantedListener {
    WantedListener {
        target: Ref::listener(load_balancer, port),
        // The schema accepts no other numbers.
        port: i32::try_from(port).unwrap_or_default(),
        group: WantedTargetGroup {
            target: Ref::new(Kind::TargetGroup, names.target_group(load_balancer, port, is_api)),
            health_check,
            preserves_client_ip,
        },
    }
}

fn health_check(listener: &Listener) -> HealthCheck {
    let protocol = listener.effective_health_check_protocol();
    let path = listener.health_check.as_ref().and_then(|check| check.path.clone());
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let (protocol, has_path) = match protocol {
        ListenerHealthCheckProtocol::Tcp => (Protocol::Tcp, false),
        ListenerHealthCheckProtocol::Http => (Protocol::Http, true),
        ListenerHealthCheckProtocol::Https => (Protocol::Https, true),
    };
    HealthCheck {
        protocol,
        port: listener.effective_health_check_port(),
        path: has_path.then_some(path),
        timing: listener.effective_health_check_timing(),
    }
}

/// The protocol of a health check as network load balancers name it; `None` if they do not support the protocol.
fn protocol_of(protocol: HealthCheckProtocol) -> Option<Protocol> {
    match protocol {
        HealthCheckProtocol::Tcp => Some(Protocol::Tcp),
        HealthCheckProtocol::Http => Some(Protocol::Http),
        HealthCheckProtocol::Https => Some(Protocol::Https),
        HealthCheckProtocol::Ssl | HealthCheckProtocol::Tls | HealthCheckProtocol::Udp => None,
    }
}

fn has_path(protocol: HealthCheckProtocol) -> bool {
    matches!(protocol, HealthCheckProtocol::Http | HealthCheckProtocol::Https)
}
