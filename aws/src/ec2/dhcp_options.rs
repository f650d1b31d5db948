//! DHCP options of VPCs.

use aws_sdk_ec2::types;
use capa_cloud::ec2::DhcpOptions;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The DHCP options with this id; `None` if they do not exist.
    pub(crate) async fn dhcp_options(&self, id: &str) -> Result<Option<DhcpOptions>, CloudError> {
        let query = &Query::filter("dhcp-options-id", [id]);
        let options = self.runner.describe("DescribeDhcpOptions", query, |permit, token| async move {
            let request = self.client.describe_dhcp_options().set_filters(filters(query)).max_results(PAGE_SIZE);
            let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
            Ok(Page { items: answer.dhcp_options().iter().map(dhcp_options).collect(), next: answer.next_token })
        });
        Ok(options.await?.into_iter().find(|options| options.id == id))
    }

    /// The domain name in the DHCP options of a VPC.
    pub(crate) async fn domain_name(&self, vpc_id: &str) -> Result<Option<String>, CloudError> {
        let query = Query::filter("vpc-id", [vpc_id]);
        let Some(id) = self.vpcs(&query).await?.into_iter().find_map(|vpc| vpc.dhcp_options_id) else {
            return Ok(None);
        };
        let options = self.dhcp_options(&id).await?;
        Ok(options.and_then(|options| options.domain_names.into_iter().next()))
    }
}

fn dhcp_options(options: &types::DhcpOptions) -> DhcpOptions {
    let values = |key: &str| {
        let configurations = options.dhcp_configurations().iter();
        let values = configurations.filter(|of| of.key() == Some(key)).flat_map(types::DhcpConfiguration::values);
        values.map(|value| text(value.value())).collect()
    };
    DhcpOptions {
        id: text(options.dhcp_options_id()),
        domain_names: values("domain-name"),
        domain_name_servers: values("domain-name-servers"),
    }
}
