//! Facts about the management cluster.

use serde::{Deserialize, Serialize};

use super::Answer;

/// What the API server of the management cluster answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesFacts {
    /// User name of the manager, whose permissions were asked for.
    #[serde(default)]
    pub manager: String,
    /// The infrastructure object of the Cluster and the network sources of machines.
    pub sources: Vec<SourceAccess>,
}

/// Whether a network source can be read, and the problem of its network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceAccess {
    /// Kind and name, for example `Landscape/dev`.
    pub object: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural name of the kind.
    pub resource: String,
    /// Whether the API server serves the kind.
    pub is_served: bool,
    /// Whether the CRD has the label of the network contract, or an AWSNetworkMapping describes the kind, or the
    /// provider knows it.
    pub is_described: bool,
    /// Whether the manager may read the object.
    pub is_readable_by_manager: Answer<bool>,
    /// What is wrong with the network that the object describes, with the path of the field; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
