//! Gathers the facts for the checks of infrastructure: each fact is asked for once, whatever the number of subnets and
//! security groups.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use capa_cloud::{CloudError, Query};
use capa_preflight::FactsSource;
use capa_preflight::facts::{Answer, Demand, Facts, MachineDemand};
use jiff::Timestamp;

use crate::ec2::{DryRunCalls, Ec2Calls, failure};
use crate::elb::ElbCalls;
use crate::sts::StsCalls;

/// The time within which a name server that can be reached has answered.
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Gathers facts with the credentials of one identity in one region.
pub(crate) struct FactsGatherer {
    pub(crate) ec2: Ec2Calls,
    pub(crate) elb: ElbCalls,
    pub(crate) sts: StsCalls,
}

fn answer<T>(result: Result<T, CloudError>) -> Answer<T> {
    result.map_err(failure).into()
}

#[async_trait]
impl FactsSource for FactsGatherer {
    async fn facts(&self, demand: &Demand) -> Facts {
        let mut facts = Facts {
            gathered_at: Timestamp::now().to_string(),
            demand: demand.clone(),
            account_id: answer(self.sts.account_id().await),
            ..Facts::default()
        };
        // Without credentials every other call fails in the same way.
        if facts.account_id.found().is_none() {
            return facts;
        }
        facts.regions = answer(self.ec2.region_facts(&demand.region).await);
        facts.zones = answer(self.ec2.zone_facts().await);
        self.network(&mut facts).await;
        self.load_balancing(&mut facts).await;
        let groups = group_ids(&facts);
        facts.security_groups = answer(self.ec2.security_group_facts(groups).await);
        self.endpoint(&mut facts).await;
        self.machines(&mut facts).await;
        facts
    }
}

impl FactsGatherer {
    /// The VPC and its parts.
    async fn network(&self, facts: &mut Facts) {
        let declared: Vec<String> = facts.demand.subnet_ids(None).into_iter().map(str::to_owned).collect();
        if !declared.is_empty() {
            facts.subnets = answer(self.ec2.subnet_facts(&Query::filter("subnet-id", declared)).await);
        }
        let Some(vpc_id) = vpc_id(facts) else {
            return;
        };
        if facts.demand.network.vpc.is_none() {
            facts.demand.network.vpc = Some(capa_api::network::NetworkVpc {
                id: vpc_id.clone(),
                ..Default::default()
            });
        }
        facts.vpc = answer(self.ec2.vpc_facts(&vpc_id).await);
        let Some(Some(vpc)) = facts.vpc.found().cloned() else {
            return;
        };
        // The subnets of NAT gateways and load balancers are not among those of machines.
        match self.ec2.subnet_facts(&Query::filter("vpc-id", [vpc_id.clone()])).await {
            Err(error) => facts.subnets = Answer::Failed(failure(error)),
            Ok(of_vpc) => {
                let declared = facts.subnets.found().cloned().unwrap_or_default();
                let elsewhere = declared.into_iter().filter(|subnet| subnet.vpc_id != vpc_id);
                facts.subnets = Answer::Found(of_vpc.into_iter().chain(elsewhere).collect());
            }
        }
        facts.vpc_dns = answer(self.ec2.vpc_dns_facts(&vpc_id).await);
        if vpc.dhcp_options_id == "default" {
            facts.dhcp_options = Answer::Found(None);
        } else {
            facts.dhcp_options = answer(self.ec2.dhcp_options_facts(&vpc.dhcp_options_id).await);
        }
        facts.route_tables = answer(self.ec2.route_table_facts(&vpc_id).await);
        facts.nat_gateways = answer(self.ec2.nat_gateway_facts(&vpc_id).await);
        facts.network_acls = answer(self.ec2.network_acl_facts(&vpc_id).await);
        facts.vpc_endpoints = answer(self.ec2.vpc_endpoint_facts(&vpc_id).await);
    }

    /// The target groups of the control plane and their load balancers.
    async fn load_balancing(&self, facts: &mut Facts) {
        let mut groups = Vec::new();
        for arn in facts.demand.target_group_arns() {
            match self.elb.target_group_facts(arn).await {
                Ok(group) => groups.extend(group),
                Err(error) => {
                    facts.target_groups = Answer::Failed(failure(error));
                    return;
                }
            }
        }
        let arns: BTreeSet<String> = groups
            .iter()
            .flat_map(|group| group.load_balancer_arns.clone())
            .collect();
        facts.target_groups = Answer::Found(groups);
        let mut balancers = Vec::new();
        for arn in arns {
            match self.elb.load_balancer_facts(&arn).await {
                Ok(balancer) => balancers.extend(balancer),
                Err(error) => {
                    facts.load_balancers = Answer::Failed(failure(error));
                    return;
                }
            }
        }
        facts.load_balancers = Answer::Found(balancers);
    }

    /// The addresses of the control plane endpoint.
    async fn endpoint(&self, facts: &mut Facts) {
        let Some(endpoint) = &facts.demand.endpoint else {
            return;
        };
        let port = u16::try_from(endpoint.port).unwrap_or_default();
        let lookup = tokio::net::lookup_host((endpoint.host.as_str(), port));
        // The resolver may repeat its question for half a minute.
        let Ok(found) = tokio::time::timeout(RESOLVER_TIMEOUT, lookup).await else {
            return;
        };
        let addresses = found.map(|found| found.map(|address| address.ip().to_string()).collect());
        // A name without an address is an error of the resolver as well.
        facts.endpoint_addresses = Answer::Found(addresses.unwrap_or_default());
    }

    /// What the machine templates name.
    async fn machines(&self, facts: &mut Facts) {
        let demand = facts.demand.clone();
        if demand.machines.is_empty() {
            return;
        }
        let ec2 = &self.ec2;
        let types = named(&demand, |machines| Some(machines.spec.instance_type.clone()));
        facts.instance_types = answer(ec2.instance_type_facts(types.clone()).await);
        facts.offerings = answer(ec2.offering_facts(types).await);
        let images = named(&demand, |machines| machines.spec.ami.as_ref()?.id.clone());
        if !images.is_empty() {
            facts.images = answer(ec2.image_facts(images).await);
        }
        let default_pair = &demand.network.ssh_key_name;
        let pairs = named(&demand, |machines| {
            machines.spec.ssh_key_name.clone().or_else(|| default_pair.clone())
        });
        if !pairs.is_empty() {
            facts.key_pairs = answer(ec2.key_pair_facts(pairs).await);
        }
        let groups = named(&demand, |machines| machines.spec.placement_group_name.clone());
        if !groups.is_empty() {
            facts.placement_groups = answer(ec2.placement_group_facts(groups).await);
        }
        let reservations = named(&demand, |machines| machines.spec.capacity_reservation_id.clone());
        if !reservations.is_empty() {
            facts.capacity_reservations = answer(ec2.reservation_facts(reservations).await);
        }
        let hosts = named(&demand, |machines| machines.spec.host_id.clone());
        if !hosts.is_empty() {
            facts.dedicated_hosts = answer(ec2.host_facts(hosts).await);
        }
        for machines in &demand.machines {
            let judged = answer(ec2.dry_run_launch(machines, &demand).await);
            facts.launches.insert(machines.template.clone(), judged);
        }
    }
}

/// The VPC of the demand, or else that of the first of its subnets.
fn vpc_id(facts: &Facts) -> Option<String> {
    let declared = facts.demand.network.vpc.as_ref().map(|vpc| vpc.id.clone());
    declared.or_else(|| Some(facts.subnets.found()?.first()?.vpc_id.clone()))
}

/// Ids of the security groups of machines, endpoints and load balancers.
fn group_ids(facts: &Facts) -> Vec<String> {
    let of_machines = facts.demand.group_ids(None).into_iter().map(str::to_owned);
    let endpoints = facts.vpc_endpoints.found().into_iter().flatten();
    let balancers = facts.load_balancers.found().into_iter().flatten();
    let ids: BTreeSet<String> = of_machines
        .chain(endpoints.flat_map(|endpoint| endpoint.security_group_ids.clone()))
        .chain(balancers.flat_map(|balancer| balancer.security_group_ids.clone()))
        .collect();
    ids.into_iter().collect()
}

/// The distinct names that machine templates give.
fn named(demand: &Demand, name: impl Fn(&MachineDemand) -> Option<String>) -> Vec<String> {
    let names: BTreeSet<String> = demand
        .machines
        .iter()
        .filter_map(name)
        .filter(|name| !name.is_empty())
        .collect();
    names.into_iter().collect()
}
