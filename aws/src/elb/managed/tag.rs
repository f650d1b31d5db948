//! Tags of load balancers and target groups of managed clusters.

use capa_cloud::CloudError;
use capa_cloud::elb::tag::Call;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;

use super::super::ElbCalls;
use super::sdk_tags;

impl ElbCalls {
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
