//! Calls of S3 for the checks of infrastructure. They read the settings of a bucket, but none of its objects.

use aws_sdk_s3::types::PublicAccessBlockConfiguration;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use capa_cloud::CloudError;
use capa_preflight::facts::Bucket;

use crate::sdk::call_runner::CallRunner;

/// Grantee groups that include everybody.
const EVERYBODY: [&str; 2] =
    ["http://acs.amazonaws.com/groups/global/AllUsers", "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"];

/// S3 with one identity in one region.
#[derive(Clone)]
pub(crate) struct S3Calls {
    client: aws_sdk_s3::Client,
    runner: CallRunner,
    region: String,
}

impl S3Calls {
    pub(crate) fn new(client: aws_sdk_s3::Client, runner: CallRunner, region: &str) -> Self {
        Self { client, runner, region: region.to_owned() }
    }

    /// A bucket, read by at most four calls. `None` if it does not exist.
    pub(crate) async fn bucket(&self, name: &str) -> Result<Option<Bucket>, CloudError> {
        let Some(region) = self.region_of(name).await? else {
            return Ok(None);
        };
        // Only the endpoint of the bucket's region answers further calls.
        let is_public = region == self.region && self.is_public(name).await?;
        Ok(Some(Bucket { name: name.to_owned(), region, is_public }))
    }

    async fn region_of(&self, name: &str) -> Result<Option<String>, CloudError> {
        let request = async {
            match self.client.get_bucket_location().bucket(name).send().await {
                Ok(answer) => {
                    let region = answer.location_constraint().map(|region| region.as_str().to_owned());
                    Ok(region_name(region.as_deref().unwrap_or_default()).to_owned())
                }
                Err(error) => region_of_answer(&error).filter(|of| *of != self.region).ok_or(error),
            }
        };
        self.runner.find("GetBucketLocation", name, request).await
    }

    /// Whether the policy or the access control list of the bucket makes it public, and no public access block prevents
    /// it.
    async fn is_public(&self, name: &str) -> Result<bool, CloudError> {
        let request = self.client.get_public_access_block().bucket(name);
        // This name is the name of the permission.
        let found = self.runner.find("GetBucketPublicAccessBlock", name, request.send());
        let block = found.await?.and_then(|answer| answer.public_access_block_configuration);
        let blocks =
            |what: fn(&PublicAccessBlockConfiguration) -> Option<bool>| block.as_ref().and_then(what).unwrap_or(false);
        if !blocks(PublicAccessBlockConfiguration::restrict_public_buckets) && self.has_public_policy(name).await? {
            return Ok(true);
        }
        Ok(!blocks(PublicAccessBlockConfiguration::ignore_public_acls) && self.has_public_list(name).await?)
    }

    async fn has_public_policy(&self, name: &str) -> Result<bool, CloudError> {
        let request = self.client.get_bucket_policy_status().bucket(name);
        let answer = self.runner.find("GetBucketPolicyStatus", name, request.send()).await?;
        let status = answer.and_then(|answer| answer.policy_status);
        Ok(status.and_then(|status| status.is_public()).unwrap_or(false))
    }

    async fn has_public_list(&self, name: &str) -> Result<bool, CloudError> {
        let request = self.client.get_bucket_acl().bucket(name);
        let answer = self.runner.find("GetBucketAcl", name, request.send()).await?;
        let grants = answer.and_then(|answer| answer.grants).unwrap_or_default();
        let mut groups = grants.iter().filter_map(|grant| grant.grantee()?.uri());
        Ok(groups.any(|group| EVERYBODY.contains(&group)))
    }
}

/// The region in an answer of GetBucketLocation, which uses old names for two regions.
fn region_name(constraint: &str) -> &str {
    match constraint {
        "" => "us-east-1",
        "EU" => "eu-west-1",
        region => region,
    }
}

/// The region that S3 names when it refuses a call because the bucket lies in another region.
fn region_of_answer<E>(error: &SdkError<E, HttpResponse>) -> Option<String> {
    let header = error.raw_response()?.headers().get("x-amz-bucket-region")?;
    Some(header.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_regions_have_names_of_their_own() {
        assert_eq!(region_name(""), "us-east-1");
        assert_eq!(region_name("EU"), "eu-west-1");
        assert_eq!(region_name("eu-central-1"), "eu-central-1");
    }
}
