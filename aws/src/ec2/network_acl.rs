//! Network access control lists.

use aws_sdk_ec2::types;
use capa_cloud::ec2::{AclEntry, IpProtocol, NetworkAcl};
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The network ACLs of a VPC.
    pub(crate) async fn network_acls(&self, vpc_id: &str) -> Result<Vec<NetworkAcl>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc_id]);
        self.runner
            .describe("DescribeNetworkAcls", query, |permit, token| async move {
                let request = self.client.describe_network_acls().set_filters(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.network_acls().iter().map(network_acl).collect(), next: answer.next_token })
            })
            .await
    }
}

fn network_acl(list: &types::NetworkAcl) -> NetworkAcl {
    let subnets = list.associations().iter().filter_map(types::NetworkAclAssociation::subnet_id);
    NetworkAcl {
        id: text(list.network_acl_id()),
        subnet_ids: subnets.map(str::to_owned).collect(),
        entries: list.entries().iter().map(acl_entry).collect(),
    }
}

fn acl_entry(entry: &types::NetworkAclEntry) -> AclEntry {
    let ports = entry.port_range().and_then(|range| {
        let port = |port: Option<i32>| u16::try_from(port?).ok();
        port(range.from()).zip(port(range.to()))
    });
    AclEntry {
        number: entry.rule_number().unwrap_or_default(),
        is_egress: entry.egress() == Some(true),
        allows: entry.rule_action() == Some(&types::RuleAction::Allow),
        protocol: IpProtocol::of_answer(entry.protocol().unwrap_or_default()),
        cidr_block: text(entry.cidr_block().or_else(|| entry.ipv6_cidr_block())),
        ports,
    }
}
