//! Facts about target groups and load balancers for the checks of infrastructure.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types;
use capa_cloud::CloudError;
use capa_preflight::facts::{Answer, HealthCheck, LoadBalancer, TargetGroup};

use super::load_balancer::{scheme, state};
use super::{ElbCalls, protocol, text};
use crate::ec2::failure;

impl ElbCalls {
    /// A target group with its attributes, read by two calls. `None` if it does not exist.
    pub(crate) async fn target_group_facts(&self, arn: &str) -> Result<Option<TargetGroup>, CloudError> {
        let request = self.client.describe_target_groups().target_group_arns(arn);
        let Some(answer) = self.runner.find("DescribeTargetGroups", arn, request.send()).await? else {
            return Ok(None);
        };
        let mut groups = answer.target_groups().iter().map(target_group);
        let Some(mut group) = groups.find(|group| group.arn == arn) else {
            return Ok(None);
        };
        group.attributes = self.attributes_of_target_group(arn).await.map_err(failure).into();
        Ok(Some(group))
    }

    /// A load balancer with its attributes and listeners, read by three calls. `None` if it does not exist.
    pub(crate) async fn load_balancer_facts(&self, arn: &str) -> Result<Option<LoadBalancer>, CloudError> {
        let request = self.client.describe_load_balancers().load_balancer_arns(arn);
        let Some(answer) = self.runner.find("DescribeLoadBalancers", arn, request.send()).await? else {
            return Ok(None);
        };
        let mut balancers = answer.load_balancers().iter().map(load_balancer);
        let Some(mut balancer) = balancers.find(|balancer| balancer.arn == arn) else {
            return Ok(None);
        };
        balancer.attributes = self.attributes_of_load_balancer(arn).await.map_err(failure).into();
        balancer.listeners = self.listeners_without_tags(arn).await.map_err(failure).into();
        Ok(Some(balancer))
    }

    pub(super) async fn attributes_of_target_group(&self, arn: &str) -> Result<BTreeMap<String, String>, CloudError> {
        let request = self.client.describe_target_group_attributes().target_group_arn(arn);
        let answer = self.runner.ask("DescribeTargetGroupAttributes", arn, request.send()).await?;
        let attributes = answer.attributes().iter();
        Ok(attributes.filter_map(|of| Some((of.key()?.to_owned(), of.value()?.to_owned()))).collect())
    }

    pub(super) async fn attributes_of_load_balancer(&self, arn: &str) -> Result<BTreeMap<String, String>, CloudError> {
        let request = self.client.describe_load_balancer_attributes().load_balancer_arn(arn);
        let answer = self.runner.ask("DescribeLoadBalancerAttributes", arn, request.send()).await?;
        let attributes = answer.attributes().iter();
        Ok(attributes.filter_map(|of| Some((of.key()?.to_owned(), of.value()?.to_owned()))).collect())
    }
}

fn target_group(group: &types::TargetGroup) -> TargetGroup {
    TargetGroup {
        arn: text(group.target_group_arn()),
        protocol: protocol(group.protocol()),
        port: group.port().unwrap_or_default(),
        vpc_id: text(group.vpc_id()),
        target_type: group.target_type().map_or("", types::TargetTypeEnum::as_str).into(),
        health_check: HealthCheck {
            protocol: protocol(group.health_check_protocol()),
            port: text(group.health_check_port()),
            path: group.health_check_path().map(str::to_owned),
            interval_seconds: group.health_check_interval_seconds().unwrap_or_default(),
            healthy_threshold: group.healthy_threshold_count().unwrap_or_default(),
            unhealthy_threshold: group.unhealthy_threshold_count().unwrap_or_default(),
        },
        load_balancer_arns: group.load_balancer_arns().to_vec(),
        attributes: Answer::NotAsked,
    }
}

fn load_balancer(balancer: &types::LoadBalancer) -> LoadBalancer {
    let zones = balancer.availability_zones().iter();
    let zones = zones.filter_map(|zone| Some((zone.zone_name()?.to_owned(), text(zone.subnet_id()))));
    LoadBalancer {
        arn: text(balancer.load_balancer_arn()),
        name: text(balancer.load_balancer_name()),
        dns_name: text(balancer.dns_name()),
        balancer_type: balancer.r#type().map_or("", types::LoadBalancerTypeEnum::as_str).into(),
        scheme: scheme(balancer.scheme()),
        state: state(balancer.state()),
        vpc_id: text(balancer.vpc_id()),
        ip_address_type: balancer.ip_address_type().map_or("", types::IpAddressType::as_str).into(),
        zones: zones.collect(),
        security_group_ids: balancer.security_groups().to_vec(),
        attributes: Answer::NotAsked,
        listeners: Answer::NotAsked,
    }
}
