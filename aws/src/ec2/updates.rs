//! Changes of running instances, of their volumes and of their network interfaces.

use aws_sdk_ec2::types::Tag;
use capa_api::common::Tags;
use capa_cloud::limits::CallRequest;
use capa_cloud::session::Permit;
use capa_cloud::{CloudError, DnsRecords, InstanceMetadataOptions, MachineKey};

use super::Ec2Calls;
use super::launch::hop_limit;

impl Ec2Calls {
    /// Sets tags of resources of one instance.
    pub(crate) async fn create_tags(
        &self,
        machine: &MachineKey,
        resources: &[String],
        tags: &Tags,
    ) -> Result<(), CloudError> {
        let permit = self.update_permit("CreateTags", machine).await?;
        let request = self.client.create_tags().set_resources(Some(resources.to_vec()));
        self.runner.call(permit, request.set_tags(Some(sdk_tags(tags))).send()).await?;
        Ok(())
    }

    /// Removes tags of resources of one instance. EC2 does not remove a tag whose value has changed in the meantime.
    pub(crate) async fn delete_tags(
        &self,
        machine: &MachineKey,
        resources: &[String],
        tags: &Tags,
    ) -> Result<(), CloudError> {
        let permit = self.update_permit("DeleteTags", machine).await?;
        let request = self.client.delete_tags().set_resources(Some(resources.to_vec()));
        self.runner.call(permit, request.set_tags(Some(sdk_tags(tags))).send()).await?;
        Ok(())
    }

    /// Replaces the security groups of a network interface.
    pub(crate) async fn set_interface_groups(
        &self,
        machine: &MachineKey,
        interface_id: &str,
        group_ids: &[String],
    ) -> Result<(), CloudError> {
        let permit = self.update_permit("ModifyNetworkInterfaceAttribute", machine).await?;
        let request = self
            .client
            .modify_network_interface_attribute()
            .network_interface_id(interface_id)
            .set_groups(Some(group_ids.to_vec()));
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    /// Replaces the options of the metadata service of an instance.
    pub(crate) async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError> {
        let permit = self.update_permit("ModifyInstanceMetadataOptions", machine).await?;
        let request = self
            .client
            .modify_instance_metadata_options()
            .instance_id(instance_id)
            .http_endpoint(<&str>::from(options.http_endpoint).into())
            .http_tokens(<&str>::from(options.http_tokens).into())
            .http_put_response_hop_limit(hop_limit(options))
            .http_protocol_ipv6(<&str>::from(options.http_protocol_ipv6).into())
            .instance_metadata_tags(<&str>::from(options.instance_metadata_tags).into());
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    /// Sets the records of the resource-based name of an instance.
    pub(crate) async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError> {
        let permit = self.update_permit("ModifyPrivateDnsNameOptions", machine).await?;
        let request = self
            .client
            .modify_private_dns_name_options()
            .instance_id(instance_id)
            .set_enable_resource_name_dns_a_record(records.a)
            .set_enable_resource_name_dns_aaaa_record(records.aaaa);
        self.runner.call(permit, request.send()).await?;
        Ok(())
    }

    /// The permit of a change. Only the leader makes the call, because a process that has lost leadership would undo
    /// the changes of its successor.
    async fn update_permit(&self, action: &'static str, machine: &MachineKey) -> Result<Permit, CloudError> {
        let turn = CallRequest::update(action, self.runner.flow(), machine);
        self.runner.write_permit(&turn).await
    }
}

pub(super) fn sdk_tags(tags: &Tags) -> Vec<Tag> {
    let tags = tags.iter();
    tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect()
}
