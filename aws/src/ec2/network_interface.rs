//! Network interfaces.

use aws_sdk_ec2::types;
use capa_cloud::ec2::NetworkInterface;
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn network_interfaces(&self, query: &Query) -> Result<Vec<NetworkInterface>, CloudError> {
        self.runner
            .describe("DescribeNetworkInterfaces", query, |permit, token| async move {
                let request =
                    self.client.describe_network_interfaces().set_filters(filters(query)).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.network_interfaces().iter().map(network_interface).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }

    /// The network interfaces in a VPC.
    pub(super) async fn network_interfaces_in(&self, vpc: &str) -> Result<Vec<NetworkInterface>, CloudError> {
        let mut shown = self.network_interfaces(&Query::filter("vpc-id", [vpc])).await?;
        shown.retain(|interface| interface.vpc_id == vpc);
        Ok(shown)
    }
}

fn network_interface(interface: &types::NetworkInterface) -> NetworkInterface {
    let groups = interface.groups().iter();
    let attachment = interface.attachment();
    NetworkInterface {
        id: text(interface.network_interface_id()),
        vpc_id: text(interface.vpc_id()),
        subnet_id: text(interface.subnet_id()),
        availability_zone: text(interface.availability_zone()),
        security_group_ids: groups.filter_map(|group| some_text(group.group_id())).collect(),
        instance_id: attachment.and_then(|attachment| some_text(attachment.instance_id())),
        description: text(interface.description()),
        owner_id: text(interface.owner_id()),
        requester_id: some_text(interface.requester_id()),
        public_ip: interface.association().and_then(|association| some_text(association.public_ip())),
    }
}
