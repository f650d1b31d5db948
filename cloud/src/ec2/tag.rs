//! Tags of EC2 resources in managed clusters. The call that creates a resource sets its tags; these calls change them
//! later.

use std::collections::BTreeSet;

use capa_api::common::Tags;
use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

/// A call about the tags of a resource; each variant is an action of EC2.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames, Serialize)]
#[serde(rename_all_fields = "camelCase")]
#[allow(missing_docs)]
pub enum Call<I> {
    CreateTags { resource: I, tags: Tags },
    DeleteTags { resource: I, keys: BTreeSet<String> },
}

impl<I> Call<I> {
    pub(super) fn try_map<J, E>(&self, id: &mut dyn FnMut(&I) -> Result<J, E>) -> Result<Call<J>, E> {
        Ok(match self {
            Self::CreateTags { resource, tags } => Call::CreateTags { resource: id(resource)?, tags: tags.clone() },
            Self::DeleteTags { resource, keys } => Call::DeleteTags { resource: id(resource)?, keys: keys.clone() },
        })
    }
}
