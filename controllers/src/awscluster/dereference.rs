//! Reads what an unmanaged cluster's status is made from. Needs clients; decides nothing but what to read.

use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::conditions::{ConditionType, find};
use capa_api::core::Cluster;
use capa_api::meta::{PREFLIGHT_REQUESTED_ANNOTATION, annotation};
use capa_cloud::{CloudError, ClusterCloud, ErrorClass, Query};

use super::ClusterContext;
use super::load_balancer::{self, Seen, Wanted};
use super::looks::Question;
use super::resolve::{Found, Lookup};
use crate::identity::{self, IdentityProblem, IdentityRequest};
use crate::kubernetes_api::KubernetesError;

/// What was read.
#[derive(Clone)]
pub(super) struct Facts {
    /// Whether the identity can be used, as far as Kubernetes and STS say.
    pub(super) identity: Result<(), IdentityFailure>,
    /// What was looked up in AWS.
    pub(super) lookup: Lookup,
}

/// Why the identity cannot be used.
#[derive(Clone)]
pub(super) enum IdentityFailure {
    /// Its objects are missing or do not allow the namespace: nothing can be launched.
    Objects(IdentityProblem),
    /// AWS refuses the credentials, which may pass.
    Credentials(CloudError),
}

pub(super) async fn facts(
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
    let identity = match identity::resolve(context.kubernetes.as_ref(), &request).await? {
        Ok(identity) => identity,
        Err(problem) => {
            let lookup = match region {
                Some(_) => kept(cluster).unwrap_or(Lookup::NotPossible),
                None => Lookup::NotWanted,
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
            lookup: Lookup::NotWanted,
        });
    };
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let question = Question {
        generation: cluster.metadata.generation,
        requested: annotation(&cluster.metadata, PREFLIGHT_REQUESTED_ANNOTATION).map(str::to_owned),
        identity: identity.key.clone(),
    };
    let now = context.kubernetes.now();
    if let Some(facts) = context.looks.recall(uid, &question, now, &context.timing) {
        return Ok(facts);
    }
    let cloud = context.clouds.cluster(&identity, region);
    let facts = ask(cluster, cloud.as_ref()).await;
    match (&facts.identity, &facts.lookup) {
        (Ok(()), Lookup::Kept(..)) => context.looks.forget(uid),
        // It was not asked: there is nothing to remember.
        (_, lookup) if lookup.turn().is_some() => {}
        _ => context.looks.remember(uid, question, now, &facts),
    }
    Ok(facts)
}

/// Asks AWS whose credentials these are, and what it knows of the declared network.
async fn ask(cluster: &AWSCluster, cloud: &dyn ClusterCloud) -> Facts {
    let account_id = match cloud.account_id().await {
        Ok(account_id) => account_id,
        Err(error) => {
            let lookup = kept(cluster).unwrap_or_else(|| Lookup::Failed(error.clone()));
            let identity = match error.class {
                ErrorClass::Unauthorized => Err(IdentityFailure::Credentials(error)),
                _ => Ok(()),
            };
            return Facts { identity, lookup };
        }
    };
    let lookup = match kept(cluster) {
        Some(lookup) => lookup,
        None => look_up(cloud, &cluster.spec, account_id)
            .await
            .unwrap_or_else(Lookup::Failed),
    };
    Facts {
        identity: Ok(()),
        lookup,
    }
}

/// A lookup that was complete is not repeated until the spec changes; the status tells, so a restart repeats nothing.
fn kept(cluster: &AWSCluster) -> Option<Lookup> {
    let status = cluster.status.as_ref()?;
    let condition = find(&status.conditions, ConditionType::NetworkReady)?;
    let current = condition.status == "True" && condition.observed_generation == cluster.metadata.generation;
    let network = status.network.clone().filter(|_| current)?;
    Some(Lookup::Kept(Box::new(network), status.failure_domains.clone()))
}

/// One describe each of subnets, VPC, route tables, security groups and load balancer; nothing that was not declared is asked for.
async fn look_up(cloud: &dyn ClusterCloud, spec: &AWSClusterSpec, account_id: String) -> Result<Lookup, CloudError> {
    let mut found = Found {
        account_id,
        ..Found::default()
    };
    let subnet_ids: Vec<&str> = spec
        .subnets()
        .iter()
        .filter_map(|subnet| subnet.effective_resource_id())
        .collect();
    if !subnet_ids.is_empty() {
        found.subnets = cloud.subnets(&Query::filter("subnet-id", subnet_ids)).await?;
    }
    let group_ids = super::resolve::security_group_ids(spec);
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
    if let Some(wanted) = load_balancer::wanted(spec) {
        // Only control planes need it: what else was found counts all the same.
        found.load_balancer = Some(show(cloud, wanted).await.unwrap_or_else(Seen::Unreadable));
    }
    Ok(Lookup::Found(Box::new(found)))
}

async fn show(cloud: &dyn ClusterCloud, wanted: Wanted<'_>) -> Result<Seen, CloudError> {
    Ok(match wanted {
        Wanted::Classic(name) if cloud.classic_load_balancer(name).await? => Seen::Classic,
        Wanted::Classic(_) => Seen::Nothing,
        Wanted::Version2(name) => cloud.load_balancer(name).await?.map_or(Seen::Nothing, Seen::Version2),
    })
}
