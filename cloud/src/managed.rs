//! What the reconciler of managed clusters reads and writes in AWS: one look at all resources of a cluster, and calls as
//! data.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::resource::{Answer, Effect, Repeat, Seen};
use crate::{CloudError, ResolvedIdentity, ec2};

/// Whose resources a look asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Name of the Cluster, which is in the tags of what it owns.
    pub cluster: String,
    /// Id of the VPC, where it is known: AWS may show the tags of a new VPC later than the VPC.
    pub vpc: Option<String>,
    /// Id of the internet gateway, where it is known.
    pub internet_gateway: Option<String>,
    /// Ids of the Elastic IPs that are known.
    pub addresses: Vec<String>,
}

/// What a look shows of the resources of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Observed {
    /// Resources of EC2.
    pub ec2: ec2::Observed,
}

/// One account and region as a managed cluster uses it. Whoever holds it may write; the reconciler of unmanaged
/// clusters has [`crate::ClusterCloud`].
#[async_trait]
pub trait ManagedCloud: Send + Sync {
    /// The account that the credentials belong to.
    async fn account_id(&self) -> Result<String, CloudError>;
    /// The names of the availability zones that the account can use without opting in, sorted.
    async fn zones(&self) -> Result<Vec<String>, CloudError>;
    /// All resources of a cluster. What AWS does not show is in the answer as such.
    ///
    /// # Errors
    /// The credentials have been replaced since the pass obtained their account.
    async fn observe(&self, scope: &Scope) -> Result<Observed, CloudError>;
    /// Makes one call.
    ///
    /// # Errors
    /// Those of AWS; and the credentials have been replaced since the pass obtained their account.
    async fn call(&self, call: &ec2::Call<String>) -> Result<Answer, CloudError>;
}

/// Gives the sessions that managed clusters are reconciled with.
pub trait ManagedClouds: Send + Sync {
    /// The session of an identity in a region. Makes no call.
    fn managed(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ManagedCloud>;
}
