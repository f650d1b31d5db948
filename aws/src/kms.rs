//! Calls of the Key Management Service for the checks of infrastructure.

use aws_sdk_kms::types;
use capa_cloud::CloudError;
use capa_preflight::facts::EncryptionKey;

use crate::sdk::call_runner::CallRunner;

/// The Key Management Service with one identity in one region.
#[derive(Clone)]
pub(crate) struct KmsCalls {
    client: aws_sdk_kms::Client,
    runner: CallRunner,
}

impl KmsCalls {
    pub(crate) fn new(client: aws_sdk_kms::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    /// A key by its id, its ARN, or the name or ARN of an alias. `None` if it does not exist in the region.
    pub(crate) async fn key(&self, name: &str) -> Result<Option<EncryptionKey>, CloudError> {
        let request = self.client.describe_key().key_id(name);
        let answer = match self.runner.find("DescribeKey", name, request.send()).await {
            // KMS also returns this code for an ARN of another region.
            Err(error) if error.code.as_deref() == Some("InvalidArnException") => return Ok(None),
            answer => answer?,
        };
        let key = answer.and_then(|answer| answer.key_metadata);
        Ok(key.map(|key| EncryptionKey {
            state: key.key_state().map_or("", types::KeyState::as_str).into(),
            usage: key.key_usage().map_or("", types::KeyUsageType::as_str).into(),
            arn: key.arn.unwrap_or_default(),
        }))
    }
}
