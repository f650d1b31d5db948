//! Load balancers of the second generation.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2 as elb;
use aws_sdk_elasticloadbalancingv2::types::{
    IpAddressType, LoadBalancerAttribute, LoadBalancerSchemeEnum, LoadBalancerTypeEnum, SubnetMapping,
};
use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::load_balancer::Call;
use capa_cloud::elb::{Listener, LoadBalancer, LoadBalancerState};
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::{ChangeAnswer, Details, Seen};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass, Query};
use futures::FutureExt;
use futures::future::{join, ready};

use super::managed::{answers_of, made, sdk_tags};
use super::{ElbCalls, PAGE_SIZE, UNKNOWN, text};
use crate::ec2::is_owned;
use crate::sdk::pages::Page;

impl ElbCalls {
    /// Looks up a load balancer of the second generation by its name; `None` if it does not exist.
    pub(crate) async fn load_balancer(&self, name: &str) -> Result<Option<Box<LoadBalancer>>, CloudError> {
        let turn = CallRequest::load_balancer(self.runner.flow(), name);
        let permit = self.runner.permit(&turn).await?;
        let request = self.client.describe_load_balancers().names(name);
        let answer = match self.runner.call(permit, request.send()).await {
            Err(error) if error.class == ErrorClass::NotFound => return Ok(None),
            answer => answer?,
        };
        Ok(answer.load_balancers().iter().map(load_balancer).find(|shown| shown.name == name).map(Box::new))
    }

    /// The load balancer with this ARN; `None` if it does not exist.
    pub(crate) async fn load_balancer_with_arn(&self, arn: &str) -> Result<Option<LoadBalancer>, CloudError> {
        let request = self.client.describe_load_balancers().load_balancer_arns(arn);
        let answer = self.runner.find("DescribeLoadBalancers", arn, request.send()).await?;
        let shown = answer.and_then(|answer| answer.load_balancers).unwrap_or_default();
        Ok(shown.iter().map(load_balancer).find(|shown| shown.arn == arn))
    }

    pub(crate) async fn load_balancer_attributes(&self, arn: &str) -> Result<BTreeMap<String, String>, CloudError> {
        let request = self.client.describe_load_balancer_attributes().load_balancer_arn(arn);
        let answer = self.runner.ask("DescribeLoadBalancerAttributes", arn, request.send()).await?;
        let attributes = answer.attributes().iter();
        Ok(attributes.filter_map(|of| Some((of.key()?.to_owned(), of.value()?.to_owned()))).collect())
    }

    /// The load balancers in a VPC, the load balancers with these names, and the listeners of those that the cluster
    /// owns. If the load balancers cannot be read, listeners are not read either.
    pub(super) async fn observe_load_balancers(
        &self,
        vpc: &str,
        names: &[String],
        tag: &str,
        known: &Details,
    ) -> (Seen<Vec<LoadBalancer>>, Seen<Vec<Listener>>) {
        let mut balancers = match self.tagged_load_balancers(vpc, names, known).await {
            Ok(balancers) => balancers,
            Err(error) => return (Seen::Failed(error), Seen::NotAsked),
        };
        let owned = balancers.iter().filter(|balancer| is_owned(&balancer.tags, tag));
        let owned: Vec<String> = owned.map(|balancer| balancer.arn.clone()).collect();
        let following = self.following();
        let attributes = owned.iter().map(|arn| match known.attributes.get(arn) {
            Some(attributes) => ready(Ok(attributes.clone())).boxed(),
            None => following.load_balancer_attributes(arn).boxed(),
        });
        let attributes = answers_of(attributes).boxed();
        let listeners = following.listeners_of(&owned, known).boxed();
        let (attributes, listeners) = join(attributes, listeners).await;
        for (arn, attributes) in owned.iter().zip(attributes) {
            let balancer = balancers.iter_mut().find(|balancer| balancer.arn == *arn);
            if let Some(balancer) = balancer {
                balancer.attributes = attributes.into();
            }
        }
        (Seen::Shown(balancers), listeners.into())
    }

    /// The load balancers in a VPC with their tags, and load balancers elsewhere that have one of these names, without
    /// tags.
    async fn tagged_load_balancers(
        &self,
        vpc: &str,
        names: &[String],
        known: &Details,
    ) -> Result<Vec<LoadBalancer>, CloudError> {
        let mut shown = self.all_load_balancers(vpc).await?;
        shown.retain(|balancer| balancer.vpc_id == vpc || names.contains(&balancer.name));
        let inside = shown.iter().filter(|balancer| balancer.vpc_id == vpc);
        let inside: Vec<String> = inside.map(|balancer| balancer.arn.clone()).collect();
        let mut tags = self.all_tags(&inside, known).await?;
        for balancer in &mut shown {
            balancer.tags = tags.remove(&balancer.arn).unwrap_or_default();
        }
        Ok(shown)
    }

    /// All load balancers of the region. The call has no filter for the VPC, and it fails for names without a load
    /// balancer.
    async fn all_load_balancers(&self, vpc: &str) -> Result<Vec<LoadBalancer>, CloudError> {
        let query = Query::filter("vpc-id", [vpc]);
        self.runner
            .describe("DescribeLoadBalancers", &query, |permit, token| async move {
                let request = self.client.describe_load_balancers().page_size(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_marker(token).send()).await?;
                Ok(Page {
                    items: answer.load_balancers().iter().map(load_balancer).collect(),
                    next: answer.next_marker,
                })
            })
            .await
    }

    pub(super) async fn load_balancer_change(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::CreateLoadBalancer { name, scheme, subnets, addresses, security_groups, tags } => {
                // A request has either mappings or subnets.
                let mappings = subnets.iter().zip(addresses).map(|(subnet, address)| {
                    let mapping = SubnetMapping::builder().subnet_id(subnet);
                    mapping.allocation_id(address).build()
                });
                let mappings: Vec<SubnetMapping> = mappings.collect();
                let subnets = Some(subnets.clone()).filter(|_| mappings.is_empty());
                let groups = Some(security_groups.clone()).filter(|groups| !groups.is_empty());
                let request = self.client.create_load_balancer().name(name);
                let request = request
                    .r#type(LoadBalancerTypeEnum::Network)
                    .ip_address_type(IpAddressType::Ipv4)
                    .scheme(sdk_scheme(*scheme))
                    .set_subnets(subnets)
                    .set_subnet_mappings(Some(mappings).filter(|mappings| !mappings.is_empty()))
                    .set_security_groups(groups)
                    .set_tags(Some(sdk_tags(tags)));
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.load_balancers().first();
                return made(action, shown.and_then(|shown| shown.load_balancer_arn()));
            }
            Call::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                let attributes = attributes.iter();
                let attributes =
                    attributes.map(|(key, value)| LoadBalancerAttribute::builder().key(*key).value(value).build());
                let request = self.client.modify_load_balancer_attributes();
                let request = request.load_balancer_arn(load_balancer).set_attributes(Some(attributes.collect()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::SetSubnets { load_balancer, subnets } => {
                let request = self.client.set_subnets().load_balancer_arn(load_balancer);
                let request = request.set_subnets(Some(subnets.clone()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::SetSecurityGroups { load_balancer, security_groups } => {
                let request = self.client.set_security_groups().load_balancer_arn(load_balancer);
                let request = request.set_security_groups(Some(security_groups.clone()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteLoadBalancer { load_balancer } => {
                let request = self.client.delete_load_balancer().load_balancer_arn(load_balancer);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

/// A load balancer without its tags and attributes, which the describe does not return.
fn load_balancer(balancer: &elb::types::LoadBalancer) -> LoadBalancer {
    let zones = balancer.availability_zones().iter();
    let zones = zones.filter_map(|zone| Some((zone.zone_name()?.to_owned(), text(zone.subnet_id()))));
    LoadBalancer {
        arn: text(balancer.load_balancer_arn()),
        name: text(balancer.load_balancer_name()),
        kind: balancer.r#type().map_or(UNKNOWN, elb::types::LoadBalancerTypeEnum::as_str).into(),
        vpc_id: text(balancer.vpc_id()),
        dns_name: text(balancer.dns_name()),
        scheme: scheme(balancer.scheme()),
        state: state(balancer.state()),
        ip_address_type: balancer.ip_address_type().map_or(UNKNOWN, elb::types::IpAddressType::as_str).into(),
        subnets: zones.collect(),
        security_group_ids: balancer.security_groups().to_vec(),
        attributes: Seen::NotAsked,
        tags: [].into(),
    }
}

/// A scheme that this version does not know counts as internet-facing.
fn scheme(scheme: Option<&elb::types::LoadBalancerSchemeEnum>) -> LoadBalancerScheme {
    match scheme {
        Some(elb::types::LoadBalancerSchemeEnum::Internal) => LoadBalancerScheme::Internal,
        _ => LoadBalancerScheme::InternetFacing,
    }
}

/// A state that this version does not know counts as provisioning: such a load balancer is neither used nor replaced.
fn state(state: Option<&elb::types::LoadBalancerState>) -> LoadBalancerState {
    match state.and_then(elb::types::LoadBalancerState::code) {
        Some(elb::types::LoadBalancerStateEnum::Active) => LoadBalancerState::Active,
        Some(elb::types::LoadBalancerStateEnum::ActiveImpaired) => LoadBalancerState::ActiveImpaired,
        Some(elb::types::LoadBalancerStateEnum::Failed) => {
            LoadBalancerState::Failed(text(state.and_then(elb::types::LoadBalancerState::reason)))
        }
        _ => LoadBalancerState::Provisioning,
    }
}

fn sdk_scheme(scheme: LoadBalancerScheme) -> LoadBalancerSchemeEnum {
    match scheme {
        LoadBalancerScheme::InternetFacing => LoadBalancerSchemeEnum::InternetFacing,
        LoadBalancerScheme::Internal => LoadBalancerSchemeEnum::Internal,
    }
}
