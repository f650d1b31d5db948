//! Parameter Store of Systems Manager.

use aws_sdk_ssm::operation::put_parameter::builders::PutParameterFluentBuilder;
use aws_sdk_ssm::types::{ParameterTier, ParameterType, Tag};
use capa_cloud::limits::Priority;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, MachineKey, SecretActions, StoredSecret};

use super::permit;
use crate::sdk::call_runner::CallRunner;

const ACTIONS: SecretActions = SecretActions::PARAMETER_STORE;

/// Maximum number of names in a call of DeleteParameters
/// (<https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_DeleteParameters.html>).
const MAX_DELETED: usize = 10;

/// Parameter Store with one identity in one region.
#[derive(Clone)]
pub(super) struct ParameterStoreCalls {
    client: aws_sdk_ssm::Client,
    runner: CallRunner,
}

impl ParameterStoreCalls {
    pub(super) fn new(client: aws_sdk_ssm::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    pub(super) async fn create(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let tags = secret.tags.iter().map(|(key, value)| {
            let tag = Tag::builder().key(key).value(value).build();
            tag.map_err(|error| CloudError::no_answer(ACTIONS.create, error.to_string()))
        });
        let tags = tags.collect::<Result<Vec<_>, _>>()?;
        let permit = permit(&self.runner, ACTIONS.create, machine, Priority::Launch).await?;
        self.put(permit, self.request(secret).set_tags(Some(tags))).await
    }

    /// Overwrites a parameter. The call has no tags, because Parameter Store accepts none in a call that may overwrite.
    pub(super) async fn replace(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        let permit = permit(&self.runner, ACTIONS.replace, machine, Priority::Launch).await?;
        self.put(permit, self.request(secret).overwrite(true)).await
    }

    fn request(&self, secret: &StoredSecret) -> PutParameterFluentBuilder {
        self.client
            .put_parameter()
            .name(&secret.name)
            .r#type(ParameterType::SecureString)
            .tier(ParameterTier::Standard)
            .value(String::from_utf8_lossy(&secret.content))
    }

    async fn put(&self, permit: Permit, request: PutParameterFluentBuilder) -> Result<(), CloudError> {
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    /// The value of a parameter that AWS publishes.
    pub(super) async fn public(&self, name: &str) -> Result<String, CloudError> {
        let action = "GetParameter";
        let request = self.client.get_parameter().name(name);
        let answer = self.runner.ask(action, name, request.send()).await?;
        let value = answer.parameter.and_then(|parameter| parameter.value);
        value.ok_or_else(|| CloudError::no_answer(action, "the answer has no value"))
    }

    /// Deletes parameters. Names that do not exist are not an error; the answer lists them.
    pub(super) async fn delete(&self, machine: &MachineKey, names: &[String]) -> Result<(), CloudError> {
        for names in names.chunks(MAX_DELETED) {
            let permit = permit(&self.runner, ACTIONS.delete, machine, Priority::Tag).await?;
            let request = self.client.delete_parameters().set_names(Some(names.to_vec()));
            self.runner.call(permit, request.send()).await?;
        }
        Ok(())
    }
}
