//! Classic Load Balancers of managed clusters, the first generation of Elastic Load Balancing.

use std::collections::BTreeSet;
use std::fmt;

use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use super::protocol::Protocol;
use crate::resource::{Effect, Seen};

/// A Classic Load Balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicLoadBalancer {
    /// Name, which is unique in the region of the account, and is the id of the load balancer.
    pub name: String,
    /// The VPC of the load balancer.
    pub vpc_id: String,
    /// DNS name.
    pub dns_name: String,
    /// Networks from which the load balancer can be reached.
    pub scheme: LoadBalancerScheme,
    /// Ids of the subnets, one in each zone.
    pub subnet_ids: Vec<String>,
    /// Names of the zones of the subnets.
    pub zones: Vec<String>,
    /// Ids of the security groups.
    pub security_group_ids: Vec<String>,
    /// The listeners.
    pub listeners: Vec<ClassicListener>,
    /// Health check of the instances.
    pub health_check: ClassicHealthCheck,
    /// Attributes; only for the cluster's load balancers.
    pub attributes: Seen<ClassicAttributes>,
    /// Tags; only for load balancers in the VPC.
    pub tags: Tags,
}

/// A port of a Classic Load Balancer, with the port of the instances that it forwards to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicListener {
    /// The port, which is unique among the listeners of the load balancer.
    pub port: i32,
    /// The protocol of clients.
    pub protocol: Protocol,
    /// The port of the instances.
    pub instance_port: i32,
    /// The protocol to the instances.
    pub instance_protocol: Protocol,
}

/// The health check of the instances of a Classic Load Balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicHealthCheck {
    /// Protocol, port and path in AWS's form: `TCP:6443` or `HTTPS:6443/readyz`.
    pub target: String,
    /// Timing of the health check.
    pub timing: HealthCheckTiming,
}

/// The attributes of a Classic Load Balancer that the provider sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassicAttributes {
    /// Whether connections are spread over the instances of all zones.
    pub is_cross_zone: bool,
    /// Seconds after which a connection without traffic ends.
    pub idle_timeout_seconds: i32,
}

impl fmt::Display for ClassicListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, protocol, instance_port, instance_protocol } = self;
        write!(formatter, "{protocol} {port} to {instance_protocol} {instance_port}")
    }
}

impl fmt::Display for ClassicHealthCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.target, self.timing)
    }
}

impl fmt::Display for ClassicAttributes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zones = if self.is_cross_zone { "on" } else { "off" };
        let seconds = self.idle_timeout_seconds;
        write!(formatter, "cross-zone {zones}, idle timeout {seconds} s")
    }
}

/// A call about a Classic Load Balancer; each variant is an action of Elastic Load Balancing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateLoadBalancer {
        name: String,
        scheme: LoadBalancerScheme,
        subnets: Vec<I>,
        security_groups: Vec<I>,
        listener: ClassicListener,
        tags: Tags,
    },
    CreateLoadBalancerListeners {
        load_balancer: I,
        listener: ClassicListener,
    },
    ConfigureHealthCheck {
        load_balancer: I,
        health_check: ClassicHealthCheck,
    },
    ModifyLoadBalancerAttributes {
        load_balancer: I,
        attributes: ClassicAttributes,
    },
    AttachLoadBalancerToSubnets {
        load_balancer: I,
        subnets: Vec<I>,
    },
    ApplySecurityGroupsToLoadBalancer {
        load_balancer: I,
        security_groups: Vec<I>,
    },
    AddTags {
        load_balancer: I,
        tags: Tags,
    },
    RemoveTags {
        load_balancer: I,
        keys: BTreeSet<String>,
    },
    DeleteLoadBalancer {
        load_balancer: I,
    },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateLoadBalancer { .. } => Effect::Create,
            Self::CreateLoadBalancerListeners { .. }
            | Self::ConfigureHealthCheck { .. }
            | Self::ModifyLoadBalancerAttributes { .. }
            | Self::AttachLoadBalancerToSubnets { .. }
            | Self::ApplySecurityGroupsToLoadBalancer { .. }
            | Self::AddTags { .. }
            | Self::RemoveTags { .. } => Effect::Change,
            Self::DeleteLoadBalancer { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        let mut all = |ids: &[I]| ids.iter().map(&mut *id).collect::<Result<Vec<J>, E>>();
        Ok(match self {
            Self::CreateLoadBalancer { name, scheme, subnets, security_groups, listener, tags } => {
                Call::CreateLoadBalancer {
                    name: name.clone(),
                    scheme: *scheme,
                    subnets: all(subnets)?,
                    security_groups: all(security_groups)?,
                    listener: listener.clone(),
                    tags: tags.clone(),
                }
            }
            Self::CreateLoadBalancerListeners { load_balancer, listener } => {
                Call::CreateLoadBalancerListeners { load_balancer: id(load_balancer)?, listener: listener.clone() }
            }
            Self::ConfigureHealthCheck { load_balancer, health_check } => {
                Call::ConfigureHealthCheck { load_balancer: id(load_balancer)?, health_check: health_check.clone() }
            }
            Self::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                Call::ModifyLoadBalancerAttributes { load_balancer: id(load_balancer)?, attributes: *attributes }
            }
            Self::AttachLoadBalancerToSubnets { load_balancer, subnets } => {
                Call::AttachLoadBalancerToSubnets { subnets: all(subnets)?, load_balancer: id(load_balancer)? }
            }
            Self::ApplySecurityGroupsToLoadBalancer { load_balancer, security_groups } => {
                Call::ApplySecurityGroupsToLoadBalancer {
                    security_groups: all(security_groups)?,
                    load_balancer: id(load_balancer)?,
                }
            }
            Self::AddTags { load_balancer, tags } => {
                Call::AddTags { load_balancer: id(load_balancer)?, tags: tags.clone() }
            }
            Self::RemoveTags { load_balancer, keys } => {
                Call::RemoveTags { load_balancer: id(load_balancer)?, keys: keys.clone() }
            }
            Self::DeleteLoadBalancer { load_balancer } => {
                Call::DeleteLoadBalancer { load_balancer: id(load_balancer)? }
            }
        })
    }
}
