//! The types of requirements.

use serde::Serialize;

use super::object::Object;
use super::wanted::Wanted;
use crate::rule::Category;

/// All that has to be provided for a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    /// Name of the cluster in the keys of AWS tags.
    pub cluster: String,
    /// Region of the cluster.
    pub region: String,
    /// The requirements, ordered by category.
    pub requirements: Vec<Requirement>,
}

/// Something that has to be provided.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// What the requirement is about.
    pub category: Category,
    /// Ids of the rules that check it.
    pub rules: Vec<&'static str>,
    /// The object that has to fulfil the requirement.
    pub object: Object,
    /// What the requirement demands of the object.
    pub wanted: Wanted,
    /// The requirement as a sentence.
    pub sentence: String,
}
