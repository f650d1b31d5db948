//! Tags of resources of managed clusters.

use aws_sdk_ec2::types::Tag;
use capa_cloud::CloudError;
use capa_cloud::ec2::tag::Call;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;

use super::Ec2Calls;
use super::updates::sdk_tags;

impl Ec2Calls {
    pub(super) async fn tag_call(&self, permit: Permit, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        match call {
            Call::CreateTags { resource, tags } => {
                let request = self.client.create_tags().resources(resource);
                let request = request.set_tags(Some(sdk_tags(tags)));
                self.runner.call(permit, request.send()).await?;
            }
            Call::DeleteTags { resource, keys } => {
                // A tag in the request without a value is removed whatever its current value is.
                let tags = keys.iter().map(|key| Tag::builder().key(key).build());
                let request = self.client.delete_tags().resources(resource);
                let request = request.set_tags(Some(tags.collect()));
                self.runner.call(permit, request.send()).await?;
            }
        }
        Ok(ChangeAnswer::Done)
    }
}
