//! The secrets of an account.

use anyhow::{Context, ensure};
use serde_json::json;

use super::User;
use super::query::json as call;

/// The services: the signing name, the action, the list in its answer.
const SERVICES: [(&str, &str, &str); 2] = [
    ("secretsmanager", "secretsmanager.ListSecrets", "SecretList"),
    ("ssm", "AmazonSSM.DescribeParameters", "Parameters"),
];

impl User {
    /// The names of all secrets in Secrets Manager and of all parameters in Parameter Store in this region.
    pub async fn secrets(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for (service, target, list) in SERVICES {
            let key = &self.account.user_key().access_key_id;
            let parameters = json!({"MaxResults": 50});
            let answer = call(self.account.url(), key, &self.region, service, target, &parameters).await;
            let (status, answer) = answer?;
            ensure!(status == 200, "{target}: {status} {answer}");
            let next = answer.get("NextToken").filter(|token| !token.is_null());
            ensure!(next.is_none(), "{target} has more than one page");
            let listed = answer.get(list).and_then(|list| list.as_array());
            let listed = listed.with_context(|| format!("{target}: {answer}"))?;
            let found = listed.iter().filter_map(|secret| secret.get("Name")?.as_str());
            names.extend(found.map(str::to_owned));
        }
        Ok(names)
    }
}
