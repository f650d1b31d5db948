//! Tags of load balancers of the second generation, and of their target groups.

use capa_cloud::CloudError;
use capa_cloud::elb::tag::Call;
use capa_cloud::managed::ChangeAnswer;

use super::Elb;
use crate::ec2::with_tags;

impl Elb {
    pub(super) fn call_tag(&mut self, action: &'static str, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let (Call::AddTags { resource, .. } | Call::RemoveTags { resource, .. }) = call;
        let known = self.tags_mut(resource).filter(|_| resource.starts_with("arn:"));
        let Some(tags) = known else {
            let message = format!("One or more resources not found: '{resource}'");
            return Err(CloudError::answered(action, "LoadBalancerNotFound", &message));
        };
        match call {
            Call::AddTags { tags: added, .. } => *tags = with_tags(action, tags, added)?,
            Call::RemoveTags { keys, .. } => tags.retain(|key, _| !keys.contains(key)),
        }
        Ok(ChangeAnswer::Done)
    }
}
