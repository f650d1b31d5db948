//! Elastic IPs.

use aws_sdk_ec2::operation::allocate_address::AllocateAddressOutput;
use aws_sdk_ec2::types::{self, DomainType, ResourceType, TagSpecification};
use capa_api::common::Tags;
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, ElasticIp, ElasticIpAnswer, ElasticIpCall, MachineKey, Query};

use super::updates::sdk_tags;
use super::{Ec2Calls, filters, once, some_text, tags, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn elastic_ips(&self, query: &Query) -> Result<Vec<ElasticIp>, CloudError> {
        self.runner
            .describe("DescribeAddresses", query, |permit, _| async move {
                // AWS answers with all addresses at once.
                let request = self.client.describe_addresses().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.addresses().iter().map(elastic_ip)))
            })
            .await
    }

    /// The number of free addresses in a public IPv4 pool.
    pub(crate) async fn free_addresses(&self, pool: &str) -> Result<u32, CloudError> {
        const ACTION: &str = "DescribePublicIpv4Pools";
        let query = &Query::filter("pool-id", [pool]);
        let pools = self
            .runner
            .describe(ACTION, query, |permit, token| async move {
                let request = self.client.describe_public_ipv4_pools().pool_ids(pool);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page { items: answer.public_ipv4_pools().to_vec(), next: answer.next_token })
            })
            .await?;
        let found = pools.iter().find(|shown| shown.pool_id() == Some(pool));
        let found = found.ok_or_else(|| CloudError::not_found(ACTION, format!("{pool} is not shown")))?;
        let free = found.total_available_address_count().unwrap_or_default();
        Ok(u32::try_from(free).unwrap_or_default())
    }

    pub(crate) async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError> {
        let priority = match call {
            ElasticIpCall::Allocate { .. } | ElasticIpCall::Associate { .. } => Priority::Launch,
            ElasticIpCall::Release { .. } => Priority::Terminate,
        };
        let turn = CallRequest::of_machine(call.action(), self.runner.flow(), machine, priority);
        let permit = self.runner.write_permit(&turn).await?;
        match call {
            ElasticIpCall::Allocate { pool, tags } => {
                let action = permit.action;
                let answer = self.allocate_address(permit, pool.clone(), tags).await?;
                let id = some_text(answer.allocation_id());
                return Ok(ElasticIpAnswer::Allocated {
                    allocation_id: id.ok_or_else(|| CloudError::no_answer(action, "the answer shows no address"))?,
                    public_ip: text(answer.public_ip()),
                });
            }
            ElasticIpCall::Associate { allocation_id, interface_id } => {
                let request = self.client.associate_address().allocation_id(allocation_id);
                let request = request.network_interface_id(interface_id).allow_reassociation(false);
                self.runner.call(permit, request.send()).await?;
            }
            ElasticIpCall::Release { allocation_id } => self.release_address(permit, allocation_id).await?,
        }
        Ok(ElasticIpAnswer::Done)
    }

    /// Allocates one address. The SDK does not retry this call, because a second call would allocate a second address.
    pub(super) async fn allocate_address(
        &self,
        permit: Permit,
        pool: Option<String>,
        tags: &Tags,
    ) -> Result<AllocateAddressOutput, CloudError> {
        let tags =
            TagSpecification::builder().resource_type(ResourceType::ElasticIp).set_tags(Some(sdk_tags(tags))).build();
        let request = self.client.allocate_address().domain(DomainType::Vpc);
        let request = request.set_public_ipv4_pool(pool).tag_specifications(tags);
        let call = request.customize().config_override(once()).send();
        self.runner.call(permit, call).await
    }

    /// Releases an address. EC2 refuses this while the address is associated.
    pub(super) async fn release_address(&self, permit: Permit, allocation_id: &str) -> Result<(), CloudError> {
        let request = self.client.release_address().allocation_id(allocation_id);
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }
}

fn elastic_ip(address: &types::Address) -> ElasticIp {
    ElasticIp {
        allocation_id: text(address.allocation_id()),
        public_ip: text(address.public_ip()),
        association_id: some_text(address.association_id()),
        instance_id: some_text(address.instance_id()),
        tags: tags(address.tags()),
    }
}
