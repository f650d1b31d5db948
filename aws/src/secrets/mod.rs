//! The AWS services that keep bootstrap data until an instance has fetched it: one file for each service.

mod parameter_store;
mod secrets_manager;

use capa_api::machine::SecretsBackend;
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, MachineKey, StoredSecret};

use self::parameter_store::ParameterStoreCalls;
use self::secrets_manager::SecretsManagerCalls;
use crate::sdk::call_runner::CallRunner;
use crate::sdk::clients::SecretsClients;

/// The calls of both services with one identity in one region.
#[derive(Clone)]
pub(crate) struct SecretsCalls {
    secrets_manager: SecretsManagerCalls,
    parameter_store: ParameterStoreCalls,
}

impl SecretsCalls {
    pub(crate) fn new(clients: &SecretsClients, runner: &CallRunner) -> Self {
        Self {
            secrets_manager: SecretsManagerCalls::new(clients.secrets_manager.clone(), runner.clone()),
            parameter_store: ParameterStoreCalls::new(clients.ssm.clone(), runner.clone()),
        }
    }

    /// Stores a secret under a name that is not taken.
    pub(crate) async fn create(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        match secret.backend {
            SecretsBackend::SecretsManager => self.secrets_manager.create(machine, secret).await,
            SecretsBackend::SsmParameterStore => self.parameter_store.create(machine, secret).await,
        }
    }

    /// Replaces the content of a secret.
    pub(crate) async fn replace(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        match secret.backend {
            SecretsBackend::SecretsManager => self.secrets_manager.replace(machine, secret).await,
            SecretsBackend::SsmParameterStore => self.parameter_store.replace(machine, secret).await,
        }
    }

    /// Deletes secrets. A name that does not exist is no error.
    pub(crate) async fn delete(
        &self,
        machine: &MachineKey,
        backend: SecretsBackend,
        names: &[String],
    ) -> Result<(), CloudError> {
        match backend {
            SecretsBackend::SecretsManager => self.secrets_manager.delete(machine, names).await,
            SecretsBackend::SsmParameterStore => self.parameter_store.delete(machine, names).await,
        }
    }
}

/// The permit of a call for a machine's bootstrap data.
async fn permit(
    runner: &CallRunner,
    action: &'static str,
    machine: &MachineKey,
    priority: Priority,
) -> Result<Permit, CloudError> {
    let turn = CallRequest::secret(action, runner.flow(), machine, priority);
    runner.permit(&turn).await
}

/// The permit of the call that replaces the content of a name that is taken. The call waits for its turn: a reconcile
/// that came back for the turn would try to create the name again, and would spend the turn on that.
async fn permit_to_replace(
    runner: &CallRunner,
    action: &'static str,
    machine: &MachineKey,
) -> Result<Permit, CloudError> {
    permit(&runner.patient(), action, machine, Priority::Launch).await
}
