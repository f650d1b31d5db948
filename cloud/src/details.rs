//! The details of the resources of a managed cluster that AWS does not show in its lists, so that an observation reads
//! them by separate calls.

use std::collections::BTreeMap;

use capa_api::common::Tags;

use crate::ec2::{self, InternetGateway, VpcDns};
use crate::resource::Seen;
use crate::{ElasticIp, elb};

/// The details that an earlier look has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The DNS attributes of the VPC.
    pub dns: Seen<VpcDns>,
    /// The Elastic IPs of the cluster.
    pub addresses: Seen<Vec<ElasticIp>>,
    /// The internet gateways of the cluster that are attached to no VPC.
    pub unattached_gateways: Vec<InternetGateway>,
    /// The tags of load balancers of the second generation, of target groups and of listeners, by ARN.
    pub tags: BTreeMap<String, Tags>,
    /// The attributes of load balancers of the second generation and of target groups, by ARN.
    pub attributes: BTreeMap<String, BTreeMap<String, String>>,
}

impl Details {
    /// The details that an observation shows.
    pub(crate) fn of(ec2: &ec2::Observed, elb: &elb::Observed) -> Self {
        let (balancers, groups) = (elb.load_balancers.shown(), elb.target_groups.shown());
        let (balancers, groups) = (balancers.into_iter().flatten(), groups.into_iter().flatten());
        let parts = balancers
            .map(|balancer| (&balancer.arn, &balancer.tags, &balancer.attributes))
            .chain(groups.map(|group| (&group.arn, &group.tags, &group.attributes)));
        let listeners = elb.listeners.shown().into_iter().flatten();
        let listeners = listeners.map(|listener| (listener.arn.clone(), listener.tags.clone()));
        let tags = parts.clone().map(|(arn, tags, _)| (arn.clone(), tags.clone()));
        // A look neither reads nor shows the tags of resources that the cluster does not own.
        let tags = tags.chain(listeners).filter(|(_, tags)| !tags.is_empty());
        let gateways = ec2.internet_gateways.shown().into_iter().flatten();
        let unattached = gateways.filter(|gateway| gateway.vpc_id.is_none());
        let attributes = parts.filter_map(|(arn, _, attributes)| Some((arn.clone(), attributes.shown()?.clone())));
        Self {
            dns: ec2.dns.clone(),
            addresses: ec2.addresses.clone(),
            unattached_gateways: unattached.cloned().collect(),
            tags: tags.collect(),
            attributes: attributes.collect(),
        }
    }
}
