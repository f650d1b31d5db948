//! What was read from an API server.

use std::collections::BTreeSet;

use serde::Serialize;

/// A value that was read, or the reason why it could not be read.
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
    /// The user as whom the API server authenticates the kubeconfig.
    pub user: Read<User>,
    /// The resources that the API server serves.
    pub resources: Read<BTreeSet<Resource>>,
    /// API groups whose extension API server does not answer.
    pub stale_groups: Vec<String>,
    /// Whether a Namespace and a ConfigMap could be written as a dry run.
    pub dry_run: Read<()>,
    /// Whether a watch delivered an event.
    pub watch: Read<()>,
    /// The 95th percentile of the time of 20 small requests, in milliseconds.
    pub latency_milliseconds: Read<u64>,
    /// Seconds by which the clock of the API server is ahead.
    pub clock_ahead_seconds: Read<i64>,
    /// UID of the namespace `kube-system`.
    pub cluster_id: Read<String>,
    /// Permissions that a join needs and the user lacks.
    pub missing_rights: Read<Vec<String>>,
    /// Whether a token could be requested as a dry run; `None` if there is no ServiceAccount to request it for.
    pub token: Option<Read<()>>,
    /// Permissions that Cluster API needs in a workload cluster and the user lacks.
    pub missing_workload_rights: Read<Vec<String>>,
    /// The nodes.
    pub nodes: Read<Nodes>,
    /// Whether the namespace of Karmada exists.
    pub has_karmada_namespace: Read<bool>,
}

/// Facts about the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Number of nodes that are ready.
    pub ready: usize,
    /// Names of nodes that no cloud controller has initialized: they have no provider id, or the taint
    /// `node.cloudprovider.kubernetes.io/uninitialized`.
    pub uninitialized: Vec<String>,
}

/// The result of the first request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reached {
    /// The API server is ready.
    Ready,
    /// The API server answered with this status code.
    Answered(u16),
    /// No answer arrived.
    Unreachable(String),
}

/// A user as the API server authenticates it.
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
        Self { api_version: api_version.into(), plural: plural.into() }
    }
}
