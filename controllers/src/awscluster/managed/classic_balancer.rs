//! The Classic Load Balancer of the API server that the spec asks for. It equals CAPA's, except for the differences
//! that `docs/managed.md` lists. Pure.

use capa_api::cluster::AWSClusterSpec;
use capa_api::cluster::load_balancer::{
    DnsResolutionCheck, HealthCheckProtocol, LoadBalancerScheme, LoadBalancerSpec, LoadBalancerType,
};
use capa_api::common::Tags;
use capa_cloud::elb::{ClassicAttributes, ClassicHealthCheck, ClassicListener, Protocol};

use super::balancers::{self, Place, Places};
use super::names::Names;
use super::problem::Problem;
use super::reference::Ref;

/// The path of the field of the load balancer.
const PATH: &str = "controlPlaneLoadBalancer";
/// The protocol of the listener.
const PROTOCOL: Protocol = Protocol::Tcp;
/// The port of API servers behind a Classic Load Balancer, whatever port clients use: CAPA's templates rely on it.
const INSTANCE_PORT: i32 = 6443;
/// The idle timeout of connections, which is CAPA's.
const IDLE_TIMEOUT_SECONDS: i32 = 600;
/// The most seconds that AWS waits for the answer to a health check.
const MAX_TIMEOUT_SECONDS: i64 = 60;

/// A Classic Load Balancer that the cluster is to have. Its address is the endpoint of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedClassicLoadBalancer {
    /// The reference has the name of the load balancer in AWS.
    pub(crate) target: Ref,
    pub(crate) scheme: LoadBalancerScheme,
    pub(crate) places: Vec<Place>,
    pub(crate) additional_security_groups: Vec<String>,
    pub(crate) listener: ClassicListener,
    pub(crate) health_check: ClassicHealthCheck,
    pub(crate) attributes: ClassicAttributes,
    pub(crate) tags: Tags,
    /// Whether its address has to resolve before it becomes the endpoint.
    pub(crate) has_to_resolve: bool,
}

/// The Classic Load Balancer of the spec, and what is wrong with it; `None` if the spec asks for another type. `port`
/// is that of the API server.
pub(super) fn wanted(
    spec: &AWSClusterSpec,
    names: &Names,
    port: i64,
    places: &Places,
) -> Option<(WantedClassicLoadBalancer, Vec<Problem>)> {
    let of_spec = spec.effective_control_plane_load_balancer();
    if of_spec.load_balancer_type != LoadBalancerType::Classic {
        return None;
    }
    let [_, target] = balancers::of_endpoint(spec, names);
    let problems = mistakes(&of_spec).into_iter().map(|message| balancers::problem(&target, PATH, message));
    let problems = problems.collect();
    Some((load_balancer(&of_spec, target, names, port, places), problems))
}

/// The port of the API servers of a cluster whose clients use `port`.
pub(super) fn instance_port(spec: &AWSClusterSpec, port: i64) -> i64 {
    match spec.effective_control_plane_load_balancer().load_balancer_type {
        LoadBalancerType::Classic => INSTANCE_PORT.into(),
        LoadBalancerType::Nlb | LoadBalancerType::Alb | LoadBalancerType::Elb | LoadBalancerType::Disabled => port,
    }
}

/// The problems of the load balancer of the spec.
fn mistakes(spec: &LoadBalancerSpec) -> Vec<&'static str> {
    let timing = spec.effective_health_check_timing();
    [
        (
            target_of(spec.effective_health_check_protocol()).is_none(),
            "classic load balancers check by TCP, SSL, HTTP or HTTPS: set healthCheckProtocol to one of them",
        ),
        (timing.timeout_seconds >= timing.interval_seconds, balancers::TOO_LONG),
        (
            timing.timeout_seconds > MAX_TIMEOUT_SECONDS,
            "classic load balancers wait for an answer for 60 s at most: set healthCheck.timeoutSeconds to less",
        ),
        (
            !spec.additional_listeners.is_empty() || spec.preserve_client_ip || spec.target_group_ip_type.is_some(),
            "additionalListeners, preserveClientIP and targetGroupIPType are not for the type classic, which is the \
             default: leave them out, or set loadBalancerType: nlb",
        ),
    ]
    .into_iter()
    .filter_map(|(is_wrong, message)| is_wrong.then_some(message))
    .collect()
}

fn load_balancer(
    spec: &LoadBalancerSpec,
    target: Ref,
    names: &Names,
    port: i64,
    places: &Places,
) -> WantedClassicLoadBalancer {
    WantedClassicLoadBalancer {
        scheme: spec.scheme,
        places: places.of(spec),
        additional_security_groups: spec.additional_security_groups.clone(),
        listener: ClassicListener {
            // The schema accepts no other numbers.
            port: i32::try_from(port).unwrap_or_default(),
            protocol: PROTOCOL,
            instance_port: INSTANCE_PORT,
            instance_protocol: PROTOCOL,
        },
        health_check: ClassicHealthCheck {
            target: target_of(spec.effective_health_check_protocol()).unwrap_or_default(),
            timing: spec.effective_health_check_timing(),
        },
        attributes: ClassicAttributes {
            is_cross_zone: spec.cross_zone_load_balancing,
            idle_timeout_seconds: IDLE_TIMEOUT_SECONDS,
        },
        tags: names.load_balancer_tags(&target.name),
        has_to_resolve: spec.effective_dns_resolution_check() == DnsResolutionCheck::Enabled,
        target,
    }
}

/// The target of the health check; `None` if classic load balancers do not support the protocol.
fn target_of(protocol: HealthCheckProtocol) -> Option<String> {
    let (protocol, path) = match protocol {
        HealthCheckProtocol::Tcp => ("TCP", ""),
        HealthCheckProtocol::Ssl => ("SSL", ""),
        HealthCheckProtocol::Http => ("HTTP", balancers::READINESS),
        HealthCheckProtocol::Https => ("HTTPS", balancers::READINESS),
        HealthCheckProtocol::Tls | HealthCheckProtocol::Udp => return None,
    };
    Some(format!("{protocol}:{INSTANCE_PORT}{path}"))
}
