//! Secrets Manager and Parameter Store, as far as bootstrap data needs them. A name is taken at once and is free again at
//! once: the simulation leaves out that AWS deletes secrets with a delay.

use capa_api::machine::SecretsBackend;
use jiff::Timestamp;

use crate::{CloudError, SecretActions, StoredSecret};

use super::client::Client;
use super::region::Region;

impl Client<'_> {
    /// CreateSecret, or PutParameter without leave to overwrite.
    pub fn create_secret(&mut self, now: Timestamp, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(secret.backend).create;
        let (region, _) = self.enter(now, action, 0)?;
        if region.secret(secret.backend, &secret.name).is_some() {
            let message = format!(
                "The operation failed because the secret {} already exists.",
                secret.name
            );
            let code = match secret.backend {
                SecretsBackend::SecretsManager => "ResourceExistsException",
                SecretsBackend::SsmParameterStore => "ParameterAlreadyExists",
            };
            return Err(CloudError::answered(action, code, &message));
        }
        region.secrets.push(secret.clone());
        Ok(())
    }

    /// PutSecretValue, or PutParameter with leave to overwrite. Tags stay as they are.
    pub fn replace_secret(&mut self, now: Timestamp, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(secret.backend).replace;
        let (region, _) = self.enter(now, action, 0)?;
        let mut secrets = region.secrets.iter_mut();
        let stored = secrets.find(|stored| stored.backend == secret.backend && stored.name == secret.name);
        let Some(stored) = stored else {
            let message = format!("Secrets Manager can't find the specified secret {}.", secret.name);
            return Err(CloudError::answered(action, "ResourceNotFoundException", &message));
        };
        stored.content.clone_from(&secret.content);
        Ok(())
    }

    /// DeleteSecret without recovery, or DeleteParameters. A name that does not exist is no error.
    pub fn delete_secrets(
        &mut self,
        now: Timestamp,
        backend: SecretsBackend,
        names: &[String],
    ) -> Result<(), CloudError> {
        let action = SecretActions::of(backend).delete;
        let (region, _) = self.enter(now, action, 0)?;
        region
            .secrets
            .retain(|stored| stored.backend != backend || !names.contains(&stored.name));
        Ok(())
    }
}

impl Region {
    /// The secret of this name.
    pub fn secret(&self, backend: SecretsBackend, name: &str) -> Option<&StoredSecret> {
        let mut secrets = self.secrets.iter();
        secrets.find(|stored| stored.backend == backend && stored.name == name)
    }

    /// All secrets.
    pub fn secrets(&self) -> &[StoredSecret] {
        &self.secrets
    }
}
