//! Annotations on a Lease that the processes after its holder can read. Renewals keep the annotations, and the
//! permission to renew a Lease is sufficient to write them.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

/// A few renewals may conflict with a write.
const MAX_TRIES: usize = 5;

/// The annotations of a Lease. Nothing is remembered if the Lease does not exist.
#[derive(Clone)]
pub struct LeaseMemory {
    leases: Api<Lease>,
    name: String,
}

impl LeaseMemory {
    /// The memory in the Lease with this namespace and name.
    pub fn new(client: Client, namespace: &str, name: impl Into<String>) -> Self {
        Self { leases: Api::namespaced(client, namespace), name: name.into() }
    }

    /// Whether the Lease has the annotation.
    ///
    /// # Errors
    /// The error of the request.
    pub async fn recalls(&self, annotation: &str) -> kube::Result<bool> {
        let lease = self.leases.get_opt(&self.name).await?;
        Ok(lease.is_some_and(|lease| lease.annotations().contains_key(annotation)))
    }

    /// Puts the annotation on the Lease.
    ///
    /// # Errors
    /// The error of the request, which also fails if the Lease does not exist.
    pub async fn remember(&self, annotation: &str) -> kube::Result<()> {
        for _ in 1..MAX_TRIES {
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
        self.leases.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
    }
}
