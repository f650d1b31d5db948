//! The reads of infrastructure on the simulated EC2. Sessions share no answers, so that each pass meets its own faults.

use async_trait::async_trait;
use capa_cloud::limits::{CallRequest, Flow, Priority};
use capa_cloud::session::confirmed_account;
use capa_cloud::{Account, CloudError, Found, MAX_TAGGED, Query, Read, Reads};
use jiff::Timestamp;

use super::{SimSession, Transport, describe_query};
use crate::machines::client::Client;

#[async_trait]
impl<T: Transport> Account for SimSession<T> {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, _) = confirmed_account(self).await?;
        Ok(account)
    }
}

#[async_trait]
impl<T: Transport> Reads for SimSession<T> {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        if let Read::TargetGroupTags(arns) = read
            && !(1..=MAX_TAGGED).contains(&arns.len())
        {
            let mut tags = Vec::new();
            for arns in arns.chunks(MAX_TAGGED) {
                tags.extend(self.target_group_tags(arns).await?);
            }
            return Ok(Found::TargetGroupTags(tags));
        }
        let Some((turn, about)) = call(&self.flow, read) else {
            return without_call(read);
        };
        let permit = self.rates.acquire(&turn, self.now())?;
        let read = read.clone();
        let effect = move |client: &mut Client<'_>, now| answer(client, now, &read);
        self.call(permit, false, about, effect).await
    }
}

/// The call of a read, and its parameters for a trace. None for a read that needs no call, see [`without_call`].
fn call(flow: &Flow, read: &Read) -> Option<(CallRequest, String)> {
    let described = |query: &Query| CallRequest::describe(read.action(), flow, query, Priority::Describe);
    let by_name = |filter, name: &String| (described(&Query::filter(filter, [name])), name.clone());
    Some(match read {
        Read::Vpcs(query)
        | Read::Subnets(query)
        | Read::SecurityGroups(query)
        | Read::RouteTables(query)
        | Read::NetworkInterfaces(query)
        | Read::Images(query)
        | Read::Hosts(query)
        | Read::ElasticIps(query) => (described(query), describe_query(query)),
        Read::InstanceType(name) => {
            let query = Query::filter("instance-type", [name]);
            (described(&query), describe_query(&query))
        }
        Read::PublicParameter(name) => by_name("name", name),
        Read::FreeAddresses(pool) => by_name("pool-id", pool),
        Read::LoadBalancer(name) => (CallRequest::load_balancer(flow, name), name.clone()),
        Read::Listeners(load_balancer) => (CallRequest::listeners(flow, load_balancer), load_balancer.clone()),
        Read::ClassicLoadBalancers(names) => {
            let names = names.join(" ");
            (CallRequest::load_balancer(flow, &names), names)
        }
        Read::TargetGroups(arns) => (CallRequest::target_groups(flow, arns), arns.join(" ")),
        Read::TargetGroupsIn(vpc_id) => (CallRequest::target_groups_in(flow, vpc_id), vpc_id.clone()),
        Read::TargetGroupTags(arns) => (CallRequest::target_group_tags(flow, arns), arns.join(" ")),
        Read::CapacityZone(_) | Read::DomainName(_) => return None,
    })
}

/// The answer to a read without a call: the simulated EC2 has neither reservations nor sets of DHCP options.
fn without_call(read: &Read) -> Result<Found, CloudError> {
    match read {
        Read::DomainName(_) => Ok(Found::DomainName(None)),
        read => Err(CloudError::not_found(read.action(), "the simulated EC2 does not have it")),
    }
}

/// The answer of the simulated EC2.
fn answer(client: &mut Client<'_>, now: Timestamp, read: &Read) -> Result<Found, CloudError> {
    Ok(match read {
        Read::Vpcs(query) => Found::Vpcs(client.describe_vpcs(now, query)?),
        Read::Subnets(query) => Found::Subnets(client.describe_subnets(now, query)?),
        Read::SecurityGroups(query) => Found::SecurityGroups(client.describe_security_groups(now, query)?),
        Read::RouteTables(query) => Found::RouteTables(client.describe_route_tables(now, query)?),
        Read::NetworkInterfaces(query) => Found::NetworkInterfaces(client.describe_network_interfaces(now, query)?),
        Read::Images(query) => Found::Images(client.describe_images(now, query)?),
        Read::Hosts(query) => Found::Hosts(client.describe_hosts(now, query)?),
        Read::ElasticIps(query) => Found::ElasticIps(client.describe_addresses(now, query)?),
        Read::InstanceType(name) => Found::InstanceType(client.instance_type(now, name)?),
        Read::PublicParameter(name) => Found::PublicParameter(client.public_parameter(now, name)?),
        Read::FreeAddresses(pool) => Found::FreeAddresses(client.free_addresses(now, pool)?),
        Read::LoadBalancer(name) => Found::LoadBalancer(client.load_balancer(now, name)?),
        Read::Listeners(load_balancer) => Found::Listeners(client.listeners(now, load_balancer)?),
        Read::ClassicLoadBalancers(names) => Found::ClassicLoadBalancers(client.classic_load_balancers(now, names)?),
        Read::TargetGroups(arns) => Found::TargetGroups(client.target_groups(now, arns)?),
        Read::TargetGroupsIn(vpc_id) => Found::TargetGroupsIn(client.target_groups_in(now, vpc_id)?),
        Read::TargetGroupTags(arns) => Found::TargetGroupTags(client.target_group_tags(now, arns)?),
        Read::CapacityZone(_) | Read::DomainName(_) => without_call(read)?,
    })
}
