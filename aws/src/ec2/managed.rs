//! EC2 calls for managed clusters: reading all resources of a cluster, and changing them.

use aws_sdk_ec2::types::{ResourceType, TagSpecification};
use capa_api::common::Tags;
use capa_api::meta::{OWNED_TAG_VALUE, cluster_tag};
use capa_cloud::ec2::{Call, Observed, Vpc, VpcDns};
use capa_cloud::managed::{ChangeAnswer, Scope, Seen};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass, Query};
use futures::FutureExt;
use futures::future::{OptionFuture, join, join4, join5, ready};

use super::updates::sdk_tags;
use super::{Ec2Calls, some_text};

impl Ec2Calls {
    /// Reads all resources of a cluster. All describes run concurrently, except that the second describe of addresses
    /// follows the first. If the id of the VPC is not known, the describe that finds it runs first.
    pub(crate) async fn observe(&self, scope: &Scope) -> Observed {
        let tag = cluster_tag(&scope.cluster);
        if let Some(id) = &scope.vpc {
            let vpcs = self.vpc_with_id(id).map(Seen::from).boxed();
            return self.observe_vpc(vpcs, Some(id), scope, &tag).await;
        }
        let vpcs: Seen<Vec<Vpc>> = self.owned_vpcs(&tag).await.into();
        let only = only_vpc(&vpcs).map(str::to_owned);
        self.observe_vpc(ready(vpcs), only.as_deref(), scope, &tag).await
    }

    /// `vpcs` and all other resources. Resources inside a VPC are not read if `id` is absent.
    async fn observe_vpc(
        &self,
        vpcs: impl Future<Output = Seen<Vec<Vpc>>>,
        id: Option<&str>,
        scope: &Scope,
        tag: &str,
    ) -> Observed {
        let is_of_cluster = !scope.is_vpc_of_user;
        let known = scope.known.as_deref();
        let asks_details = is_of_cluster && known.is_none();
        let dns = OptionFuture::from(id.filter(|_| asks_details).map(|id| self.vpc_dns(id).boxed()));
        let subnets = OptionFuture::from(id.map(|id| self.subnets_in(id).boxed()));
        let internet_gateways = is_of_cluster.then(|| {
            let unattached = known.map(|known| known.unattached_gateways.clone());
            self.internet_gateways(tag, scope.internet_gateway.as_deref(), id, unattached).boxed()
        });
        let internet_gateways = OptionFuture::from(internet_gateways);
        let nat_gateways = OptionFuture::from(id.map(|id| self.nat_gateways_in(id).boxed()));
        let route_tables = OptionFuture::from(id.map(|id| self.route_tables_in(id).boxed()));
        let asks_addresses = scope.has_addresses && known.is_none();
        let addresses = asks_addresses.then(|| self.addresses(tag, &scope.addresses).boxed());
        let addresses = OptionFuture::from(addresses);
        let pool = scope.public_ipv4_pool.as_deref().filter(|_| asks_addresses);
        let free_addresses = OptionFuture::from(pool.map(|pool| self.free_addresses(pool).boxed()));
        let security_groups = OptionFuture::from(id.map(|id| self.security_groups_in(id).boxed()));
        let interfaces_of = id.filter(|_| scope.network_interfaces);
        let network_interfaces = OptionFuture::from(interfaces_of.map(|id| self.network_interfaces_in(id).boxed()));
        let inside = join5(vpcs, dns, subnets, nat_gateways, join(route_tables, security_groups));
        let others = join4(internet_gateways, addresses, free_addresses, network_interfaces);
        let (inside, others) = join(inside, others).await;
        let (internet_gateways, addresses, free_addresses, network_interfaces) = others;
        let (vpcs, dns, subnets, nat_gateways, (route_tables, security_groups)) = inside;
        Observed {
            dns: known.map_or_else(|| dns_of(&vpcs, asked(dns)), |known| known.dns.clone()),
            vpcs,
            subnets: asked(subnets),
            internet_gateways: asked(internet_gateways),
            nat_gateways: asked(nat_gateways),
            addresses: known.map_or_else(|| asked(addresses), |known| known.addresses.clone()),
            free_addresses: asked(free_addresses),
            route_tables: asked(route_tables),
            security_groups: asked(security_groups),
            network_interfaces: asked(network_interfaces),
        }
    }

    /// Makes one call.
    pub(crate) async fn managed_call(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::Vpc(call) => self.vpc_call(permit, call).await,
            Call::Subnet(call) => self.subnet_call(permit, call).await,
            Call::InternetGateway(call) => self.internet_gateway_call(permit, call).await,
            Call::NatGateway(call) => self.nat_gateway_call(permit, call).await,
            Call::RouteTable(call) => self.route_table_call(permit, call).await,
            Call::SecurityGroup(call) => self.security_group_call(permit, call).await,
            Call::Tag(call) => self.tag_call(permit, call).await,
        }
    }
}

/// The id of the VPC if there is exactly one.
pub(crate) fn only_vpc(vpcs: &Seen<Vec<Vpc>>) -> Option<&str> {
    match vpcs.shown().map(Vec::as_slice) {
        Some([only]) => Some(&only.id),
        _ => None,
    }
}

/// The observed state; `answer` is absent if no call was made.
fn asked<T>(answer: Option<Result<T, CloudError>>) -> Seen<T> {
    answer.map_or(Seen::NotAsked, Seen::from)
}

/// The DNS attributes of the VPC in `vpcs`. They are not read if the VPC is gone.
fn dns_of(vpcs: &Seen<Vec<Vpc>>, dns: Seen<VpcDns>) -> Seen<VpcDns> {
    let is_gone = vpcs.shown().is_some_and(Vec::is_empty);
    match dns {
        Seen::Failed(error) if is_gone && error.class == ErrorClass::NotFound => Seen::NotAsked,
        dns => dns,
    }
}

/// A filter for resources with the tag of the cluster. Callers check the tags of the answer again with [`is_owned`].
pub(super) fn owned(tag: &str) -> Query {
    Query::filter(format!("tag:{tag}"), [OWNED_TAG_VALUE])
}

/// Whether the cluster with this tag owns a resource with `tags`.
pub(crate) fn is_owned(tags: &Tags, tag: &str) -> bool {
    tags.get(tag).is_some_and(|value| value == OWNED_TAG_VALUE)
}

/// The tags that a resource gets in the call that creates it.
pub(super) fn tag_specification(resource: ResourceType, tags: &Tags) -> TagSpecification {
    TagSpecification::builder().resource_type(resource).set_tags(Some(sdk_tags(tags))).build()
}

/// The answer to a call that creates a resource: its id.
pub(super) fn made(action: &'static str, id: Option<&str>) -> Result<ChangeAnswer, CloudError> {
    let id = some_text(id).ok_or_else(|| CloudError::no_answer(action, "the answer shows no id"))?;
    Ok(ChangeAnswer::Made(id))
}
