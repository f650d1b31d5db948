//! Calls of STS.

use capa_cloud::CloudError;
use capa_cloud::session::Permit;

use crate::sdk::call_runner::CallRunner;

/// STS with one identity in one region.
#[derive(Clone)]
pub(crate) struct StsCalls {
    client: aws_sdk_sts::Client,
    runner: CallRunner,
}

impl StsCalls {
    pub(crate) fn new(client: aws_sdk_sts::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    /// The account of the credentials.
    pub(crate) async fn account_id(&self) -> Result<String, CloudError> {
        let permit = Permit::unlimited("GetCallerIdentity");
        let action = permit.action;
        let answer = self.runner.call(permit, self.client.get_caller_identity().send()).await?;
        let account = answer.account.filter(|account| !account.is_empty());
        account.ok_or_else(|| CloudError::no_answer(action, "the answer names no account"))
    }
}
