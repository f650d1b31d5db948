//! Listeners of load balancers of the second generation, and the calls that change those of managed clusters.

use capa_api::common::Tags;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use super::protocol::Protocol;
use crate::resource::Effect;

/// A listener of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// ARN, which is the id of the listener.
    pub arn: String,
    /// ARN of the load balancer.
    pub load_balancer_arn: String,
    /// Protocol of the clients.
    pub protocol: Protocol,
    /// The port, which is unique among the listeners of the load balancer.
    pub port: i32,
    /// ARNs of the target groups to which all connections are forwarded.
    pub target_group_arns: Vec<String>,
    /// Tags.
    pub tags: Tags,
}

impl Listener {
    /// ARNs of the target groups of the API server, which a load balancer with these listeners serves on `port`. A
    /// single listener serves the API server on any port.
    pub fn target_groups_on(port: i32, listeners: &[Self]) -> &[String] {
        let of_port = listeners.iter().find(|listener| listener.port == port);
        let only = || listeners.first().filter(|_| listeners.len() == 1);
        of_port.or_else(only).map(|listener| listener.target_group_arns.as_slice()).unwrap_or_default()
    }
}

/// A call about a listener; each variant is an action of Elastic Load Balancing.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateListener { load_balancer: I, group: I, port: i32, tags: Tags },
    ModifyListener { listener: I, group: I },
    DeleteListener { listener: I },
}

impl<I> Call<I> {
    /// A listener counts as a part of its load balancer: AWS has one listener for each port, and deletes all listeners
    /// with the load balancer.
    pub(super) fn effect(&self) -> Effect {
        match self {
            Self::CreateListener { .. } | Self::ModifyListener { .. } => Effect::Change,
            Self::DeleteListener { .. } => Effect::Delete,
        }
    }

    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateListener { load_balancer, group, port, tags } => Call::CreateListener {
                load_balancer: id(load_balancer)?,
                group: id(group)?,
                port: *port,
                tags: tags.clone(),
            },
            Self::ModifyListener { listener, group } => {
                Call::ModifyListener { listener: id(listener)?, group: id(group)? }
            }
            Self::DeleteListener { listener } => Call::DeleteListener { listener: id(listener)? },
        })
    }
}
