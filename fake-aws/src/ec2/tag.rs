//! Tags of resources of every kind.

use capa_api::common::Tags;
use capa_cloud::CloudError;
use capa_cloud::ec2::tag::Call;
use capa_cloud::managed::ChangeAnswer;

use super::Ec2;

impl Ec2 {
    pub(super) fn call_tag(&mut self, action: &'static str, call: &Call<String>) -> Result<ChangeAnswer, CloudError> {
        let (Call::CreateTags { resource, .. } | Call::DeleteTags { resource, .. }) = call;
        let tags = self.tags_mut(resource).ok_or_else(|| not_found(action, resource))?;
        match call {
            Call::CreateTags { tags: added, .. } => *tags = with_tags(action, tags, added)?,
            Call::DeleteTags { keys, .. } => tags.retain(|key, _| !keys.contains(key)),
        }
        Ok(ChangeAnswer::Done)
    }

    /// The tags of a resource of any kind.
    pub(crate) fn tags_mut(&mut self, id: &str) -> Option<&mut Tags> {
        match id.split_once('-')?.0 {
            "vpc" => self.vpc_mut(id).map(|vpc| &mut vpc.tags),
            "subnet" => self.subnet_mut(id).map(|subnet| &mut subnet.tags),
            "igw" => self.internet_gateway_mut(id).map(|gateway| &mut gateway.tags),
            "eipalloc" => self.address_mut(id).map(|address| &mut address.tags),
            "nat" => self.nat_gateway_mut(id).map(|gateway| &mut gateway.tags),
            "rtb" => self.route_table_mut(id).map(|table| &mut table.tags),
            "sg" => self.security_group_mut(id).map(|group| &mut group.tags),
            _ => None,
        }
    }
}

/// Tags with others added, which AWS limits to 50.
pub(crate) fn with_tags(action: &'static str, tags: &Tags, added: &Tags) -> Result<Tags, CloudError> {
    let mut all = tags.clone();
    all.extend(added.clone());
    if all.len() > 50 {
        let message = "The maximum number of tags for a resource has been reached.";
        return Err(CloudError::answered(action, "TagLimitExceeded", message));
    }
    Ok(all)
}

fn not_found(action: &'static str, id: &str) -> CloudError {
    let message = format!("The ID '{id}' is not valid");
    CloudError::answered(action, "InvalidID.NotFound", &message)
}
