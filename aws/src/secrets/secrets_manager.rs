//! Secrets Manager.

use aws_sdk_secretsmanager::primitives::Blob;
use aws_sdk_secretsmanager::types::Tag;
use capa_cloud::limits::Priority;
use capa_cloud::{CloudError, ErrorClass, MachineKey, SecretActions, StoredSecret};

use super::permit;
use crate::sdk::call_runner::CallRunner;

const ACTIONS: SecretActions = SecretActions::SECRETS_MANAGER;

/// Secrets Manager with one identity in one region.
#[derive(Clone)]
pub(super) struct SecretsManagerCalls {
    client: aws_sdk_secretsmanager::Client,
    runner: CallRunner,
}

impl SecretsManagerCalls {
    pub(super) fn new(client: aws_sdk_secretsmanager::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    pub(super) async fn create(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let permit = permit(&self.runner, ACTIONS.create, machine, Priority::Launch).await?;
        let tags = secret.tags.iter();
        let tags = tags.map(|(key, value)| Tag::builder().key(key).value(value).build());
        let request = self
            .client
            .create_secret()
            .name(&secret.name)
            .secret_binary(Blob::new(secret.content.clone()))
            .set_tags(Some(tags.collect()));
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    pub(super) async fn replace(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let permit = permit(&self.runner, ACTIONS.replace, machine, Priority::Launch).await?;
        let request =
            self.client.put_secret_value().secret_id(&secret.name).secret_binary(Blob::new(secret.content.clone()));
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    /// Deletes secrets without a recovery window, because only an attacker could still use the data, and the name has
    /// to become free again.
    pub(super) async fn delete(&self, machine: &MachineKey, names: &[String]) -> Result<(), CloudError> {
        for name in names {
            let permit = permit(&self.runner, ACTIONS.delete, machine, Priority::Tag).await?;
            let request = self.client.delete_secret().secret_id(name);
            let request = request.force_delete_without_recovery(true);
            match self.runner.call(permit, request.send()).await {
                Err(error) if error.class != ErrorClass::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
