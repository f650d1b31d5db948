//! All reads for an unmanaged AWSCluster: its identity, and the lookup of its network in AWS.

use capa_api::cluster::discovery::discovery_request;
use capa_api::cluster::preflight::PreflightMode;
use capa_api::cluster::status::{AWSClusterStatus, PublishedEndpoint};
use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::common::IdentityReference;
use capa_api::conditions::{self, ConditionType};
use capa_api::contract::Cluster;
use capa_api::forms::IdKind;
use capa_api::meta::{PREFLIGHT_REQUESTED_ANNOTATION, annotation};
use capa_cloud::ec2::SecurityGroup;
use capa_cloud::ec2::Subnet;
use capa_cloud::targets::Group;
use capa_cloud::{Answers, CloudError, ClusterCloud, ErrorClass, KnownReads, Query, ResolvedIdentity};

use super::ClusterContext;
use super::facts::{Facts, FoundNetwork, IdentityFailure, LoadBalancerLookup, NetworkLookup, TargetLookup};
use super::load_balancer::{self, NamedLoadBalancer, endpoint_port};
use super::lookup_cache::LookupKey;
use super::status::published_endpoint;
use super::targets::{self, NamedTargets};
use super::{resolve, search};
use crate::identity::{self, IdentityError, IdentityRequest};

/// The reads of one pass: the facts for the status, and what the checks of the infrastructure need not read again.
pub(super) struct Reading {
    /// The facts for the status.
    pub(super) facts: Facts,
    /// The identity; `None` if its objects do not allow its use, or could not be read.
    pub(super) identity: Option<ResolvedIdentity>,
    /// The answers of AWS in this pass.
    pub(super) answers: Answers,
}

impl Reading {
    fn without_aws(facts: Facts, identity: Option<ResolvedIdentity>) -> Self {
        Self { facts, identity, answers: Answers::default() }
    }
}

/// Reads the facts for the status. An incomplete lookup is repeated with increasing intervals.
pub(super) async fn read_facts(cluster: &AWSCluster, owner: &Cluster, context: &ClusterContext) -> Reading {
    let reference = cluster.spec.effective_identity_ref();
    let request = identity_request(cluster, owner, &reference, context);
    let region = match cluster.spec.effective_preflight_mode() {
        PreflightMode::Report | PreflightMode::Require => cluster.spec.region(),
        PreflightMode::Disabled => None,
    };
    let identity = match identity::resolve(context.kubernetes.as_ref(), &request).await {
        Ok(identity) => identity,
        Err(error) => {
            let failure = match error {
                IdentityError::Unusable(problem) => IdentityFailure::Objects(problem),
                IdentityError::Unread(problem) => IdentityFailure::Unread(problem),
            };
            let lookup = match region {
                Some(_) => recorded_lookup(cluster, owner).unwrap_or(NetworkLookup::NoIdentity),
                None => NetworkLookup::Disabled,
            };
            return Reading::without_aws(Facts { identity: Err(failure), lookup }, None);
        }
    };
    let Some(region) = region else {
        let facts = Facts { identity: Ok(()), lookup: NetworkLookup::Disabled };
        return Reading::without_aws(facts, Some(identity));
    };
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let key = LookupKey {
        generation: cluster.metadata.generation,
        requested: annotation(&cluster.metadata, PREFLIGHT_REQUESTED_ANNOTATION).map(str::to_owned),
        identity: identity.key.clone(),
    };
    let now = context.kubernetes.uptime();
    if let Some(facts) = context.lookups.get(uid, &key, now, &context.timing) {
        return Reading::without_aws(facts, Some(identity));
    }
    let cloud = context.clouds.cluster(&identity, region);
    let earlier = context.lookups.continued(uid, &key, now, &context.timing);
    let cloud = KnownReads::new(cloud.as_ref(), &earlier);
    let facts = ask_aws(cluster, owner, &cloud).await;
    let answers = cloud.into_new_answers();
    match (&facts.identity, &facts.lookup) {
        (Ok(()), NetworkLookup::Recorded(..)) => context.lookups.remove(uid),
        (_, lookup) if lookup.rate_limited_for().is_some() => {
            let all = earlier.into_iter().chain(answers.clone()).collect();
            context.lookups.interrupt(uid, key, now, all);
        }
        _ => context.lookups.insert(uid, key, now, &facts),
    }
    Reading { facts, identity: Some(identity), answers }
}

/// The request for the identity of a cluster.
fn identity_request<'a>(
    cluster: &'a AWSCluster,
    owner: &'a Cluster,
    reference: &'a IdentityReference,
    context: &'a ClusterContext,
) -> IdentityRequest<'a> {
    IdentityRequest {
        reference,
        namespace: cluster.metadata.namespace.as_deref().unwrap_or_default(),
        cluster_name: owner.metadata.name.as_deref().unwrap_or_default(),
        identity_namespace: &context.identity_namespace,
    }
}

/// Looks up the account of the credentials and the declared network in AWS.
async fn ask_aws(cluster: &AWSCluster, owner: &Cluster, cloud: &dyn ClusterCloud) -> Facts {
    let recorded = recorded_lookup(cluster, owner);
    let requested = is_search_requested(cluster);
    let account_id = match cloud.account_id().await {
        Ok(account_id) => account_id,
        Err(error) => {
            // Without a failed lookup, nothing would repeat a search that the user requests.
            let is_refused = error.class == ErrorClass::Unauthorized;
            let recorded = recorded.filter(|_| is_refused || !requested);
            let lookup = recorded.unwrap_or_else(|| NetworkLookup::Failed(error.clone()));
            let identity = if is_refused { Err(IdentityFailure::Credentials(error)) } else { Ok(()) };
            return Facts { identity, lookup };
        }
    };
    let lookup = match recorded.filter(|_| !requested) {
        Some(lookup) => lookup,
        None => look_up(cloud, &cluster.spec, account_id).await.unwrap_or_else(NetworkLookup::Failed),
    };
    Facts { identity: Ok(()), lookup }
}

/// Whether the search for `spec.discovery` is to be repeated, because the user requests it by the annotation.
fn is_search_requested(cluster: &AWSCluster) -> bool {
    let observed = cluster.status.as_ref().and_then(|status| status.discovery.as_ref());
    let observed = observed.map(|discovery| discovery.observed_request.as_str());
    let requested = discovery_request(&cluster.metadata);
    cluster.spec.discovery.is_some() && requested.is_some() && requested.as_deref() != observed
}

/// The result of a complete lookup, which is not repeated until the spec or the port of the API server changes. The
/// result comes from the status, so that a restart of the manager repeats no lookup.
fn recorded_lookup(cluster: &AWSCluster, owner: &Cluster) -> Option<NetworkLookup> {
    let status = cluster.status.as_ref()?;
    let generation = cluster.metadata.generation;
    let current = conditions::holds_for(&status.conditions, ConditionType::NetworkReady, generation)
        && is_of_port(cluster, owner, status);
    let network = status.network.clone().filter(|_| current)?;
    Some(NetworkLookup::Recorded(Box::new(network), status.failure_domains.clone()))
}

/// Whether a status is about the port of the API server. The targets behind load balancers depend on the port.
fn is_of_port(cluster: &AWSCluster, owner: &Cluster, status: &AWSClusterStatus) -> bool {
    let spec = &cluster.spec;
    // A changed endpoint of the spec is another generation.
    let port = |endpoint: Option<&PublishedEndpoint>| endpoint_port(spec, endpoint.map(|endpoint| endpoint.port));
    let has_names = load_balancer::to_look_up(spec).is_some() || !load_balancer::named_among_targets(spec).is_empty();
    !has_names
        || port(status.control_plane_endpoint.as_ref()) == port(published_endpoint(cluster, Some(owner)).as_ref())
}

/// Makes one describe call each for the subnets (two if some are not in the VPC of the spec), the VPC, the route
/// tables, the security groups, the load balancer and its targets that the spec declares, after the searches for
/// `spec.discovery`.
pub(super) async fn look_up(
    cloud: &dyn ClusterCloud,
    spec: &AWSClusterSpec,
    account_id: String,
) -> Result<NetworkLookup, CloudError> {
    let mut found = FoundNetwork { account_id, ..FoundNetwork::default() };
    if spec.discovery.is_some() {
        search::search(cloud, spec, &mut found).await?;
    }
    found.subnets.extend(declared_subnets(cloud, spec).await?);
    found.security_groups.extend(declared_groups(cloud, spec).await?);
    if let Some(vpc_id) = vpc_id(spec, &found) {
        if found.vpcs.is_empty() {
            found.vpcs = cloud.vpcs(&Query::filter("vpc-id", [vpc_id.clone()])).await?;
            found.vpcs.retain(|vpc| vpc.id == vpc_id);
        }
        if !found.subnets.is_empty() {
            found.route_tables = cloud.route_tables(&Query::filter("vpc-id", [vpc_id])).await?;
        }
    }
    if let Some(named) = load_balancer::to_look_up(spec) {
        // Only control plane machines need the load balancer, so a failed lookup of the load balancer does not discard
        // the other results.
        found.load_balancer =
            Some(look_up_load_balancer(cloud, named).await.unwrap_or_else(LoadBalancerLookup::Failed));
    }
    for name in load_balancer::named_among_targets(spec) {
        found.named_load_balancers.insert(name.to_owned(), cloud.listeners_of(name).await);
    }
    found.targets = look_up_targets(cloud, spec, &found.account_id).await;
    Ok(NetworkLookup::Found(Box::new(found)))
}

/// The VPC of the spec, or else of `spec.discovery`, or else of the first subnet.
fn vpc_id(spec: &AWSClusterSpec, found: &FoundNetwork) -> Option<String> {
    let named = spec.vpc_id().filter(|id| IdKind::Vpc.is_id(id));
    let discovered = || found.vpcs.first().map(|vpc| vpc.id.as_str());
    let of_subnets = || found.subnets.first().map(|subnet| subnet.vpc_id.as_str());
    named.or_else(discovered).or_else(of_subnets).map(str::to_owned)
}

/// Makes one call for all target groups that the spec names, and one for all classic load balancers. Only control plane
/// machines need the targets, so a failed lookup does not discard the other results.
async fn look_up_targets(cloud: &dyn ClusterCloud, spec: &AWSClusterSpec, account_id: &str) -> Vec<TargetLookup> {
    let NamedTargets { target_groups, classic } = targets::to_look_up(spec, account_id);
    let mut lookups = Vec::new();
    if !target_groups.is_empty() {
        let found = cloud.target_groups(&target_groups).await;
        lookups.push(TargetLookup { named: target_groups.into_iter().map(Group::TargetGroup).collect(), found });
    }
    if !classic.is_empty() {
        let exist = cloud.classic_load_balancers(&classic).await;
        lookups.push(TargetLookup {
            named: classic.into_iter().map(Group::Classic).collect(),
            found: exist.map(|exist| exist.then(Vec::new)),
        });
    }
    lookups
}

/// The declared subnets, as far as AWS has them. A text that is not an id is not looked up, because it may be a
/// pattern; the status names it. All subnets of a VPC are looked up by one call, whose answer the checks of the
/// infrastructure need too; only subnets that are not in the VPC of the spec are looked up by their ids.
async fn declared_subnets(cloud: &dyn ClusterCloud, spec: &AWSClusterSpec) -> Result<Vec<Subnet>, CloudError> {
    let declared = spec.subnets().iter();
    let mut ids: Vec<&str> = declared.filter_map(|subnet| subnet.effective_resource_id()).collect();
    ids.retain(|id| IdKind::Subnet.is_id(id));
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let mut found = match spec.vpc_id().filter(|id| IdKind::Vpc.is_id(id)) {
        Some(vpc_id) => cloud.subnets(&Query::filter("vpc-id", [vpc_id])).await?,
        None => vec![],
    };
    let is_elsewhere = |id: &&&str| !found.iter().any(|subnet| subnet.id == **id);
    let elsewhere: Vec<&str> = ids.iter().filter(is_elsewhere).copied().collect();
    if !elsewhere.is_empty() {
        found.extend(cloud.subnets(&Query::filter("subnet-id", elsewhere)).await?);
    }
    found.retain(|subnet| ids.contains(&subnet.id.as_str()));
    Ok(found)
}

/// The declared security groups, as far as AWS has them.
async fn declared_groups(cloud: &dyn ClusterCloud, spec: &AWSClusterSpec) -> Result<Vec<SecurityGroup>, CloudError> {
    let mut ids = resolve::security_group_ids(spec);
    ids.retain(|id| IdKind::SecurityGroup.is_id(id));
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let mut found = cloud.security_groups(&Query::filter("group-id", ids.iter().cloned())).await?;
    found.retain(|group| ids.contains(&group.id));
    Ok(found)
}

async fn look_up_load_balancer(
    cloud: &dyn ClusterCloud,
    named: NamedLoadBalancer<'_>,
) -> Result<LoadBalancerLookup, CloudError> {
    Ok(match named {
        NamedLoadBalancer::Classic(name) => {
            let exists = cloud.classic_load_balancers(&[name.to_owned()]).await?;
            let found = exists.then_some(LoadBalancerLookup::Classic);
            found.unwrap_or(LoadBalancerLookup::NotFound)
        }
        NamedLoadBalancer::NetworkOrApplication(name) => {
            let Some(shown) = cloud.load_balancer(name).await? else {
                return Ok(LoadBalancerLookup::NotFound);
            };
            let listeners = cloud.listeners(&shown.arn).await?;
            LoadBalancerLookup::NetworkOrApplication(shown, listeners)
        }
    })
}
