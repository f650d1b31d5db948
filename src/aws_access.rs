//! Access to AWS for commands that run without a management cluster.

use std::sync::Arc;

use capa_aws::{Options, SessionPool};
use capa_cloud::limits::{Share, Shares};
use capa_cloud::managed::{ManagedClouds as _, ManagedObserver};
use capa_cloud::{ClusterKey, CredentialSource, ResolvedIdentity};
use prometheus_client::registry::Registry;

/// Sessions with the credentials of the environment, as the AWS CLI finds them. The sessions use AWS's full request
/// rates, because a command makes few calls and a person waits for the answers.
pub(crate) async fn pool() -> SessionPool {
    let shares = Shares { default: Share::WHOLE, ..Shares::default() };
    let options = Options { shares, ..Options::default() };
    SessionPool::new(options, &mut Registry::default()).await
}

/// Reads the resources of managed clusters in a region with these credentials.
pub(crate) async fn managed_observer(region: &str) -> Arc<dyn ManagedObserver> {
    pool().await.managed(&identity(), region)
}

/// The identity of these credentials.
pub(crate) fn identity() -> ResolvedIdentity {
    ResolvedIdentity {
        key: "environment".to_owned(),
        source: CredentialSource::Controller,
        cluster: ClusterKey::default(),
        is_for_one_cluster: false,
    }
}
