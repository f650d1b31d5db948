//! All reads of an unmanaged AWSCluster: its identity, and what AWS knows of its network.

use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::conditions::{ConditionType, find};
use capa_api::contract::Cluster;
use capa_api::meta::{PREFLIGHT_REQUESTED_ANNOTATION, annotation};
use capa_cloud::{CloudError, ClusterCloud, ErrorClass, Query};

use super::ClusterContext;
use super::facts::{Facts, FoundNetwork, IdentityFailure, LoadBalancerLookup, NetworkLookup};
use super::load_balancer::{self, NamedLoadBalancer};
use super::lookup_cache::LookupKey;
use super::resolve;
use crate::identity::{self, IdentityError, IdentityRequest};
use crate::kubernetes_api::KubernetesError;

/// Reads the facts that the status is made from. An incomplete lookup is repeated with increasing intervals.
pub(super) async fn read_facts(
    cluster: &AWSCluster,
    owner: &Cluster,
    context: &ClusterContext,
) -> Result<Facts, KubernetesError> {
    let reference = cluster.spec.effective_identity_ref();
    let request = IdentityRequest {
        reference: &reference,
        namespace: cluster.metadata.namespace.as_deref().unwrap_or_default(),
        cluster_name: owner.metadata.name.as_deref().unwrap_or_default(),
        identity_namespace: &context.identity_namespace,
    };
    let region = match cluster.spec.effective_preflight_mode() {
        PreflightMode::Report | PreflightMode::Require => cluster.spec.region(),
        PreflightMode::Disabled => None,
    };
    let identity = match identity::resolve(context.kubernetes.as_ref(), &request).await {
        Ok(identity) => identity,
        Err(IdentityError::Unread(error)) => return Err(error),
        Err(IdentityError::Unusable(problem)) => {
            let lookup = match region {
                Some(_) => recorded_lookup(cluster).unwrap_or(NetworkLookup::NoIdentity),
                None => NetworkLookup::Disabled,
            };
            return Ok(Facts {
                identity: Err(IdentityFailure::Objects(problem)),
                lookup,
            });
        }
    };
    let Some(region) = region else {
        return Ok(Facts {
            identity: Ok(()),
            lookup: NetworkLookup::Disabled,
        });
    };
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let key = LookupKey {
        generation: cluster.metadata.generation,
        requested: annotation(&cluster.metadata, PREFLIGHT_REQUESTED_ANNOTATION).map(str::to_owned),
        identity: identity.key.clone(),
    };
    let now = context.kubernetes.uptime();
    if let Some(facts) = context.lookups.get(uid, &key, now, &context.timing) {
        return Ok(facts);
    }
    let cloud = context.clouds.cluster(&identity, region);
    let facts = ask_aws(cluster, cloud.as_ref()).await;
    match (&facts.identity, &facts.lookup) {
        (Ok(()), NetworkLookup::Recorded(..)) => context.lookups.remove(uid),
        // Our own rate limits deferred the call: there is no answer to store.
        (_, lookup) if lookup.rate_limited_for().is_some() => {}
        _ => context.lookups.insert(uid, key, now, &facts),
    }
    Ok(facts)
}

/// Asks AWS which account the credentials belong to, and about the declared network.
async fn ask_aws(cluster: &AWSCluster, cloud: &dyn ClusterCloud) -> Facts {
    let account_id = match cloud.account_id().await {
        Ok(account_id) => account_id,
        Err(error) => {
            let lookup = recorded_lookup(cluster).unwrap_or_else(|| NetworkLookup::Failed(error.clone()));
            let identity = match error.class {
                ErrorClass::Unauthorized => Err(IdentityFailure::Credentials(error)),
                _ => Ok(()),
            };
            return Facts { identity, lookup };
        }
    };
    let lookup = match recorded_lookup(cluster) {
        Some(lookup) => lookup,
        None => look_up(cloud, &cluster.spec, account_id)
            .await
            .unwrap_or_else(NetworkLookup::Failed),
    };
    Facts {
        identity: Ok(()),
        lookup,
    }
}

/// The result of a complete lookup, which is not repeated until the spec changes. It is read from the status, so that a
/// restart repeats no lookup.
fn recorded_lookup(cluster: &AWSCluster) -> Option<NetworkLookup> {
    let status = cluster.status.as_ref()?;
    let condition = find(&status.conditions, ConditionType::NetworkReady)?;
    let current = condition.status == "True" && condition.observed_generation == cluster.metadata.generation;
    let network = status.network.clone().filter(|_| current)?;
    Some(NetworkLookup::Recorded(
        Box::new(network),
        status.failure_domains.clone(),
    ))
}

/// One describe call each for subnets, VPC, route tables, security groups and load balancer, if the spec declares any.
async fn look_up(
    cloud: &dyn ClusterCloud,
    spec: &AWSClusterSpec,
    account_id: String,
) -> Result<NetworkLookup, CloudError> {
    let mut found = FoundNetwork {
        account_id,
        ..FoundNetwork::default()
    };
    let subnet_ids: Vec<&str> = spec
        .subnets()
        .iter()
        .filter_map(|subnet| subnet.effective_resource_id())
        .collect();
    if !subnet_ids.is_empty() {
        found.subnets = cloud.subnets(&Query::filter("subnet-id", subnet_ids)).await?;
    }
    let group_ids = resolve::security_group_ids(spec);
    if !group_ids.is_empty() {
        found.security_groups = cloud.security_groups(&Query::filter("group-id", group_ids)).await?;
    }
    if let Some(vpc_id) = spec
        .vpc_id()
        .or_else(|| found.subnets.first().map(|subnet| subnet.vpc_id.as_str()))
    {
        let vpc_id = vpc_id.to_owned();
        found.vpcs = cloud.vpcs(&Query::filter("vpc-id", [vpc_id.clone()])).await?;
        if !found.subnets.is_empty() {
            found.route_tables = cloud.route_tables(&Query::filter("vpc-id", [vpc_id])).await?;
        }
    }
    if let Some(named) = load_balancer::to_look_up(spec) {
        // Only control plane machines need the load balancer: a failure here does not discard what else was found.
        found.load_balancer = Some(
            look_up_load_balancer(cloud, named)
                .await
                .unwrap_or_else(LoadBalancerLookup::Failed),
        );
    }
    Ok(NetworkLookup::Found(Box::new(found)))
}

async fn look_up_load_balancer(
    cloud: &dyn ClusterCloud,
    named: NamedLoadBalancer<'_>,
) -> Result<LoadBalancerLookup, CloudError> {
    Ok(match named {
        NamedLoadBalancer::Classic(name) if cloud.classic_load_balancer(name).await? => LoadBalancerLookup::Classic,
        NamedLoadBalancer::Classic(_) => LoadBalancerLookup::NotFound,
        NamedLoadBalancer::NetworkOrApplication(name) => {
            let found = cloud.load_balancer(name).await?;
            found.map_or(LoadBalancerLookup::NotFound, LoadBalancerLookup::NetworkOrApplication)
        }
    })
}
