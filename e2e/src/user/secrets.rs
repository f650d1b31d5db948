//! The secrets of an account, the objects in its buckets, and the parameters that AWS publishes there.

use anyhow::{Context, ensure};
use http::Method;
use serde_json::json;

use super::User;
use super::query::{json as call, s3};
use crate::aws_proxy::xml::Element;

/// The services: the signing name, the action, the list in its answer.
const SERVICES: [(&str, &str, &str); 2] = [
    ("secretsmanager", "secretsmanager.ListSecrets", "SecretList"),
    ("ssm", "AmazonSSM.DescribeParameters", "Parameters"),
];

impl User {
    /// Makes a bucket. Buckets of all accounts share their names.
    pub async fn create_bucket(&self, name: &str) -> anyhow::Result<()> {
        let region = &self.region;
        let location = format!(
            "<CreateBucketConfiguration><LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
        );
        self.s3(Method::PUT, &format!("/{name}"), &location).await?;
        Ok(())
    }

    /// Stores an object.
    pub async fn put_object(&self, bucket: &str, key: &str, content: &str) -> anyhow::Result<()> {
        self.s3(Method::PUT, &format!("/{bucket}/{key}"), content).await?;
        Ok(())
    }

    /// The keys of the objects in a bucket.
    pub async fn objects(&self, bucket: &str) -> anyhow::Result<Vec<String>> {
        let answer = self.s3(Method::GET, &format!("/{bucket}?list-type=2"), "").await?;
        let listed = answer.context("the listing is empty")?;
        ensure!(listed.text_at(&["IsTruncated"]) == "false", "{bucket} has more than one page");
        let objects = listed.children.iter().filter(|child| child.name == "Contents");
        Ok(objects.map(|object| object.text_at(&["Key"]).to_owned()).collect())
    }

    async fn s3(&self, method: Method, path: &str, body: &str) -> anyhow::Result<Option<Element>> {
        let key = &self.account.user_key().access_key_id;
        let (status, answer) = s3(method, self.account.url(), key, &self.region, path, body).await?;
        ensure!(status < 300, "{path}: {status} {answer:?}");
        Ok(answer)
    }

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

    /// Publishes a parameter with the image of EKS, as AWS does in every account. The value replaces an earlier one.
    pub async fn publish_parameter(&self, name: &str, value: &str) -> anyhow::Result<()> {
        let key = &self.account.user_key().access_key_id;
        let parameters = json!({"Name": name, "Value": value, "Type": "String"});
        let target = "AmazonSSM.PutParameter";
        let (status, answer) = call(self.account.url(), key, &self.region, "ssm", target, &parameters).await?;
        ensure!(status == 200, "{target} {name}: {status} {answer}");
        Ok(())
    }
}
