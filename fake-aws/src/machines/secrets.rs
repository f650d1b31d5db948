//! Secrets Manager, Parameter Store and S3, as far as bootstrap data needs them. A name is taken at once and is free
//! again at once: the simulation leaves out that AWS deletes secrets with a delay.

use capa_api::machine::SecretsBackend;
use jiff::Timestamp;

use capa_cloud::{CloudError, PresignRequest, PresignedUrl, SecretActions, SecretStore, StoredSecret};

use super::client::Client;
use super::region::Region;

impl Client<'_> {
    /// CreateSecret, PutParameter without leave to overwrite, or PutObject, which replaces what the key holds.
    pub fn create_secret(&mut self, now: Timestamp, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(&secret.store).create;
        let (region, _) = self.enter(now, action, 0)?;
        let code = match &secret.store {
            SecretStore::Bucket(name) => {
                region.find_bucket(action, name)?;
                region.remove_secrets(&secret.store, std::slice::from_ref(&secret.name));
                None
            }
            SecretStore::Service(SecretsBackend::SecretsManager) => Some("ResourceExistsException"),
            SecretStore::Service(SecretsBackend::SsmParameterStore) => Some("ParameterAlreadyExists"),
        };
        if let Some(code) = code
            && region.secret(&secret.store, &secret.name).is_some()
        {
            let message = format!("The operation failed because the secret {} already exists.", secret.name);
            return Err(CloudError::answered(action, code, &message));
        }
        region.secrets.push(secret.clone());
        Ok(())
    }

    /// PutSecretValue, or PutParameter with leave to overwrite. Tags stay as they are.
    pub fn replace_secret(&mut self, now: Timestamp, secret: &StoredSecret) -> Result<(), CloudError> {
        let action = SecretActions::of(&secret.store).replace;
        let (region, _) = self.enter(now, action, 0)?;
        let mut secrets = region.secrets.iter_mut();
        let stored = secrets.find(|stored| stored.store == secret.store && stored.name == secret.name);
        let Some(stored) = stored else {
            let message = format!("Secrets Manager can't find the specified secret {}.", secret.name);
            return Err(CloudError::answered(action, "ResourceNotFoundException", &message));
        };
        stored.content.clone_from(&secret.content);
        Ok(())
    }

    /// DeleteSecret without recovery, DeleteParameters, or DeleteObject. A name that does not exist is no error.
    pub fn delete_secrets(&mut self, now: Timestamp, store: &SecretStore, names: &[String]) -> Result<(), CloudError> {
        let action = SecretActions::of(store).delete;
        let (region, _) = self.enter(now, action, 0)?;
        if let SecretStore::Bucket(name) = store {
            region.find_bucket(action, name)?;
        }
        region.remove_secrets(store, names);
        Ok(())
    }
}

impl Region {
    /// Makes a bucket.
    pub fn put_bucket(&mut self, name: &str) {
        self.s3_buckets.insert(name.to_owned());
    }

    fn find_bucket(&self, action: &'static str, name: &str) -> Result<(), CloudError> {
        if self.s3_buckets.contains(name) {
            return Ok(());
        }
        let message = "The specified bucket does not exist";
        Err(CloudError::answered(action, "NoSuchBucket", message))
    }

    fn remove_secrets(&mut self, store: &SecretStore, names: &[String]) {
        self.secrets.retain(|stored| stored.store != *store || !names.contains(&stored.name));
    }

    /// The secret of this name.
    pub fn secret(&self, store: &SecretStore, name: &str) -> Option<&StoredSecret> {
        let mut secrets = self.secrets.iter();
        secrets.find(|stored| stored.store == *store && stored.name == name)
    }

    /// All secrets, objects in buckets among them.
    pub fn secrets(&self) -> &[StoredSecret] {
        &self.secrets
    }
}

/// A presigned URL as S3 would read it, but for the signature. As with AWS, equal requests have equal URLs while they
/// are signed with the same credentials.
pub(super) fn presigned(request: &PresignRequest, region: &str, credentials: &str) -> PresignedUrl {
    let PresignRequest { bucket, key, valid_from, valid_for } = request;
    PresignedUrl::new(format!(
        "https://{bucket}.s3.{region}.amazonaws.com/{key}?X-Amz-Date={}&X-Amz-Expires={}\
         &X-Amz-Credential={credentials}",
        valid_from.as_second(),
        valid_for.as_secs()
    ))
}
