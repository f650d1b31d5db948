//! Gathers the facts for the checks of infrastructure. The number of calls does not depend on the number of subnets and
//! security groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::ec2::{SecurityGroup, Subnet};
use capa_cloud::{Answers, CloudError, Found, KnownReads, Query, Reads};
use capa_preflight::FactsSource;
use capa_preflight::facts::{Answer, Demand, Facts, Failure, FailureKind, LoadBalancer, MachineDemand, TargetGroup};
use jiff::Timestamp;

use crate::calls::Calls;
use crate::ec2::DryRunCalls;
use crate::iam::IamCalls;
use crate::kms::KmsCalls;
use crate::s3::S3Calls;
use crate::service_quotas::ServiceQuotasCalls;

/// How long a name server may take to answer.
pub(crate) const RESOLVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of encryption keys of one machine template that are read. Each key needs a call.
const MAX_KEYS: usize = 2;

/// Gathers facts with the credentials of one identity in one region.
pub(crate) struct FactsGatherer {
    pub(crate) calls: Calls,
    pub(crate) iam: IamCalls,
    pub(crate) kms: KmsCalls,
    pub(crate) s3: S3Calls,
    pub(crate) service_quotas: ServiceQuotasCalls,
}

#[async_trait]
impl FactsSource for FactsGatherer {
    async fn facts(&self, demand: &Demand, known: &Answers) -> Facts {
        let mut facts = Facts {
            gathered_at: Timestamp::now().to_string(),
            demand: demand.clone(),
            account_id: self.calls.sts.account_id().await.into(),
            ..Facts::default()
        };
        // Without credentials, every other call fails in the same way.
        if facts.account_id.found().is_none() {
            return facts;
        }
        facts.regions = self.calls.ec2.regions(&demand.region).await.into();
        facts.zones = self.calls.ec2.zones().await.into();
        let reads = KnownReads::new(&self.calls, known);
        self.network(&mut facts, &reads).await;
        self.load_balancing(&mut facts, &reads, known).await;
        security_groups(&mut facts, &reads, known).await;
        self.endpoint(&mut facts).await;
        self.machines(&mut facts).await;
        self.other_services(&mut facts).await;
        facts
    }
}

/// The subnets of the VPC, including those of NAT gateways and load balancers, and the declared subnets elsewhere.
/// `known` are the declared subnets if they were read to find the VPC; otherwise, no subnet is read twice.
async fn subnets(
    in_vpc: &Query,
    mut declared: Vec<String>,
    known: Option<&Vec<Subnet>>,
    reads: &impl Reads,
) -> Result<Vec<Subnet>, CloudError> {
    let mut subnets = reads.subnets(in_vpc).await?;
    let of_vpc: BTreeSet<String> = subnets.iter().map(|subnet| subnet.id.clone()).collect();
    declared.retain(|id| !of_vpc.contains(id));
    let mut elsewhere = match known {
        Some(known) => known.clone(),
        None => subnets_with(declared, reads).await?,
    };
    elsewhere.retain(|subnet| !of_vpc.contains(&subnet.id));
    subnets.extend(elsewhere);
    Ok(subnets)
}

/// The subnets with these ids that exist.
async fn subnets_with(ids: Vec<String>, reads: &impl Reads) -> Result<Vec<Subnet>, CloudError> {
    if ids.is_empty() {
        return Ok(vec![]);
    }
    reads.subnets(&Query::filter("subnet-id", ids)).await
}

/// The target groups with these ARNs that exist.
async fn target_groups(
    arns: BTreeSet<&str>,
    reads: &impl Reads,
    known: &Answers,
) -> Result<Vec<TargetGroup>, CloudError> {
    let known = known.values().filter_map(|found| match found {
        Found::TargetGroups(Some(groups)) | Found::TargetGroupsIn(groups) => Some(groups),
        _ => None,
    });
    let known: BTreeMap<&str, &TargetGroup> = known.flatten().map(|group| (group.arn.as_str(), group)).collect();
    let mut groups = Vec::new();
    for arn in arns {
        match known.get(arn) {
            Some(known) => groups.push((*known).clone()),
            None => groups.extend(reads.target_groups(&[arn.to_owned()]).await?.into_iter().flatten()),
        }
    }
    Ok(groups)
}

/// The security groups of machines, load balancers and endpoints.
async fn security_groups(facts: &mut Facts, reads: &impl Reads, known: &Answers) {
    let mut ids = group_ids(facts);
    let mut groups = known_groups(&ids, known);
    ids.retain(|id| !groups.contains_key(id));
    if !ids.is_empty() {
        match reads.security_groups(&Query::filter("group-id", ids)).await {
            Ok(found) => groups.extend(by_id(found)),
            Err(error) => {
                facts.security_groups = Answer::Failed(error.into());
                return;
            }
        }
    }
    facts.security_groups = Answer::Found(groups.into_values().collect());
}

/// The security groups among these ids that have been read already, by id.
fn known_groups(ids: &BTreeSet<String>, known: &Answers) -> BTreeMap<String, SecurityGroup> {
    let groups = known.values().filter_map(|found| match found {
        Found::SecurityGroups(groups) => Some(groups),
        _ => None,
    });
    by_id(groups.flatten().filter(|group| ids.contains(&group.id)).cloned()).collect()
}

fn by_id(groups: impl IntoIterator<Item = SecurityGroup>) -> impl Iterator<Item = (String, SecurityGroup)> {
    groups.into_iter().map(|group| (group.id.clone(), group))
}

impl FactsGatherer {
    /// The VPC and its parts.
    async fn network(&self, facts: &mut Facts, reads: &impl Reads) {
        let declared: Vec<String> = facts.demand.subnet_ids(None).into_iter().map(str::to_owned).collect();
        if facts.demand.network.vpc.is_none() && !declared.is_empty() {
            facts.subnets = subnets_with(declared.clone(), reads).await.into();
        }
        let Some(vpc_id) = vpc_id(facts) else {
            return;
        };
        if facts.demand.network.vpc.is_none() {
            facts.demand.network.vpc = Some(capa_api::network::NetworkVpc { id: vpc_id.clone(), ..Default::default() });
        }
        let in_vpc = Query::filter("vpc-id", [vpc_id.clone()]);
        let vpcs = reads.vpcs(&in_vpc).await;
        facts.vpc = vpcs.map(|vpcs| vpcs.into_iter().find(|vpc| vpc.id == vpc_id)).into();
        let Some(Some(vpc)) = facts.vpc.found().cloned() else {
            if facts.subnets == Answer::NotAsked && !declared.is_empty() {
                facts.subnets = subnets_with(declared, reads).await.into();
            }
            return;
        };
        facts.subnets = subnets(&in_vpc, declared, facts.subnets.found(), reads).await.into();
        facts.vpc_dns = self.calls.ec2.vpc_dns(&vpc_id).await.into();
        facts.dhcp_options = match &vpc.dhcp_options_id {
            Some(id) => self.calls.ec2.dhcp_options(id).await.into(),
            None => Answer::Found(None),
        };
        facts.route_tables = reads.route_tables(&in_vpc).await.into();
        facts.nat_gateways = self.calls.ec2.nat_gateways_in(&vpc_id).await.into();
        facts.network_acls = self.calls.ec2.network_acls(&vpc_id).await.into();
        facts.vpc_endpoints = self.calls.ec2.vpc_endpoints(&vpc_id).await.into();
    }

    /// The target groups of the control plane and their load balancers.
    async fn load_balancing(&self, facts: &mut Facts, reads: &impl Reads, known: &Answers) {
        facts.target_groups = target_groups(facts.demand.target_group_arns(), reads, known).await.into();
        let Some(groups) = facts.target_groups.found() else {
            return;
        };
        let arns: BTreeSet<&String> = groups.iter().flat_map(|group| &group.load_balancer_arns).collect();
        facts.load_balancers = self.load_balancers(arns, known).await.into();
        for TargetGroup { arn, .. } in groups {
            let attributes = self.calls.elb.target_group_attributes(arn).await;
            facts.load_balancing_attributes.insert(arn.clone(), attributes.into());
        }
        for LoadBalancer { arn, .. } in facts.load_balancers.found().into_iter().flatten() {
            let attributes = self.calls.elb.load_balancer_attributes(arn).await;
            facts.load_balancing_attributes.insert(arn.clone(), attributes.into());
            facts.listeners.insert(arn.clone(), reads.listeners(arn).await.into());
        }
    }

    /// The load balancers with these ARNs that exist.
    async fn load_balancers(&self, arns: BTreeSet<&String>, known: &Answers) -> Result<Vec<LoadBalancer>, CloudError> {
        let known = known.values().filter_map(|found| match found {
            Found::LoadBalancer(shown) => shown.as_deref(),
            _ => None,
        });
        let known: BTreeMap<&String, &LoadBalancer> = known.map(|shown| (&shown.arn, shown)).collect();
        let mut balancers = Vec::new();
        for arn in arns {
            match known.get(arn) {
                Some(known) => balancers.push((*known).clone()),
                None => balancers.extend(self.calls.elb.load_balancer_with_arn(arn).await?),
            }
        }
        Ok(balancers)
    }

    /// The addresses of the control plane endpoint.
    async fn endpoint(&self, facts: &mut Facts) {
        let Some(endpoint) = &facts.demand.endpoint else {
            return;
        };
        let port = u16::try_from(endpoint.port).unwrap_or_default();
        let lookup = tokio::net::lookup_host((endpoint.host.as_str(), port));
        // The resolver may retry for half a minute.
        let Ok(found) = tokio::time::timeout(RESOLVER_TIMEOUT, lookup).await else {
            return;
        };
        let addresses = found.map(|found| found.map(|address| address.ip().to_string()).collect());
        // The resolver also returns an error for a name without an address.
        facts.endpoint_addresses = Answer::Found(addresses.unwrap_or_default());
    }

    /// The AWS resources that the machine templates name.
    async fn machines(&self, facts: &mut Facts) {
        let demand = facts.demand.clone();
        if demand.machines.is_empty() {
            return;
        }
        let ec2 = &self.calls.ec2;
        let types = named(&demand, |machines| Some(machines.spec.instance_type.clone()));
        facts.instance_types = ec2.instance_types(types.clone()).await.into();
        facts.offerings = ec2.offerings(types).await.into();
        let images = named(&demand, |machines| machines.spec.ami.as_ref()?.id.clone());
        if !images.is_empty() {
            facts.images = ec2.images(&Query::filter("image-id", images)).await.into();
        }
        let default_pair = &demand.network.ssh_key_name;
        let pairs = named(&demand, |machines| machines.spec.ssh_key_name.clone().or_else(|| default_pair.clone()));
        if !pairs.is_empty() {
            facts.key_pairs = ec2.key_pairs(pairs).await.into();
        }
        let groups = named(&demand, |machines| machines.spec.placement_group_name.clone());
        if !groups.is_empty() {
            facts.placement_groups = ec2.placement_groups(groups).await.into();
        }
        let reservations = named(&demand, |machines| machines.spec.capacity_reservation_id.clone());
        if !reservations.is_empty() {
            facts.capacity_reservations = ec2.capacity_reservations(reservations).await.into();
        }
        let hosts = named(&demand, |machines| machines.spec.host_id.clone());
        if !hosts.is_empty() {
            facts.dedicated_hosts = ec2.hosts_with(&hosts).await.into();
        }
        // A dry run needs an image and a subnet. Without a subnet, EC2 would judge a launch in the default VPC.
        let can_be_judged = |machines: &&MachineDemand| {
            let has_subnet = !machines.subnet_ids(&demand.network).is_empty();
            machines.image_id().is_some() && machines.spec.network_interfaces.is_empty() && has_subnet
        };
        for machines in demand.machines.iter().filter(can_be_judged) {
            let judged = ec2.dry_run_launch(machines, &demand).await.into();
            facts.launches.insert(machines.template.clone(), judged);
        }
    }
}

impl FactsGatherer {
    /// What machines need besides EC2. All services are called concurrently, because networks often have no route to
    /// some of them, and each call then takes long to time out.
    async fn other_services(&self, facts: &mut Facts) {
        let demand = facts.demand.clone();
        let keys_of = |machines: &MachineDemand| -> Vec<String> {
            let keys = machines.encryption_keys().into_iter().take(MAX_KEYS);
            keys.map(str::to_owned).collect()
        };
        let keys = demand.machines.iter().flat_map(keys_of).collect();
        let profiles = demand.instance_profiles().into_iter().map(str::to_owned).collect();
        let buckets = demand.bucket().into_iter().map(str::to_owned).collect();
        let quotas = async {
            let mut quotas = self.service_quotas.of_service("ec2", demand.quota_codes()).await?;
            // Without these, the rules take the usual quotas.
            let of_vpc = self.service_quotas.of_service("vpc", demand.vpc_quota_codes()).await;
            quotas.extend(of_vpc.unwrap_or_default());
            Ok(quotas)
        };
        let spot_role = async {
            if !demand.has_spot_machines() {
                return Answer::NotAsked;
            }
            self.iam.has_spot_role().await.into()
        };
        let (profiles, keys, buckets, quotas, spot_role) = tokio::join!(
            each(profiles, |name| async move { self.iam.instance_profile(&name).await }),
            each(keys, |name| async move { self.kms.key(&name).await }),
            each(buckets, |name| async move { self.s3.bucket(&name).await }),
            quotas,
            spot_role,
        );
        facts.instance_profiles = profiles;
        facts.encryption_keys = keys;
        for key in demand.encryption_keys() {
            facts.encryption_keys.entry(key.to_owned()).or_default();
        }
        facts.buckets = buckets;
        if !demand.machines.is_empty() {
            facts.quotas = quotas.into();
        }
        facts.spot_role = spot_role;
    }
}

/// The answers about each of these names. If a service does not answer for one name, it is not called for the others.
async fn each<T, F>(names: BTreeSet<String>, ask: impl Fn(String) -> F) -> BTreeMap<String, Answer<T>>
where
    F: Future<Output = Result<T, CloudError>>,
{
    let mut answers = BTreeMap::new();
    let mut unreachable: Option<Failure> = None;
    for name in names {
        let answer = match &unreachable {
            Some(failure) => Answer::Failed(failure.clone()),
            None => ask(name.clone()).await.into(),
        };
        let is_unreachable = |failure: &&Failure| failure.kind == FailureKind::Unreachable && failure.code.is_none();
        unreachable = answer.failure().filter(is_unreachable).cloned();
        answers.insert(name, answer);
    }
    answers
}

/// The VPC of the demand, or else that of the first of its subnets.
fn vpc_id(facts: &Facts) -> Option<String> {
    let declared = facts.demand.network.vpc.as_ref().map(|vpc| vpc.id.clone());
    declared.or_else(|| Some(facts.subnets.found()?.first()?.vpc_id.clone()))
}

/// Ids of the security groups of machines, endpoints and load balancers.
fn group_ids(facts: &Facts) -> BTreeSet<String> {
    let of_machines = facts.demand.group_ids(None).into_iter().map(str::to_owned);
    let endpoints = facts.vpc_endpoints.found().into_iter().flatten();
    let balancers = facts.load_balancers.found().into_iter().flatten();
    of_machines
        .chain(endpoints.flat_map(|endpoint| endpoint.security_group_ids.clone()))
        .chain(balancers.flat_map(|balancer| balancer.security_group_ids.clone()))
        .collect()
}

/// The distinct names in the machine templates.
fn named(demand: &Demand, name: impl Fn(&MachineDemand) -> Option<String>) -> Vec<String> {
    let names: BTreeSet<String> = demand.machines.iter().filter_map(name).filter(|name| !name.is_empty()).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// The number of calls that `each` makes if every call returns this error.
    async fn asked(error: CloudError) -> usize {
        let asked = AtomicUsize::new(0);
        let names = ["a", "b", "c"].map(str::to_owned).into();
        let answers = each(names, |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Err::<(), _>(error.clone()))
        });
        let answers = answers.await;
        assert!(answers.len() == 3 && answers.values().all(|answer| answer.failure().is_some()));
        asked.into_inner()
    }

    #[tokio::test]
    async fn a_silent_service_is_asked_once() {
        let action = "GetInstanceProfile";
        assert_eq!(asked(CloudError::no_answer(action, "no answer in time")).await, 1);
        assert_eq!(asked(CloudError::answered(action, "AccessDenied", "no")).await, 3);
        assert_eq!(asked(CloudError::answered(action, "InternalError", "no")).await, 3);
    }
}
