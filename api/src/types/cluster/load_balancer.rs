//! `spec.controlPlaneLoadBalancer` and `spec.secondaryControlPlaneLoadBalancer`: the load balancers of the Kubernetes
//! API in a managed cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::security_group::IngressRule;

/// Kind of load balancer in front of the Kubernetes API.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerType {
    /// Classic Load Balancer, the first generation.
    #[default]
    Classic,
    /// Gateway Load Balancer; known for compatibility.
    Elb,
    /// Application Load Balancer.
    Alb,
    /// Network Load Balancer.
    Nlb,
    /// None: the endpoint is provided from outside.
    Disabled,
}

/// Who reaches a load balancer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadBalancerScheme {
    /// Everybody: it has public addresses.
    #[default]
    InternetFacing,
    /// Only the VPC and what is connected to it.
    Internal,
}

/// How a load balancer asks the API server whether it is healthy.
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
    /// A TLS handshake; known for compatibility.
    Tls,
    /// Known for compatibility.
    Udp,
}

/// How a load balancer asks the targets of an additional listener whether they are healthy.
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
    /// Connections are passed on unread.
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

/// Whether a load balancer's DNS name must resolve before the cluster goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DnsResolutionCheck {
    /// It need not.
    None,
    /// It must, from where the manager runs.
    #[default]
    Enabled,
}

/// A load balancer in front of the Kubernetes API. In unmanaged mode only `name` and `loadBalancerType` count: control
/// plane instances are registered in the target groups behind the API's port of the load balancer of that name, or in
/// the classic one. Without a name the block means nothing there; targets in `controlPlaneTargets` count more.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerSpec {
    /// Kind of load balancer: `nlb` (recommended: passes TLS through, keeps client addresses), `alb`, `classic` (first
    /// generation), `elb` (a Gateway Load Balancer, for compatibility only) or `disabled`, where you provide
    /// `controlPlaneEndpoint`. Default: `classic`. Choose at creation: a cluster does not go to or from `disabled`.
    #[serde(default)]
    pub load_balancer_type: LoadBalancerType,

    /// Name of the load balancer, unique in account and region: up to 32 letters, digits and inner hyphens. The name of
    /// an existing one without the cluster's ownership tag makes that one be used as it is. Default:
    /// `<namespace>-<cluster>-apiserver`, for `classic` `<cluster>-apiserver`, hashed where that is too long.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 32),
        regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9]{0,31}|[-A-Za-z0-9]{0,30}[A-Za-z0-9])$")
    )]
    pub name: Option<String>,

    /// `internet-facing`: public addresses, in public subnets. `internal`: reachable from the VPC and networks
    /// connected to it, in private subnets. Default: `internet-facing`. Immutable.
    #[serde(default)]
    pub scheme: LoadBalancerScheme,

    /// Spread connections over the API servers of all zones, instead of those in the zone where a connection came in.
    /// Evens out load and survives the loss of a zone's only API server; traffic between zones is charged. Default:
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cross_zone_load_balancing: bool,

    /// Subnets to put the load balancer in, by AWS id, one a zone, at most 16, e.g. `subnet-0a1b2c3d`. Default: one of
    /// the cluster's per zone, public ones for an internet-facing load balancer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub subnets: Vec<String>,

    /// How API servers are checked: `TCP` opens a connection, `HTTPS` (recommended) and `HTTP` ask `/readyz`, `SSL`
    /// makes a TLS handshake (`classic` only). With a plain connection an API server that answers nothing counts as
    /// healthy. Default: `TCP` (`effective_health_check_protocol`). Can be changed later for `classic` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check_protocol: Option<HealthCheckProtocol>,

    /// Timing of the API servers' health check; read when the target group is created. Not for `classic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheck>,

    /// Security groups to put on the load balancer besides its own, by id, at most 16, e.g. `sg-0a1b2c3d`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub additional_security_groups: Vec<String>,

    /// Further ports of the load balancer that lead to the control plane nodes, at most 50, e.g. 22623 or 8132 for
    /// konnectivity. Not for `classic`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["port"])
    )]
    pub additional_listeners: Vec<Listener>,

    /// Who reaches the load balancer. The rules replace the one that admits every address to the API port: give the
    /// ranges of your users, of the management cluster and, for an internet-facing load balancer,
    /// `natGatewaysIPsSource` for the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub ingress_rules: Vec<IngressRule>,

    /// Known for compatibility and without effect: nothing rewrites the hosts file of control planes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disable_hosts_rewrite: bool,

    /// Let API servers see the address of the client instead of the load balancer's. Clients must then be admitted by
    /// the nodes' security group, and a node cannot reach itself through an `nlb`. Read when the target group is
    /// created. Default: false.
    #[serde(rename = "preserveClientIP", default, skip_serializing_if = "std::ops::Not::not")]
    pub preserve_client_ip: bool,

    /// Address family by which API servers are reached: `ipv4`, or `ipv6`, which needs `vpc.ipv6`. Not for `classic`.
    /// Default: by the subnets of the control planes. Immutable.
    #[serde(rename = "targetGroupIPType", default, skip_serializing_if = "Option::is_none")]
    pub target_group_ip_type: Option<TargetGroupIpType>,

    /// `Enabled`: the cluster waits until the manager can resolve the load balancer's DNS name. `None`: it does not,
    /// for managers without a resolver that knows AWS's names. Default: `Enabled` (`effective_dns_resolution_check`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_resolution_check: Option<DnsResolutionCheck>,
}

impl LoadBalancerSpec {
    /// How API servers are checked.
    pub fn effective_health_check_protocol(&self) -> HealthCheckProtocol {
        self.health_check_protocol.unwrap_or_default()
    }

    /// Whether the DNS name must resolve before the cluster goes on.
    pub fn effective_dns_resolution_check(&self) -> DnsResolutionCheck {
        self.dns_resolution_check.unwrap_or_default()
    }

    /// Timing of the API servers' health check.
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

/// Timing of a health check with every value decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCheckTiming {
    /// Seconds between two checks of one target.
    pub interval_seconds: i64,
    /// Seconds until a check without an answer has failed.
    pub timeout_seconds: i64,
    /// Successes in a row that make a target healthy.
    pub threshold_count: i64,
    /// Failures in a row that make a target unhealthy.
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

/// Timing of the health check of the API servers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// Seconds between two checks of one API server, 5 to 300. Default: 5 (`effective_health_check_timing`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    pub interval_seconds: Option<i64>,

    /// Seconds after which an API server that has not answered has failed the check, 2 to 120 and less than the
    /// interval. Default: 4 (`effective_health_check_timing`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 120))]
    pub timeout_seconds: Option<i64>,

    /// Successes in a row after which an API server gets connections, 2 to 10. Default: 2
    /// (`effective_health_check_timing`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub threshold_count: Option<i64>,

    /// Failures in a row after which an API server gets no more connections, 2 to 10. Default: 6
    /// (`effective_health_check_timing`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold_count: Option<i64>,
}

/// A further port of the load balancer that leads to the same port of the control plane nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Port of the load balancer and of the nodes behind it, 1 to 65535, unique within the list; not the API port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i64,

    /// Protocol of the listener; there is only `TCP`. Default: `TCP`.
    #[serde(default)]
    pub protocol: ListenerProtocol,

    /// Health check of this listener's targets. Default: a TCP connection to the listener's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_check: Option<ListenerHealthCheck>,

    /// Address family by which this listener's targets are reached. Default: that of the API's target group.
    #[serde(rename = "targetGroupIPType", default, skip_serializing_if = "Option::is_none")]
    pub target_group_ip_type: Option<TargetGroupIpType>,
}

impl Listener {
    /// How this listener's targets are checked.
    pub fn effective_health_check_protocol(&self) -> ListenerHealthCheckProtocol {
        self.health_check
            .as_ref()
            .and_then(|check| check.protocol)
            .unwrap_or_default()
    }

    /// Port that is checked, or `traffic-port` as the user may have written it.
    pub fn effective_health_check_port(&self) -> String {
        self.health_check
            .as_ref()
            .and_then(|check| check.port.clone())
            .filter(|port| !port.is_empty())
            .unwrap_or_else(|| self.port.to_string())
    }

    /// Timing of the health check of this listener's targets.
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
    /// `TCP` opens a connection, `HTTP` and `HTTPS` ask for `path` and want a 2xx or 3xx. Default: `TCP`
    /// (`effective_health_check_protocol`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ListenerHealthCheckProtocol>,

    /// Port to check, as a string, e.g. `"10256"`, or `traffic-port` for the port of the target. Default: the
    /// listener's port (`effective_health_check_port`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,

    /// Path that `HTTP` and `HTTPS` checks ask for, e.g. `/healthz`. Default: `/`, as AWS has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,

    /// Seconds from one check of a listener's target to the next, 5 to 300. Default: 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 300))]
    pub interval_seconds: Option<i64>,

    /// Seconds a listener's target has for its answer, 2 to 120. Default: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 120))]
    pub timeout_seconds: Option<i64>,

    /// Successes in a row that take a listener's target in, 2 to 10. Default: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub threshold_count: Option<i64>,

    /// Failures in a row that leave a listener's target out, 2 to 10. Default: 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10))]
    pub unhealthy_threshold_count: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT_TIMING: HealthCheckTiming = HealthCheckTiming {
        interval_seconds: 5,
        timeout_seconds: 4,
        threshold_count: 2,
        unhealthy_threshold_count: 6,
    };

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
        let timing = HealthCheckTiming {
            interval_seconds: 10,
            unhealthy_threshold_count: 3,
            ..DEFAULT_TIMING
        };
        assert_eq!(given.effective_health_check_timing(), timing);
    }

    #[test]
    fn a_listener_is_checked_by_tcp_on_its_port_by_default() {
        let cases = [
            ("{port: 8132}", ListenerHealthCheckProtocol::Tcp, "8132"),
            (
                "{port: 8132, healthCheck: {port: ''}}",
                ListenerHealthCheckProtocol::Tcp,
                "8132",
            ),
            (
                "{port: 8132, healthCheck: {protocol: HTTPS, port: '8443'}}",
                ListenerHealthCheckProtocol::Https,
                "8443",
            ),
        ];
        for (yaml, protocol, port) in cases {
            let listener = listener(yaml);
            assert_eq!(listener.effective_health_check_protocol(), protocol, "{yaml}");
            assert_eq!(listener.effective_health_check_port(), port, "{yaml}");
            assert_eq!(listener.effective_health_check_timing(), DEFAULT_TIMING, "{yaml}");
        }
    }
}
