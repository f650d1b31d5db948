//! The AWS services that keep bootstrap data until an instance has fetched it, with one file for each service.
//! Parameter Store also has the parameters that AWS publishes.

mod bucket;
mod parameter_store;
mod secrets_manager;

use capa_api::machine::SecretsBackend;
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, MachineKey, PresignRequest, PresignedUrl, SecretStore, StoredSecret};

use self::bucket::BucketCalls;
use self::parameter_store::ParameterStoreCalls;
use self::secrets_manager::SecretsManagerCalls;
use crate::sdk::call_runner::CallRunner;
use crate::sdk::clients::SecretsClients;

/// The calls of all services with one identity in one region.
#[derive(Clone)]
pub(crate) struct SecretsCalls {
    secrets_manager: SecretsManagerCalls,
    parameter_store: ParameterStoreCalls,
    bucket: BucketCalls,
}

impl SecretsCalls {
    pub(crate) fn new(clients: &SecretsClients, runner: &CallRunner) -> Self {
        Self {
            secrets_manager: SecretsManagerCalls::new(clients.secrets_manager.clone(), runner.clone()),
            parameter_store: ParameterStoreCalls::new(clients.ssm.clone(), runner.clone()),
            bucket: BucketCalls::new(clients, runner.clone()),
        }
    }

    /// Stores a secret. In a service, the name must be free; in a bucket, an existing object is replaced.
    pub(crate) async fn create(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        match &secret.store {
            SecretStore::Service(SecretsBackend::SecretsManager) => self.secrets_manager.create(machine, secret).await,
            SecretStore::Service(SecretsBackend::SsmParameterStore) => {
                self.parameter_store.create(machine, secret).await
            }
            SecretStore::Bucket(name) => self.bucket.put(machine, name, secret).await,
        }
    }

    /// Replaces the content of a secret.
    pub(crate) async fn replace(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        match &secret.store {
            SecretStore::Service(SecretsBackend::SecretsManager) => self.secrets_manager.replace(machine, secret).await,
            SecretStore::Service(SecretsBackend::SsmParameterStore) => {
                self.parameter_store.replace(machine, secret).await
            }
            SecretStore::Bucket(name) => self.bucket.put(machine, name, secret).await,
        }
    }

    /// The value of a parameter that AWS publishes in Parameter Store.
    pub(crate) async fn public_parameter(&self, name: &str) -> Result<String, CloudError> {
        self.parameter_store.public(name).await
    }

    /// Deletes secrets. A name that does not exist is not an error.
    pub(crate) async fn delete(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError> {
        match store {
            SecretStore::Service(SecretsBackend::SecretsManager) => self.secrets_manager.delete(machine, names).await,
            SecretStore::Service(SecretsBackend::SsmParameterStore) => {
                self.parameter_store.delete(machine, names).await
            }
            SecretStore::Bucket(name) => self.bucket.delete(machine, name, names).await,
        }
    }

    /// A presigned URL of an object.
    pub(crate) async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError> {
        self.bucket.presign(request).await
    }
}

/// The permit of a call for a machine's bootstrap data. Only the leader makes the call, because a process that was
/// suspended and has lost leadership would store secrets that nobody deletes.
async fn permit(
    runner: &CallRunner,
    action: &'static str,
    machine: &MachineKey,
    priority: Priority,
) -> Result<Permit, CloudError> {
    let turn = CallRequest::of_machine(action, runner.flow(), machine, priority);
    let permit = runner.permit(&turn).await?;
    runner.wait_until_leading().await;
    Ok(permit)
}
