//! Facts about load balancers and target groups.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::{Listener, LoadBalancerKind, LoadBalancerState, Protocol, TargetType};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};

use super::Answer;

/// A target group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroup {
    /// ARN.
    pub arn: String,
    /// The protocol to the targets.
    pub protocol: Protocol,
    /// Port of the targets.
    pub port: i32,
    /// VPC of the targets.
    pub vpc_id: String,
    /// Type of the targets.
    pub target_type: TargetType,
    /// Health check.
    pub health_check: HealthCheck,
    /// Load balancers that forward to the target group.
    pub load_balancer_arns: Vec<String>,
    /// Attributes, for example `preserve_client_ip.enabled`.
    pub attributes: Answer<BTreeMap<String, String>>,
}

/// Health check of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthCheck {
    /// `TCP`, `HTTP` or `HTTPS`.
    pub protocol: Protocol,
    /// Port, or `traffic-port`.
    pub port: String,
    /// Path of an HTTP check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Seconds between two checks.
    pub interval_seconds: i32,
    /// Checks in a row that make a target healthy.
    pub healthy_threshold: i32,
    /// Checks in a row that make a target unhealthy.
    pub unhealthy_threshold: i32,
}

/// The families of the addresses of a load balancer, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IpAddressType {
    /// IPv4 only.
    #[default]
    Ipv4,
    /// IPv4 and IPv6.
    Dualstack,
    /// Another type, for example `dualstack-without-public-ipv4`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
}

/// A load balancer of the second generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// ARN.
    pub arn: String,
    /// Name.
    pub name: String,
    /// DNS name.
    pub dns_name: String,
    /// Type of the load balancer.
    pub balancer_type: LoadBalancerKind,
    /// Networks from which the load balancer can be reached.
    pub scheme: LoadBalancerScheme,
    /// State of the load balancer.
    pub state: LoadBalancerState,
    /// VPC.
    pub vpc_id: String,
    /// Families of the addresses.
    pub ip_address_type: IpAddressType,
    /// Zones, with the subnet of each.
    pub zones: BTreeMap<String, String>,
    /// Security groups; empty if the load balancer has none.
    pub security_group_ids: Vec<String>,
    /// Attributes, for example `load_balancing.cross_zone.enabled`.
    pub attributes: Answer<BTreeMap<String, String>>,
    /// Listeners.
    pub listeners: Answer<Vec<Listener>>,
}

impl LoadBalancer {
    /// Whether the load balancer has public addresses.
    pub(crate) fn is_public(&self) -> bool {
        self.scheme == LoadBalancerScheme::InternetFacing
    }
}
