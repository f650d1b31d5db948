//! Load balancers of the second generation.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2 as elb;
use capa_api::cluster::load_balancer::LoadBalancerScheme;
use capa_cloud::elb::{LoadBalancer, LoadBalancerState};
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::Seen;
use capa_cloud::{CloudError, ErrorClass};

use super::{ElbCalls, UNKNOWN, text};

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
}

/// A load balancer without its tags and attributes, which the describe does not return.
pub(super) fn load_balancer(balancer: &elb::types::LoadBalancer) -> LoadBalancer {
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
