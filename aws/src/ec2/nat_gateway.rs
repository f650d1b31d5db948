//! NAT gateways.

use aws_sdk_ec2::types::{self, NatGatewayAddress};
use capa_cloud::ec2::{NatGateway, NatGatewayState};
use capa_cloud::{CloudError, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, tags, text, timestamp};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The NAT gateways of a VPC in every state.
    pub(crate) async fn nat_gateways_in(&self, vpc: &str) -> Result<Vec<NatGateway>, CloudError> {
        let query = &Query::filter("vpc-id", [vpc]);
        let mut shown = self
            .runner
            .describe("DescribeNatGateways", query, |permit, token| async move {
                let request = self.client.describe_nat_gateways().set_filter(filters(query));
                let request = request.max_results(PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.nat_gateways().iter().map(nat_gateway).collect(), next: answer.next_token })
            })
            .await?;
        shown.retain(|gateway| gateway.vpc_id == vpc);
        Ok(shown)
    }
}

fn nat_gateway(gateway: &types::NatGateway) -> NatGateway {
    let addresses = gateway.nat_gateway_addresses().iter();
    NatGateway {
        id: text(gateway.nat_gateway_id()),
        vpc_id: text(gateway.vpc_id()),
        subnet_id: text(gateway.subnet_id()),
        state: state(gateway.state()),
        failure: failure(gateway),
        created_at: gateway.create_time().and_then(timestamp),
        allocation_ids: addresses.map(NatGatewayAddress::allocation_id).filter_map(some_text).collect(),
        public_ips: gateway
            .nat_gateway_addresses()
            .iter()
            .map(NatGatewayAddress::public_ip)
            .filter_map(some_text)
            .collect(),
        tags: tags(gateway.tags()),
    }
}

/// A state that this version does not know counts as pending: such a gateway is neither used nor replaced.
fn state(state: Option<&types::NatGatewayState>) -> NatGatewayState {
    match state {
        Some(types::NatGatewayState::Available) => NatGatewayState::Available,
        Some(types::NatGatewayState::Failed) => NatGatewayState::Failed,
        Some(types::NatGatewayState::Deleting) => NatGatewayState::Deleting,
        Some(types::NatGatewayState::Deleted) => NatGatewayState::Deleted,
        _ => NatGatewayState::Pending,
    }
}

/// Code and message of a failure. AWS may show only one of them.
fn failure(gateway: &types::NatGateway) -> Option<String> {
    let parts = [gateway.failure_code(), gateway.failure_message()];
    let parts: Vec<String> = parts.into_iter().filter_map(some_text).collect();
    Some(parts.join(": ")).filter(|failure| !failure.is_empty())
}
