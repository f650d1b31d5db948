//! What was read from an API server.

use std::collections::BTreeSet;

use serde::Serialize;

/// What was read, or why it could not be.
pub type Read<T> = Result<T, String>;

/// Facts about an API server that is to be a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberFacts {
    /// URL of the API server.
    pub server: String,
    /// Field of the kubeconfig that cannot be used from a Secret, because it names a program or a file.
    pub unusable_field: Option<String>,
    /// Answer to `GET /readyz`.
    pub readiness: Reached,
    /// Answer to `GET /version`.
    pub version: Read<String>,
    /// Who the API server takes the user of the kubeconfig for.
    pub user: Read<User>,
    /// What is served.
    pub resources: Read<BTreeSet<Resource>>,
    /// Groups whose own API server does not answer.
    pub stale_groups: Vec<String>,
    /// A Namespace and a ConfigMap were written as a dry run.
    pub dry_run: Read<()>,
    /// A watch answered before it ended.
    pub watch: Read<()>,
    /// The 95th percentile of the time of 20 small requests, in milliseconds.
    pub latency_milliseconds: Read<u64>,
    /// How far the clock of the API server is ahead, in seconds.
    pub clock_ahead_seconds: Read<i64>,
    /// UID of the namespace `kube-system`.
    pub cluster_id: Read<String>,
    /// What the user may not do of what a join does.
    pub missing_rights: Read<Vec<String>>,
    /// A token was requested as a dry run; `None`: there is no ServiceAccount to request it for.
    pub token: Option<Read<()>>,
    /// What the user may not do of what Cluster API does in a workload cluster.
    pub missing_workload_rights: Read<Vec<String>>,
    /// The nodes.
    pub nodes: Read<Nodes>,
    /// Whether the namespace of Karmada is there.
    pub has_karmada_namespace: Read<bool>,
}

/// What is known of the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Number of nodes that are ready.
    pub ready: usize,
    /// Names of nodes that no cloud controller has initialized: they have no provider id, or the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`.
    pub uninitialized: Vec<String>,
}

/// What became of the first request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reached {
    /// The API server is ready.
    Ready,
    /// It answered with this code.
    Answered(u16),
    /// No answer arrived.
    Unreachable(String),
}

/// A user as the API server knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    /// Name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// A resource that is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Group and version, for example `apps/v1`; `v1` for the core group.
    pub api_version: String,
    /// Plural name, for example `deployments`.
    pub plural: String,
}

impl Resource {
    /// The resource of this version and name.
    pub fn new(api_version: impl Into<String>, plural: impl Into<String>) -> Self {
        Self {
            api_version: api_version.into(),
            plural: plural.into(),
        }
    }
}
