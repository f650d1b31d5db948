//! Classic Load Balancers, the first generation: those that users name, and those of managed clusters.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancing::error::BuildError;
use aws_sdk_elasticloadbalancing::types::{
    self, ConnectionSettings, CrossZoneLoadBalancing, LoadBalancerAttributes, LoadBalancerDescription, Tag, TagKeyOnly,
};
use capa_api::cluster::load_balancer::{HealthCheckTiming, LoadBalancerScheme};
use capa_api::common::Tags;
use capa_cloud::elb::classic_load_balancer::Call;
use capa_cloud::elb::{ClassicAttributes, ClassicHealthCheck, ClassicListener, ClassicLoadBalancer};
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::{ChangeAnswer, Seen};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ErrorClass, MAX_TAGGED, Query};
use futures::FutureExt;

use super::managed::{answers_of, complete, number};
use super::{ElbCalls, PAGE_SIZE, text};
use crate::ec2::is_owned;
use crate::sdk::pages::Page;

/// AWS's name of the internal scheme, the only scheme that a request names. Without it, a load balancer is
/// internet-facing.
const INTERNAL: &str = "internal";

impl ElbCalls {
    /// Whether a classic load balancer exists for each of these names.
    pub(crate) async fn classic_load_balancers(&self, names: &[String]) -> Result<bool, CloudError> {
        let turn = CallRequest::load_balancer(self.runner.flow(), &names.join(" "));
        let permit = self.runner.permit(&turn).await?;
        let request = self.classic.describe_load_balancers();
        let request = request.set_load_balancer_names(Some(names.to_vec()));
        let answer = self.runner.call(permit, request.send()).await;
        match answer {
            Err(error) if error.class == ErrorClass::NotFound => Ok(false),
            answer => {
                let answer = answer?;
                let shown = answer.load_balancer_descriptions();
                let is_shown = |name: &String| shown.iter().any(|shown| shown.load_balancer_name() == Some(name));
                Ok(names.iter().all(is_shown))
            }
        }
    }

    /// The Classic Load Balancers in a VPC with their tags, and those elsewhere with one of these names. Load balancers
    /// that the cluster owns also have their attributes. Nothing is read if there are no names.
    pub(super) async fn observe_classic_load_balancers(
        &self,
        vpc: &str,
        names: &[String],
        tag: &str,
    ) -> Seen<Vec<ClassicLoadBalancer>> {
        if names.is_empty() {
            return Seen::NotAsked;
        }
        let mut balancers = match self.tagged_classic_load_balancers(vpc, names).await {
            Ok(balancers) => balancers,
            Err(error) => return Seen::Failed(error),
        };
        let owned = balancers.iter_mut().filter(|balancer| is_owned(&balancer.tags, tag));
        let mut owned: Vec<&mut ClassicLoadBalancer> = owned.collect();
        let names: Vec<String> = owned.iter().map(|balancer| balancer.name.clone()).collect();
        let following = self.following();
        let attributes = names.iter().map(|name| following.classic_attributes(name).boxed());
        let attributes = answers_of(attributes).await;
        for (balancer, attributes) in owned.iter_mut().zip(attributes) {
            balancer.attributes = attributes.into();
        }
        Seen::Shown(balancers)
    }

    /// The Classic Load Balancers in a VPC with their tags, and those elsewhere that have one of these names, without
    /// tags.
    async fn tagged_classic_load_balancers(
        &self,
        vpc: &str,
        names: &[String],
    ) -> Result<Vec<ClassicLoadBalancer>, CloudError> {
        let mut shown = self.all_classic_load_balancers(vpc).await?;
        // AWS treats names that differ only in case as the same.
        let is_named = |shown: &str| names.iter().any(|name| name.eq_ignore_ascii_case(shown));
        shown.retain(|balancer| balancer.vpc_id == vpc || is_named(&balancer.name));
        let inside = shown.iter_mut().filter(|balancer| balancer.vpc_id == vpc);
        let mut inside: Vec<&mut ClassicLoadBalancer> = inside.collect();
        let names: Vec<String> = inside.iter().map(|balancer| balancer.name.clone()).collect();
        let mut tags = self.all_classic_tags(&names).await?;
        for balancer in &mut inside {
            balancer.tags = tags.remove(&balancer.name).unwrap_or_default();
        }
        Ok(shown)
    }

    /// All Classic Load Balancers of the region. The call has no filter for the VPC, and it fails for names without a
    /// load balancer. It waits for its turn, because the call of the same name for the second generation may take the
    /// first turn.
    async fn all_classic_load_balancers(&self, vpc: &str) -> Result<Vec<ClassicLoadBalancer>, CloudError> {
        let query = Query::filter("classic-vpc-id", [vpc]);
        let patient = self.following().runner;
        patient
            .describe("DescribeLoadBalancers", &query, |permit, token| async move {
                let request = self.classic.describe_load_balancers().page_size(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_marker(token).send()).await?;
                Ok(Page {
                    items: answer.load_balancer_descriptions().iter().map(load_balancer).collect(),
                    next: answer.next_marker,
                })
            })
            .await
    }

    /// The tags of each of these load balancers. Each call for [`MAX_TAGGED`] of them waits for its turn and counts as
    /// a page, whose token is the number of the names before it.
    async fn all_classic_tags(&self, names: &[String]) -> Result<BTreeMap<String, Tags>, CloudError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let query = Query::filter("load-balancer-name", names);
        let fetch = |permit, token: Option<String>| async move {
            let before: usize = token.and_then(|token| token.parse().ok()).unwrap_or_default();
            let end = before + MAX_TAGGED;
            let asked = names.iter().skip(before).take(MAX_TAGGED).cloned();
            let request = self.classic.describe_tags();
            let request = request.set_load_balancer_names(Some(asked.collect()));
            let answer = self.runner.call(permit, request.send()).await?;
            let described = answer.tag_descriptions().iter();
            Ok(Page {
                items: described
                    .filter_map(|described| Some((described.load_balancer_name()?.to_owned(), tags(described))))
                    .collect(),
                next: (end < names.len()).then(|| end.to_string()),
            })
        };
        let patient = self.following().runner;
        let described = patient.describe("DescribeTags", &query, fetch).await?;
        complete(described, names)
    }

    async fn classic_attributes(&self, name: &str) -> Result<ClassicAttributes, CloudError> {
        let action = "DescribeLoadBalancerAttributes";
        let request = self.classic.describe_load_balancer_attributes();
        let request = request.load_balancer_name(name).send();
        let answer = self.runner.ask(action, name, request).await?;
        let attributes = answer.load_balancer_attributes();
        let zones = attributes.and_then(LoadBalancerAttributes::cross_zone_load_balancing);
        let connections = attributes.and_then(LoadBalancerAttributes::connection_settings);
        let (Some(zones), Some(connections)) = (zones, connections) else {
            return Err(CloudError::no_answer(action, "the answer lacks attributes"));
        };
        Ok(ClassicAttributes { is_cross_zone: zones.enabled(), idle_timeout_seconds: connections.idle_timeout() })
    }

    pub(super) async fn classic_load_balancer_change(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let client = &self.classic;
        match call {
            Call::CreateLoadBalancer { name, scheme, subnets, security_groups, listener, tags } => {
                let unbuilt = not_built(permit.action);
                let scheme = (*scheme == LoadBalancerScheme::Internal).then(|| INTERNAL.to_owned());
                let groups = Some(security_groups.clone()).filter(|groups| !groups.is_empty());
                let request = client.create_load_balancer().load_balancer_name(name);
                let request = request
                    .set_scheme(scheme)
                    .set_subnets(Some(subnets.clone()))
                    .set_security_groups(groups)
                    .listeners(sdk_listener(listener).map_err(unbuilt)?)
                    .set_tags(Some(sdk_tags(tags).map_err(unbuilt)?));
                self.runner.call(permit, request.send()).await?;
                // The answer contains only the DNS name.
                return Ok(ChangeAnswer::Made(name.clone()));
            }
            Call::CreateLoadBalancerListeners { load_balancer, listener } => {
                self.create_classic_listener(permit, load_balancer, listener).await?;
            }
            Call::ConfigureHealthCheck { load_balancer, health_check } => {
                self.configure_health_check(permit, load_balancer, health_check).await?;
            }
            Call::ModifyLoadBalancerAttributes { load_balancer, attributes } => {
                self.set_classic_attributes(permit, load_balancer, *attributes).await?;
            }
            Call::AttachLoadBalancerToSubnets { load_balancer, subnets } => {
                let request = client.attach_load_balancer_to_subnets().load_balancer_name(load_balancer);
                let request = request.set_subnets(Some(subnets.clone()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::ApplySecurityGroupsToLoadBalancer { load_balancer, security_groups } => {
                let request = client.apply_security_groups_to_load_balancer();
                let request = request.load_balancer_name(load_balancer);
                let request = request.set_security_groups(Some(security_groups.clone()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::AddTags { load_balancer, tags } => {
                let tags = sdk_tags(tags).map_err(not_built(permit.action))?;
                let request = client.add_tags().load_balancer_names(load_balancer);
                self.runner.call(permit, request.set_tags(Some(tags)).send()).await?;
            }
            Call::RemoveTags { load_balancer, keys } => {
                let keys = keys.iter().map(|key| TagKeyOnly::builder().key(key).build());
                let request = client.remove_tags().load_balancer_names(load_balancer);
                let request = request.set_tags(Some(keys.collect()));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteLoadBalancer { load_balancer } => {
                let request = client.delete_load_balancer().load_balancer_name(load_balancer);
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }

    async fn create_classic_listener(
        &self,
        permit: Permit,
        name: &str,
        listener: &ClassicListener,
    ) -> Result<(), CloudError> {
        let listener = sdk_listener(listener).map_err(not_built(permit.action))?;
        let request = self.classic.create_load_balancer_listeners();
        let request = request.load_balancer_name(name).listeners(listener);
        self.runner.call(permit, request.send()).await.map(drop)
    }

    async fn configure_health_check(
        &self,
        permit: Permit,
        name: &str,
        health_check: &ClassicHealthCheck,
    ) -> Result<(), CloudError> {
        let timing = &health_check.timing;
        let health_check = types::HealthCheck::builder()
            .target(&health_check.target)
            .interval(number(timing.interval_seconds))
            .timeout(number(timing.timeout_seconds))
            .healthy_threshold(number(timing.threshold_count))
            .unhealthy_threshold(number(timing.unhealthy_threshold_count))
            .build()
            .map_err(not_built(permit.action))?;
        let request = self.classic.configure_health_check();
        let request = request.load_balancer_name(name).health_check(health_check);
        self.runner.call(permit, request.send()).await.map(drop)
    }

    /// Changes only the attributes that the request names.
    async fn set_classic_attributes(
        &self,
        permit: Permit,
        name: &str,
        attributes: ClassicAttributes,
    ) -> Result<(), CloudError> {
        let zones = CrossZoneLoadBalancing::builder().enabled(attributes.is_cross_zone);
        let connections = ConnectionSettings::builder().idle_timeout(attributes.idle_timeout_seconds);
        let connections = connections.build().map_err(not_built(permit.action))?;
        let attributes = LoadBalancerAttributes::builder().cross_zone_load_balancing(zones.build());
        let request = self.classic.modify_load_balancer_attributes().load_balancer_name(name);
        let request = request.load_balancer_attributes(attributes.connection_settings(connections).build());
        self.runner.call(permit, request.send()).await.map(drop)
    }
}

/// The error if the SDK cannot build a request. The request is not sent.
fn not_built(action: &'static str) -> impl Fn(BuildError) -> CloudError + Copy {
    move |error| CloudError::no_answer(action, error.to_string())
}

fn sdk_listener(listener: &ClassicListener) -> Result<types::Listener, BuildError> {
    types::Listener::builder()
        .protocol(listener.protocol.to_string())
        .load_balancer_port(listener.port)
        .instance_protocol(listener.instance_protocol.to_string())
        .instance_port(listener.instance_port)
        .build()
}

fn sdk_tags(tags: &Tags) -> Result<Vec<Tag>, BuildError> {
    let tags = tags.iter();
    tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

fn tags(described: &types::TagDescription) -> Tags {
    let tags = described.tags().iter();
    tags.map(|tag| (tag.key().to_owned(), tag.value().unwrap_or_default().to_owned())).collect()
}

/// A load balancer without its tags and attributes, which the describe does not return. A scheme that this version does
/// not know counts as internet-facing.
fn load_balancer(balancer: &LoadBalancerDescription) -> ClassicLoadBalancer {
    let listeners = balancer.listener_descriptions().iter();
    let listeners = listeners.filter_map(types::ListenerDescription::listener);
    ClassicLoadBalancer {
        name: text(balancer.load_balancer_name()),
        vpc_id: text(balancer.vpc_id()),
        dns_name: text(balancer.dns_name()),
        scheme: match balancer.scheme() {
            Some(INTERNAL) => LoadBalancerScheme::Internal,
            _ => LoadBalancerScheme::InternetFacing,
        },
        subnet_ids: balancer.subnets().to_vec(),
        zones: balancer.availability_zones().to_vec(),
        security_group_ids: balancer.security_groups().to_vec(),
        listeners: listeners.map(listener).collect(),
        health_check: health_check(balancer.health_check()),
        attributes: Seen::NotAsked,
        tags: [].into(),
    }
}

/// If AWS shows no protocol for the instances, it is the protocol of the clients.
fn listener(listener: &types::Listener) -> ClassicListener {
    let protocol = listener.protocol();
    ClassicListener {
        port: listener.load_balancer_port(),
        protocol: protocol.into(),
        instance_port: listener.instance_port(),
        instance_protocol: listener.instance_protocol().unwrap_or(protocol).into(),
    }
}

/// The health check that AWS shows. Every load balancer has one; an absent one becomes a check that no spec requests.
fn health_check(shown: Option<&types::HealthCheck>) -> ClassicHealthCheck {
    let number = |number: fn(&types::HealthCheck) -> i32| shown.map(number).unwrap_or_default().into();
    ClassicHealthCheck {
        target: text(shown.map(types::HealthCheck::target)),
        timing: HealthCheckTiming {
            interval_seconds: number(types::HealthCheck::interval),
            timeout_seconds: number(types::HealthCheck::timeout),
            threshold_count: number(types::HealthCheck::healthy_threshold),
            unhealthy_threshold_count: number(types::HealthCheck::unhealthy_threshold),
        },
    }
}
