//! NAT gateways of managed clusters, and their Elastic IPs.

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{self, ResourceType};
use capa_cloud::ec2::nat_gateway::Call;
use capa_cloud::managed::ChangeAnswer;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ElasticIp, Query};

use super::super::Ec2Calls;
use super::{is_owned, made, owned, tag_specification};

impl Ec2Calls {
    /// The Elastic IPs that a cluster owns, and those with known ids, in the order of their ids. The tags of a new
    /// address may become visible later than the address, so a second describe reads the known ids that the first one
    /// lacks. It uses a filter, because AWS refuses a describe that names the id of a released address.
    pub(super) async fn addresses(&self, tag: &str, known: &[String]) -> Result<Vec<ElasticIp>, CloudError> {
        let owned = self.elastic_ips(&owned(tag)).await?.into_iter();
        let owned = owned.filter(|address| is_owned(&address.tags, tag));
        let mut by_id: BTreeMap<String, ElasticIp> = owned.map(by_allocation_id).collect();
        let known = known.iter().map(String::as_str);
        let missing: Vec<&str> = known.filter(|id| !by_id.contains_key(*id)).collect();
        if !missing.is_empty() {
            let query = Query::filter("allocation-id", missing.iter().copied());
            let named = self.elastic_ips(&query).await?.into_iter();
            let named = named.filter(|address| missing.contains(&address.allocation_id.as_str()));
            by_id.extend(named.map(by_allocation_id));
        }
        Ok(by_id.into_values().collect())
    }

    pub(super) async fn nat_gateway_call(
        &self,
        permit: Permit,
        call: &Call<String>,
    ) -> Result<ChangeAnswer, CloudError> {
        let action = permit.action;
        match call {
            Call::AllocateAddress { public_ipv4_pool, tags } => {
                let answer = self.allocate_address(permit, public_ipv4_pool.clone(), tags).await?;
                return made(action, answer.allocation_id());
            }
            Call::CreateNatGateway { subnet, address, client_token, tags } => {
                let request = self.client.create_nat_gateway().client_token(client_token);
                let request = request
                    .subnet_id(subnet)
                    .allocation_id(address)
                    .tag_specifications(tag_specification(ResourceType::Natgateway, tags));
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.nat_gateway();
                return made(action, shown.and_then(types::NatGateway::nat_gateway_id));
            }
            Call::DeleteNatGateway { gateway } => {
                let request = self.client.delete_nat_gateway().nat_gateway_id(gateway);
                self.runner.call(permit, request.send()).await?;
            }
            Call::ReleaseAddress { address } => self.release_address(permit, address).await?,
        }
        Ok(ChangeAnswer::Done)
    }
}

fn by_allocation_id(address: ElasticIp) -> (String, ElasticIp) {
    (address.allocation_id.clone(), address)
}
