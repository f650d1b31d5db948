//! Load balancers of the second generation: those that users name, and the network load balancers of managed clusters.

use std::collections::BTreeMap;

use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::resource::{Effect, Seen};

/// A load balancer of the second generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    /// ARN, which is the id of the load balancer.
    pub arn: String,
    /// Name, which is unique in the region of the account.
    pub name: String,
    /// Type of the load balancer.
    pub kind: LoadBalancerKind,
    /// The VPC of the load balancer.
    pub vpc_id: String,
    /// DNS name; empty while AWS shows none.
    pub dns_name: String,
    /// Networks from which the load balancer can be reached.
    pub scheme: LoadBalancerScheme,
    /// State of the load balancer.
    pub state: LoadBalancerState,
    /// Families of the addresses.
    pub ip_address_type: IpAddressType,
    /// The subnet in each zone, by the name of the zone.
    pub subnets: BTreeMap<String, String>,
    /// Ids of the security groups. A load balancer that is created without security groups can never get one.
    pub security_group_ids: Vec<String>,
    /// Attributes by AWS's names, for example `load_balancing.cross_zone.enabled`; only for load balancers that a
    /// cluster owns.
    pub attributes: Seen<BTreeMap<String, String>>,
    /// Tags; only for load balancers in the VPC of a managed cluster.
    pub tags: Tags,
}

impl LoadBalancer {
    /// Whether the load balancer has public addresses.
    pub fn is_public(&self) -> bool {
        self.scheme == LoadBalancerScheme::InternetFacing
    }
}

/// The type of a load balancer of the second generation, in AWS's words.
#[derive(Clone, Debug, Default, Display, EnumString, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum LoadBalancerKind {
    /// Network Load Balancer.
    #[default]
    Network,
    /// Application Load Balancer.
    Application,
    /// Another type, for example `gateway`.
    #[serde(untagged)]
    #[strum(default)]
    Other(String),
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

/// The state of a load balancer, in AWS's words.
#[derive(Clone, Debug, Default, Display, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LoadBalancerState {
    /// AWS is creating the load balancer.
    #[default]
    Provisioning,
    /// The load balancer works.
    Active,
    /// The load balancer works, and AWS lacks addresses in its subnets to scale it.
    ActiveImpaired,
    /// AWS could not create the load balancer, for this reason.
    Failed(String),
}

impl LoadBalancerState {
    /// Whether the load balancer takes connections.
    pub fn works(&self) -> bool {
        matches!(self, Self::Active | Self::ActiveImpaired)
    }
}

/// A call about a load balancer; each variant is an action of Elastic Load Balancing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateLoadBalancer {
        name: String,
        scheme: LoadBalancerScheme,
        subnets: Vec<I>,
        /// The Elastic IP in each subnet. Empty: addresses of Amazon.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<I>,
        security_groups: Vec<I>,
        tags: Tags,
    },
    ModifyLoadBalancerAttributes {
        load_balancer: I,
        attributes: BTreeMap<&'static str, String>,
    },
    SetSubnets {
        load_balancer: I,
        subnets: Vec<I>,
    },
    SetSecurityGroups {
        load_balancer: I,
        security_groups: Vec<I>,
    },
    DeleteLoadBalancer {
        load_balancer: I,
    },
}

impl<I> Call<I> {
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateLoadBalancer { .. } => Effect::Create,
            Self::ModifyLoadBalancerAttributes { .. } | Self::SetSubnets { .. } | Self::SetSecurityGroups { .. } => {
                Effect::Change
            }
            Self::DeleteLoadBalancer { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        let mut all = |ids: &[I]| ids.iter().map(&mut *id).collect::<Result<Vec<J>, E>>();
        Ok(match self {
            Self::CreateLoadBalancer { name, scheme, subnets, addresses, security_groups, tags } => {
                Call::CreateLoadBalancer {
                    name: name.clone(),
                    scheme: *scheme,
                    subnets: all(subnets)?,
                    addresses: all(addresses)?,
                    security_groups: all(security_groups)?,
                    tags: tags.clone(),
                }
            }
            Self::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                Call::ModifyLoadBalancerAttributes { load_balancer: id(load_balancer)?, attributes: attributes.clone() }
            }
            Self::SetSubnets { load_balancer, subnets } => {
                Call::SetSubnets { subnets: all(subnets)?, load_balancer: id(load_balancer)? }
            }
            Self::SetSecurityGroups { load_balancer, security_groups } => {
                Call::SetSecurityGroups { security_groups: all(security_groups)?, load_balancer: id(load_balancer)? }
            }
            Self::DeleteLoadBalancer { load_balancer } => {
                Call::DeleteLoadBalancer { load_balancer: id(load_balancer)? }
            }
        })
    }
}
