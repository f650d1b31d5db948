//! Network interfaces.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, NetworkInterface, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        self.runner
            .describe("DescribeNetworkInterfaces", query, |permit, token| async move {
                let request = self
                    .client
                    .describe_network_interfaces()
                    .set_filters(filters(query))
                    .max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.network_interfaces().iter().map(network_interface).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }
}

fn network_interface(interface: &types::NetworkInterface) -> NetworkInterface {
    let groups = interface.groups().iter();
    let attachment = interface.attachment();
    NetworkInterface {
        id: text(interface.network_interface_id()),
        subnet_id: text(interface.subnet_id()),
        availability_zone: text(interface.availability_zone()),
        security_group_ids: groups.filter_map(|group| some_text(group.group_id())).collect(),
        instance_id: attachment.and_then(|attachment| some_text(attachment.instance_id())),
    }
}
