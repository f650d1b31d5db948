//! Calls of Service Quotas for the checks of infrastructure.

use std::collections::{BTreeMap, BTreeSet};

use capa_cloud::CloudError;

use crate::sdk::call_runner::CallRunner;

/// Service Quotas with one identity in one region.
#[derive(Clone)]
pub(crate) struct ServiceQuotasCalls {
    client: aws_sdk_servicequotas::Client,
    runner: CallRunner,
}

impl ServiceQuotasCalls {
    pub(crate) fn new(client: aws_sdk_servicequotas::Client, runner: CallRunner) -> Self {
        Self { client, runner }
    }

    /// Quotas of a service by their codes. Each quota needs a call.
    pub(crate) async fn of_service(
        &self,
        service: &str,
        codes: BTreeSet<&str>,
    ) -> Result<BTreeMap<String, f64>, CloudError> {
        let action = "GetServiceQuota";
        let mut quotas = BTreeMap::new();
        for code in codes {
            let request = self.client.get_service_quota().service_code(service).quota_code(code);
            let answer = self.runner.ask(action, code, request.send()).await?;
            let value = answer.quota.and_then(|quota| quota.value);
            let value = value.ok_or_else(|| CloudError::no_answer(action, "the answer has no value"))?;
            quotas.insert(code.to_owned(), value);
        }
        Ok(quotas)
    }
}
