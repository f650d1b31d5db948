//! What a Lease remembers for the processes that come after its holder: annotations on it. Renewals leave them alone,
//! and the right to renew a Lease is all that writing them takes.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// A few renewals may come in between.
const MOST_TRIES: usize = 5;

/// The annotations of a Lease. Without the Lease nothing is remembered.
#[derive(Clone)]
pub struct LeaseMemory {
    leases: Api<Lease>,
    name: String,
}

impl LeaseMemory {
    /// Of the Lease of this namespace and name.
    pub fn new(client: Client, namespace: &str, name: impl Into<String>) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name: name.into(),
        }
    }

    /// Whether the Lease has the annotation.
    ///
    /// # Errors
    /// The error of the API server, if it did not answer the question.
    pub async fn recalls(&self, annotation: &str) -> kube::Result<bool> {
        let lease = self.leases.get_opt(&self.name).await?;
        Ok(lease.is_some_and(|lease| lease.annotations().contains_key(annotation)))
    }

    /// Puts the annotation on the Lease.
    ///
    /// # Errors
    /// The error of the API server, also if the Lease does not exist.
    pub async fn remember(&self, annotation: &str) -> kube::Result<()> {
        for _ in 1..MOST_TRIES {
            match self.try_to_remember(annotation).await {
                Err(kube::Error::Api(status)) if status.is_conflict() => {}
                result => return result,
            }
        }
        self.try_to_remember(annotation).await
    }

    async fn try_to_remember(&self, annotation: &str) -> kube::Result<()> {
        let mut lease = self.leases.get(&self.name).await?;
        if lease.annotations().contains_key(annotation) {
            return Ok(());
        }
        lease.annotations_mut().insert(annotation.to_owned(), "true".to_owned());
        self.leases
            .replace(&self.name, &PostParams::default(), &lease)
            .await
            .map(drop)
    }
}
