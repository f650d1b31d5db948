//! Elastic Load Balancing calls for managed clusters: reading the load balancers of a cluster with their target groups
//! and listeners, and changing them.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types::Tag;
use capa_api::common::Tags;
use capa_api::meta::cluster_tag;
use capa_cloud::CloudError;
use capa_cloud::elb::{Call, Observed};
use capa_cloud::managed::{ChangeAnswer, Details, Scope};
use capa_cloud::session::Permit;
use futures::future::{BoxFuture, join};
use futures::{FutureExt, StreamExt, stream};

use super::ElbCalls;

/// Maximum number of concurrent describes of single resources. Each waits for its turn, and AWS allows a few of them
/// per second.
const AT_ONCE: usize = 4;

impl ElbCalls {
    /// Reads all load balancers, target groups and listeners of a cluster in a VPC. Describes that do not depend on the
    /// answer of another one run concurrently. A generation is skipped if the scope names no load balancer of it.
    pub(crate) async fn observe(&self, scope: &Scope, vpc: &str) -> Observed {
        let tag = cluster_tag(&scope.cluster);
        let second = self.observe_second_generation(scope, vpc, &tag).boxed();
        let names = &scope.classic_load_balancers;
        let classic = self.observe_classic_load_balancers(vpc, names, &tag).boxed();
        let (second, classic_load_balancers) = join(second, classic).await;
        Observed { classic_load_balancers, ..second }
    }

    /// Reads the same resources without Classic Load Balancers.
    async fn observe_second_generation(&self, scope: &Scope, vpc: &str, tag: &str) -> Observed {
        if scope.load_balancers.is_empty() {
            return Observed::default();
        }
        let none = Details::default();
        let known = scope.known.as_deref().unwrap_or(&none);
        let balancers = self.observe_load_balancers(vpc, &scope.load_balancers, tag, known);
        let groups = self.observe_target_groups(vpc, &scope.target_groups, tag, known);
        let (balancers, groups) = (balancers.boxed(), groups.boxed());
        let ((load_balancers, listeners), target_groups) = join(balancers, groups).await;
        Observed { load_balancers, target_groups: target_groups.into(), listeners, ..Observed::default() }
    }

    /// Makes one call.
    pub(crate) async fn managed_call(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::LoadBalancer(call) => self.load_balancer_change(permit, call).await,
            Call::TargetGroup(call) => self.target_group_change(permit, call).await,
            Call::Listener(call) => self.listener_change(permit, call).await,
            Call::ClassicLoadBalancer(call) => self.classic_load_balancer_change(permit, call).await,
            Call::Tag(call) => self.tag_change(permit, call).await,
        }
    }

    /// The tags of each of these resources. Unknown tags are read; each call waits for its turn.
    pub(super) async fn all_tags(
        &self,
        arns: &[String],
        known: &Details,
    ) -> Result<BTreeMap<String, Tags>, CloudError> {
        let asked = arns.iter().filter(|arn| !known.tags.contains_key(*arn));
        let asked: Vec<String> = asked.cloned().collect();
        let mut tags = complete(self.following().tags_by_arn(&asked).await?, &asked)?;
        tags.extend(known.tags.clone());
        Ok(tags)
    }

    /// The same client with calls that wait for their turn, like the pages of an answer. These calls follow from an
    /// answer, and there may be more of them than turns are available at once.
    pub(super) fn following(&self) -> Self {
        Self { runner: self.runner.patient(), ..self.clone() }
    }
}

/// The answers to describes of single resources, in the order of the describes.
pub(super) async fn answers_of<A>(describes: impl IntoIterator<Item = BoxFuture<'_, A>>) -> Vec<A> {
    stream::iter(describes.into_iter().collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
}

/// The tags of each of these resources in an answer. An answer without one of the resources is an error, because its
/// owner would be unknown.
pub(super) fn complete(
    described: Vec<(String, Tags)>,
    resources: &[String],
) -> Result<BTreeMap<String, Tags>, CloudError> {
    let tags: BTreeMap<String, Tags> = described.into_iter().collect();
    match resources.iter().find(|resource| !tags.contains_key(*resource)) {
        None => Ok(tags),
        Some(resource) => {
            let message = format!("the answer has no tags of {resource}");
            Err(CloudError::no_answer("DescribeTags", message))
        }
    }
}

/// The tags that a resource gets in the call that creates it.
pub(super) fn sdk_tags(tags: &Tags) -> Vec<Tag> {
    let tags = tags.iter();
    tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}

/// The number in the type of the API. A number that is too large becomes the largest one, which AWS refuses.
pub(super) fn number(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The answer to a call that creates a resource: its ARN.
pub(super) fn made(action: &'static str, arn: Option<&str>) -> Result<ChangeAnswer, CloudError> {
    let arn = arn.filter(|arn| !arn.is_empty());
    let arn = arn.ok_or_else(|| CloudError::no_answer(action, "the answer shows no ARN"))?;
    Ok(ChangeAnswer::Made(arn.to_owned()))
}
