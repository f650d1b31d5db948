//! Objects in S3. Each object holds the bootstrap data of one machine. The bucket belongs to the user; the provider
//! never changes the bucket or its policy.

use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use capa_cloud::limits::Priority;
use capa_cloud::{CloudError, ErrorClass, MachineKey, PresignRequest, PresignedUrl, SecretActions, StoredSecret};

use super::permit;
use crate::sdk::call_runner::CallRunner;
use crate::sdk::clients::SecretsClients;

const ACTIONS: SecretActions = SecretActions::S3;

/// The action that a presigned URL allows.
const GET: &str = "GetObject";

/// The media type of Ignition configurations.
const JSON: &str = "application/json";

/// S3 with one identity in one region.
#[derive(Clone)]
pub(super) struct BucketCalls {
    client: aws_sdk_s3::Client,
    signing_client: aws_sdk_s3::Client,
    runner: CallRunner,
}

impl BucketCalls {
    pub(super) fn new(clients: &SecretsClients, runner: CallRunner) -> Self {
        Self { client: clients.s3.clone(), signing_client: clients.signing_s3.clone(), runner }
    }

    /// Writes the object, and replaces an existing one. The default encryption of the bucket applies; every bucket has
    /// one.
    pub(super) async fn put(
        &self,
        machine: &MachineKey,
        bucket: &str,
        object: &StoredSecret,
    ) -> Result<(), CloudError> {
        let permit = permit(&self.runner, ACTIONS.create, machine, Priority::Launch).await?;
        let request = self
            .client
            .put_object()
            .bucket(bucket)
            .key(&object.name)
            .content_type(JSON)
            .body(ByteStream::from(object.content.clone()));
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    pub(super) async fn delete(&self, machine: &MachineKey, bucket: &str, keys: &[String]) -> Result<(), CloudError> {
        for key in keys {
            let permit = permit(&self.runner, ACTIONS.delete, machine, Priority::Tag).await?;
            let request = self.client.delete_object().bucket(bucket).key(key);
            match self.runner.call(permit, request.send()).await {
                Err(error) if error.class != ErrorClass::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Signs a URL, and sends nothing. A session that ends within minutes is replaced first, because the URL ends with
    /// it.
    pub(super) async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError> {
        let validity =
            PresigningConfig::builder().start_time(request.valid_from.into()).expires_in(request.valid_for).build();
        let validity = validity.map_err(|error| CloudError::no_answer(GET, error.to_string()))?;
        let object = self.signing_client.get_object().bucket(&request.bucket).key(&request.key);
        let signed = self.runner.sign(GET, object.presigned(validity)).await?;
        Ok(PresignedUrl::new(signed.uri()))
    }
}
