//! The calls of the services that all controllers use, and the call of each read.

use async_trait::async_trait;
use capa_cloud::{CloudError, Found, Read, Reads};

use crate::ec2::Ec2Calls;
use crate::elb::ElbCalls;
use crate::sdk::call_runner::CallRunner;
use crate::sdk::clients::{LazySecretsClients, SdkClients};
use crate::secrets::SecretsCalls;
use crate::sts::StsCalls;

/// The calls of all services, on behalf of one controller.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) ec2: Ec2Calls,
    pub(crate) elb: ElbCalls,
    pub(crate) sts: StsCalls,
    secrets: LazySecretsClients,
}

impl Calls {
    pub(crate) fn new(clients: &SdkClients, runner: &CallRunner) -> Self {
        Self {
            ec2: Ec2Calls::new(clients.ec2.clone(), runner.clone()),
            elb: ElbCalls::new(clients.classic_elb.clone(), clients.elb.clone(), runner.clone()),
            sts: StsCalls::new(clients.sts.clone(), runner.clone()),
            secrets: clients.secrets.clone(),
        }
    }

    /// The calls of the services that keep bootstrap data.
    pub(crate) fn secrets(&self) -> SecretsCalls {
        SecretsCalls::new(&self.secrets, self.ec2.runner())
    }
}

#[async_trait]
impl Reads for Calls {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        let Self { ec2, elb, .. } = self;
        Ok(match read {
            Read::Vpcs(query) => Found::Vpcs(ec2.vpcs(query).await?),
            Read::Subnets(query) => Found::Subnets(ec2.subnets(query).await?),
            Read::SecurityGroups(query) => Found::SecurityGroups(ec2.security_groups(query).await?),
            Read::RouteTables(query) => Found::RouteTables(ec2.route_tables(query).await?),
            Read::NetworkInterfaces(query) => Found::NetworkInterfaces(ec2.network_interfaces(query).await?),
            Read::Images(query) => Found::Images(ec2.images(query).await?),
            Read::LoadBalancer(name) => Found::LoadBalancer(elb.load_balancer(name).await?),
            Read::Listeners(load_balancer) => Found::Listeners(elb.listeners(load_balancer).await?),
            Read::ClassicLoadBalancers(names) => Found::ClassicLoadBalancers(elb.classic_load_balancers(names).await?),
            Read::TargetGroups(arns) => Found::TargetGroups(elb.target_groups(arns).await?),
            Read::TargetGroupsIn(vpc_id) => Found::TargetGroupsIn(elb.target_groups_in(vpc_id).await?),
            Read::TargetGroupTags(arns) => Found::TargetGroupTags(elb.tags_by_arn(arns).await?),
            Read::PublicParameter(name) => Found::PublicParameter(self.secrets().public_parameter(name).await?),
            Read::InstanceType(name) => Found::InstanceType(ec2.instance_type(name).await?),
            Read::CapacityZone(source) => Found::CapacityZone(ec2.capacity_zone(source).await?),
            Read::DomainName(vpc_id) => Found::DomainName(ec2.domain_name(vpc_id).await?),
            Read::Hosts(query) => Found::Hosts(ec2.hosts(query).await?),
            Read::ElasticIps(query) => Found::ElasticIps(ec2.elastic_ips(query).await?),
            Read::FreeAddresses(pool) => Found::FreeAddresses(ec2.free_addresses(pool).await?),
        })
    }
}
