//! Tags of load balancers, listeners and target groups.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types::TagDescription;
use capa_cloud::elb::tag::Call;
use capa_cloud::limits::CallRequest;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, MAX_TAGGED};

use super::ElbCalls;
use super::managed::sdk_tags;
use crate::sdk::pages::Page;

impl ElbCalls {
    /// The tags of target groups, or of load balancers and listeners of the second generation, by ARN. Each call for
    /// [`MAX_TAGGED`] of them counts as a page, whose token is the number of the ARNs before it.
    pub(crate) async fn tags_by_arn(
        &self,
        arns: &[String],
    ) -> Result<Vec<(String, BTreeMap<String, String>)>, CloudError> {
        if arns.is_empty() {
            return Ok(vec![]);
        }
        let turn = CallRequest::target_group_tags(self.runner.flow(), arns);
        let permit = self.runner.permit(&turn).await?;
        let fetch = |permit, token: Option<String>| async move {
            let before: usize = token.and_then(|token| token.parse().ok()).unwrap_or_default();
            let end = before + MAX_TAGGED;
            let asked = arns.iter().skip(before).take(MAX_TAGGED).cloned();
            let request = self.client.describe_tags().set_resource_arns(Some(asked.collect()));
            let answer = self.runner.call(permit, request.send()).await?;
            let described = answer.tag_descriptions().iter();
            Ok(Page {
                items: described
                    .filter_map(|described| Some((described.resource_arn()?.to_owned(), tags(described))))
                    .collect(),
                next: (end < arns.len()).then(|| end.to_string()),
            })
        };
        self.runner.pages(permit, &turn, fetch).await
    }

    pub(super) async fn tag_change(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::AddTags { resource, tags } => {
                let request = self.client.add_tags().resource_arns(resource);
                let request = request.set_tags(Some(sdk_tags(tags)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::RemoveTags { resource, keys } => {
                let request = self.client.remove_tags().resource_arns(resource);
                let request = request.set_tag_keys(Some(keys.iter().cloned().collect()));
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}

pub(super) fn tags(described: &TagDescription) -> BTreeMap<String, String> {
    let tags = described.tags().iter();
    let tags = tags.filter_map(|tag| Some((tag.key()?.to_owned(), tag.value().unwrap_or_default().to_owned())));
    tags.collect()
}
