//! `spec.controlPlaneLoadBalancer` and `spec.secondaryControlPlaneLoadBalancer`: the load balancers of the Kubernetes
//! API in a managed cluster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

use super::security_group::IngressRule;

/// Type of a load balancer of the Kubernetes API.
#[derive(Debug, Clone, Copy, Default, Display, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LoadBalancerType {
    /// Classic Load Balancer, the first generation.
    #[default]
    Classic,
    /// Gateway Load Balancer; accepted for compatibility only.
    Elb,
    /// Application Load Balancer.
    Alb,
    /// Network Load Balancer.
    Nlb,
    /// No load balancer: the user provides the endpoint.
    Disabled,
}

/// Networks from which a load balancer can be reached.
#[derive(Debug, Clone, Copy, Default, Display, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LoadBalancerScheme {
    /// The load balancer has public addresses.
    #[default]
    InternetFacing,
    /// The load balancer can be reached only from the VPC and from connected networks.
    Internal,
}

/// Protocol of the health check of API servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HealthCheckProtocol {
    /// A TCP connection.
    #[default]
    Tcp,
    /// A TLS handshake; Classic Load Balancers only.
    Ssl,
    /// A request without TLS.
    Http,
    /// A request with TLS.
    Https,
    /// A TLS handshake; accepted for compatibility only.
    Tls,
    /// UDP; accepted for compatibility only.
    Udp,
}

/// Protocol of the health check of the targets of an additional listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerHealthCheckProtocol {
    /// A TCP connection.
    #[default]
    Tcp,
    /// A request without TLS.
    Http,
    /// A request with TLS.
    Https,
}

/// Protocol of an additional listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListenerProtocol {
    /// The load balancer forwards connections without reading them.
    #[default]
    Tcp,
}

/// Address family of a target group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetGroupIpType {
    /// Targets are reached by IPv4.
    Ipv4,
    /// Targets are reached by IPv6.
    Ipv6,
}

/// Whether a load balancer's DNS name must resolve before the provisioning of the cluster continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DnsResolutionCheck {
    /// The DNS name need not resolve.
    None,
    /// The manager must be able to resolve the DNS name.
    #[default]
    Enabled,
}

/// A load balancer of the Kubernetes API. In unmanaged mode only `name` and `loadBalancerType` have an effect: control
/// plane instances are registered in the target groups behind the API port of the load balancer with that name, or in
/// the Classic Load Balancer with that name. In unmanaged mode the block has no effect without a name, and targets in
/// `controlPlaneTargets` take precedence.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// Type of the load balancer: `nlb` (recommended: passes TLS through, keeps client addresses), `alb`, `classic`
    /// (first generation), `elb` (a Gateway Load Balancer, for compatibility only) or `disabled` (you provide
    /// `controlPlaneEndpoint`). Default: `classic`. Set the type when you create the cluster: a managed cluster keeps
    /// the load balancer that it has.
    #[serde(default)]
    pub load_balancer_type: LoadBalancerType,

    /// Name of the load balancer, unique in account and region: up to 32 letters, digits and inner hyphens. Default:
    /// `<namespace>-<cluster>-apiserver`, or `<cluster>-apiserver` for `classic`; a hash replaces a name that is too
    /// long. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9]{0,31}|[-A-Za-z0-9]{0,30}[A-Za-z0-9])$"))]
    pub name: Option<String>,

    /// Scheme of the load balancer. `internet-facing`: the load balancer has public addresses and is in public subnets.
    /// `internal`: the load balancer is in private subnets and can be reached from the VPC and connected networks.
    /// Default: `internet-facing`. Immutable.
    #[serde(default)]
    pub scheme: LoadBalancerScheme,

    /// Whether the load balancer spreads connections over the API servers of all zones instead of the API servers in
    /// the zone in which the connection arrived. Cross-zone load balancing distributes the load evenly and tolerates
    /// the loss of the only API server of a zone; AWS charges for traffic between zones. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cross_zone_load_balancing: bool,

    /// AWS ids of the subnets of the load balancer, one subnet per zone, at most 16, e.g. `subnet-0a1b2c3d`. Default:
    /// one subnet of the cluster per zone; public subnets for an internet-facing load balancer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub subnets: Vec<String>,

    /// Protocol of the health check of API servers: `TCP` opens a connection, `HTTPS` (recommended) and `HTTP` request
    /// `/readyz`, `SSL` makes a TLS handshake (`classic` only). With `TCP`, an API server that accepts connections but
    /// answers no requests counts as healthy. Default: `TCP`. Mutable for `classic` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_protocol: Option<HealthCheckProtocol>,

    /// Timing of the health check of API servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,

    /// Ids of security groups that the load balancer gets in addition to its own security group, at most 16, e.g.
    /// `sg-0a1b2c3d`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub additional_security_groups: Vec<String>,

    /// Additional ports that the load balancer forwards to the control plane nodes, at most 50, e.g. 22623, or 8132 for
    /// konnectivity. Not for `classic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["port"])
    )]
    pub additional_listeners: Vec<Listener>,

    /// Ingress rules of the load balancer. The list replaces the default rule, which admits every address to the API
    /// port. Include the ranges of your users and of the management cluster. If the load balancer is internet-facing,
    /// also include a rule with `natGatewaysIPsSource` for the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ingress_rules: Vec<IngressRule>,

    /// Accepted for compatibility: the provider never rewrites the hosts file of control plane nodes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hosts_rewrite: bool,

    /// Whether API servers see the address of the client instead of the address of the load balancer. With `true` the
    /// security group of the nodes must admit the clients, and a node cannot reach itself through an `nlb`. Default:
    /// false.
    #[serde(rename = "preserveClientIP", default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_client_ip: bool,

    /// Address family with which the load balancer connects to API servers: `ipv4`, or `ipv6`, which needs `vpc.ipv6`.
    /// Not for `classic`. Default: the address family of the subnets of the control plane. Immutable.
    #[serde(rename = "targetGroupIPType", default, skip_serializing_if = "Option::is_none")]
    pub target_group_ip_type: Option<TargetGroupIpType>,

    /// Check of the load balancer's DNS name. `Enabled`: the cluster waits until the manager can resolve the DNS name.
    /// `None`: the cluster does not wait; use this value if the manager has no resolver for AWS's DNS names. No cluster
    /// waits for its secondary load balancer. Default: `Enabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_resolution_check: Option<DnsResolutionCheck>,
}

impl LoadBalancerSpec {
    /// Effective protocol of the health check of API servers.
    pub fn effective_health_check_protocol(&self) -> HealthCheckProtocol {
        self.health_check_protocol.unwrap_or_default()
    }

    /// Whether the DNS name must resolve before the provisioning of the cluster continues.
    pub fn effective_dns_resolution_check(&self) -> DnsResolutionCheck {
        self.dns_resolution_check.unwrap_or_default()
    }

    /// Effective timing of the health check of API servers.
    pub fn effective_health_check_timing(&self) -> HealthCheckTiming {
        let given = self.health_check.clone().unwrap_or_default();
        HealthCheckTiming::with_defaults(
            given.interval_seconds,
            given.timeout_seconds,
            given.threshold_count,
            given.unhealthy_threshold_count,
        )
    }
}

/// Timing of a health check, after defaulting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheckTiming {
    /// Seconds between two checks of one target.
    pub interval_seconds: i64,
    /// Seconds after which a check without an answer counts as failed.
    pub timeout_seconds: i64,
    /// Consecutive successful checks after which a target is healthy.
    pub threshold_count: i64,
    /// Consecutive failed checks after which a target is unhealthy.
    pub unhealthy_threshold_count: i64,
}

impl HealthCheckTiming {
    fn with_defaults(
        interval: Option<i64>,
        timeout: Option<i64>,
        threshold: Option<i64>,
        unhealthy_threshold: Option<i64>,
    ) -> Self {
        Self {
            interval_seconds: interval.unwrap_or(5),
            timeout_seconds: timeout.unwrap_or(4),
            threshold_count: threshold.unwrap_or(2),
            unhealthy_threshold_count: unhealthy_threshold.unwrap_or(6),
        }
    }
}

impl fmt::Display for HealthCheckTiming {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interval_seconds, timeout_seconds, threshold_count, unhealthy_threshold_count } = self;
        write!(
            formatter,
            "every {interval_seconds} s with {timeout_seconds} s for an answer, healthy after {threshold_count} and \
             unhealthy after {unhealthy_threshold_count}"
        )
    }
}

/// Timing of the health check of the API servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Seconds between two checks of one API server, 5 to 300. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    pub interval_seconds: Option<i64>,

    /// Seconds after which the check of an API server without an answer counts as failed, 2 to 120 (with `classic` 60)
    /// and less than the interval. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 120))]
    pub timeout_seconds: Option<i64>,

    /// Consecutive successful checks after which an API server gets connections, 2 to 10. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub threshold_count: Option<i64>,

    /// Consecutive failed checks after which an API server gets no more connections, 2 to 10. Default: 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold_count: Option<i64>,
}

/// An additional port of the load balancer, which forwards to the same port of the control plane nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Port of the load balancer and of the nodes behind it, 1 to 65535, unique within the list. The port must differ
    /// from the API port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i64,

    /// Protocol of the listener; `TCP` is the only value. Default: `TCP`.
    #[serde(default)]
    pub protocol: ListenerProtocol,

    /// Health check of this listener's targets. Default: a TCP connection to the listener's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<ListenerHealthCheck>,

    /// Address family with which the load balancer connects to this listener's targets. Default: the address family of
    /// the target group of the API.
    #[serde(rename = "targetGroupIPType", default, skip_serializing_if = "Option::is_none")]
    pub target_group_ip_type: Option<TargetGroupIpType>,
}

impl Listener {
    /// Effective protocol of the health check of this listener's targets.
    pub fn effective_health_check_protocol(&self) -> ListenerHealthCheckProtocol {
        self.health_check.as_ref().and_then(|check| check.protocol).unwrap_or_default()
    }

    /// Port of the health check, or `traffic-port` if the spec has that value.
    pub fn effective_health_check_port(&self) -> String {
        self.health_check
            .as_ref()
            .and_then(|check| check.port.clone())
            .filter(|port| !port.is_empty())
            .unwrap_or_else(|| self.port.to_string())
    }

    /// Effective timing of the health check of this listener's targets.
    pub fn effective_health_check_timing(&self) -> HealthCheckTiming {
        let given = self.health_check.clone().unwrap_or_default();
        HealthCheckTiming::with_defaults(
            given.interval_seconds,
            given.timeout_seconds,
            given.threshold_count,
            given.unhealthy_threshold_count,
        )
    }
}

/// Health check of the targets of an additional listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerHealthCheck {
    /// Protocol of the health check. `TCP` opens a connection; `HTTP` and `HTTPS` request `path` and expect a status of
    /// 2xx or 3xx. Default: `TCP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ListenerHealthCheckProtocol>,

    /// Port to check, as a string, e.g. `"10256"`, or `traffic-port` for the port of the target. Default: the
    /// listener's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,

    /// Path that `HTTP` and `HTTPS` checks request, e.g. `/healthz`. Default: `/`, AWS's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,

    /// Seconds between two checks of a listener's target, 5 to 300. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    pub interval_seconds: Option<i64>,

    /// Seconds after which the check of a listener's target without an answer counts as failed, 2 to 120. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 120))]
    pub timeout_seconds: Option<i64>,

    /// Consecutive successful checks after which a listener's target gets connections, 2 to 10. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub threshold_count: Option<i64>,

    /// Consecutive failed checks after which a listener's target gets no more connections, 2 to 10. Default: 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold_count: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT_TIMING: HealthCheckTiming =
        HealthCheckTiming { interval_seconds: 5, timeout_seconds: 4, threshold_count: 2, unhealthy_threshold_count: 6 };

    fn load_balancer(yaml: &str) -> LoadBalancerSpec {
        serde_saphyr::from_str(yaml).expect("a load balancer")
    }

    fn listener(yaml: &str) -> Listener {
        serde_saphyr::from_str(yaml).expect("a listener")
    }

    #[test]
    fn an_empty_load_balancer_has_the_defaults_of_the_schema() {
        let empty = load_balancer("{}");
        assert_eq!(empty.load_balancer_type, LoadBalancerType::Classic);
        assert_eq!(empty.scheme, LoadBalancerScheme::InternetFacing);
        assert_eq!(empty.effective_health_check_protocol(), HealthCheckProtocol::Tcp);
        assert_eq!(empty.effective_dns_resolution_check(), DnsResolutionCheck::Enabled);
        assert_eq!(empty.effective_health_check_timing(), DEFAULT_TIMING);
    }

    #[test]
    fn written_values_win_over_the_defaults() {
        let given = load_balancer(
            "{loadBalancerType: nlb, scheme: internal, healthCheckProtocol: HTTPS, dnsResolutionCheck: None, \
             healthCheck: {intervalSeconds: 10, unhealthyThresholdCount: 3}}",
        );
        assert_eq!(given.load_balancer_type, LoadBalancerType::Nlb);
        assert_eq!(given.scheme, LoadBalancerScheme::Internal);
        assert_eq!(given.effective_health_check_protocol(), HealthCheckProtocol::Https);
        assert_eq!(given.effective_dns_resolution_check(), DnsResolutionCheck::None);
        let timing = HealthCheckTiming { interval_seconds: 10, unhealthy_threshold_count: 3, ..DEFAULT_TIMING };
        assert_eq!(given.effective_health_check_timing(), timing);
    }

    #[test]
    fn a_listener_is_checked_by_tcp_on_its_port_by_default() {
        let cases = [
            ("{port: 8132}", ListenerHealthCheckProtocol::Tcp, "8132"),
            ("{port: 8132, healthCheck: {port: ''}}", ListenerHealthCheckProtocol::Tcp, "8132"),
            ("{port: 8132, healthCheck: {protocol: HTTPS, port: '8443'}}", ListenerHealthCheckProtocol::Https, "8443"),
        ];
        for (yaml, protocol, port) in cases {
            let listener = listener(yaml);
            assert_eq!(listener.effective_health_check_protocol(), protocol, "{yaml}");
            assert_eq!(listener.effective_health_check_port(), port, "{yaml}");
            assert_eq!(listener.effective_health_check_timing(), DEFAULT_TIMING, "{yaml}");
        }
    }
}
