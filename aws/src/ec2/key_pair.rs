//! Key pairs.

use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The names of these key pairs that exist.
    pub(crate) async fn key_pairs(&self, names: Vec<String>) -> Result<Vec<String>, CloudError> {
        let query = &Query::filter("key-name", names);
        self.runner
            .describe("DescribeKeyPairs", query, |permit, _| async move {
                let request = self.client.describe_key_pairs().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.key_pairs().iter().map(|pair| text(pair.key_name()))))
            })
            .await
    }
}
