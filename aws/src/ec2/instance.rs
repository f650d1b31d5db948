//! Instances.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use aws_sdk_ec2::types;
use capa_cloud::informer::TerminationBatch;
use capa_cloud::limits::{CallRequest, Priority};
use capa_cloud::session::Permit;
use capa_cloud::{
    CloudError, Instance, InstanceMetadataOptions, InstanceState, MachineAddress, MachineAddressType, PrimaryInterface,
    Query, StateReason, identifying_tag,
};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, text, timestamp};
use crate::sdk::pages::Page;

const DESCRIBE_INSTANCES: &str = "DescribeInstances";

impl Ec2Calls {
    /// Looks instances up for a machine that is to be launched or deleted.
    pub(crate) async fn instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let permit = self.runner.limiter().acquire_lookup(self.runner.flow(), query)?;
        let fetch = |permit, token| self.instances_page(permit, query, token);
        self.runner.pages(permit, &CallRequest::lookup(self.runner.flow(), query), fetch).await
    }

    /// Looks instances up for several machines, after waiting for the turn of the call.
    pub(crate) async fn shared_lookup(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let request = CallRequest::lookup(self.runner.flow(), query);
        let permit = self.runner.limiter().wait(&request).await;
        let fetch = |permit, token| self.instances_page(permit, query, token);
        self.runner.pages(permit, &request, fetch).await
    }

    /// Lists instances slowly: at most one page per `pause`, because other callers share the account's limits.
    pub(crate) async fn list_instances(&self, query: &Query, pause: Duration) -> Result<Vec<Instance>, CloudError> {
        let request = CallRequest::describe(DESCRIBE_INSTANCES, self.runner.flow(), query, Priority::Describe);
        let fetch = |permit, token| self.instances_page(permit, query, token);
        self.runner.paced_pages(&request, pause, fetch).await
    }

    async fn instances_page(
        &self,
        permit: Permit,
        query: &Query,
        token: Option<String>,
    ) -> Result<Page<Instance>, CloudError> {
        let request = self.client.describe_instances().set_filters(filters(query)).max_results(PAGE_SIZE);
        let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
        let shown = answer.reservations().iter().flat_map(types::Reservation::instances);
        let instances = shown.map(|shown| instance(DESCRIBE_INSTANCES, shown));
        Ok(Page { items: instances.collect::<Result<_, _>>()?, next: answer.next_token })
    }

    /// Terminates instances after waiting for their turn and for leadership. Returns the new states from the answer.
    pub(crate) async fn terminate(&self, batch: &TerminationBatch) -> Result<Vec<(String, InstanceState)>, CloudError> {
        let permit = self.runner.limiter().wait(&batch.rate_request()).await;
        self.runner.wait_until_leading().await;
        let ids = batch.ids().to_vec();
        let request = self.client.terminate_instances().set_instance_ids(Some(ids));
        let answer = self.runner.call(permit, request.send()).await?;
        let changes = answer.terminating_instances().iter();
        let states = changes.filter_map(|change| {
            let state = state_name(change.current_state()?.name()?)?;
            Some((change.instance_id()?.to_owned(), state))
        });
        Ok(states.collect())
    }
}

/// Converts an instance. An instance whose id or state cannot be read is an error and is never left out, because an
/// instance that is missing from a listing counts as gone.
pub(super) fn instance(operation: &'static str, instance: &types::Instance) -> Result<Instance, CloudError> {
    let id = instance.instance_id().filter(|id| !id.is_empty());
    let state = instance.state().and_then(|state| state.name()).and_then(state_name);
    let (Some(id), Some(state)) = (id, state) else {
        return Err(CloudError::no_answer(operation, "the answer holds an instance without id or known state"));
    };
    Ok(Instance {
        id: id.to_owned(),
        state,
        state_reason: instance.state_reason().and_then(state_reason),
        instance_type: text(instance.instance_type().map(types::InstanceType::as_str)),
        availability_zone: text(instance.placement().and_then(|placement| placement.availability_zone())),
        subnet_id: some_text(instance.subnet_id()),
        vpc_id: some_text(instance.vpc_id()),
        primary_interface: ordered(instance.network_interfaces()).into_iter().next().and_then(primary_interface),
        volume_ids: volume_ids(instance.block_device_mappings()),
        metadata_options: instance.metadata_options().and_then(metadata_options),
        client_token: some_text(instance.client_token()),
        launch_time: instance.launch_time().and_then(timestamp),
        addresses: addresses(instance.network_interfaces()),
        tags: tags(instance.tags()),
    })
}

fn state_name(name: &types::InstanceStateName) -> Option<InstanceState> {
    name.as_str().parse().ok()
}

fn state_reason(reason: &types::StateReason) -> Option<StateReason> {
    Some(StateReason { code: some_text(reason.code())?, message: text(reason.message()) })
}

/// The interfaces in the order of their devices.
fn ordered(interfaces: &[types::InstanceNetworkInterface]) -> Vec<&types::InstanceNetworkInterface> {
    let mut ordered: Vec<_> = interfaces.iter().collect();
    ordered.sort_by_key(|interface| {
        let device = interface.attachment().and_then(types::InstanceNetworkInterfaceAttachment::device_index);
        (device.unwrap_or(i32::MAX), interface.network_interface_id())
    });
    ordered
}

fn primary_interface(first: &types::InstanceNetworkInterface) -> Option<PrimaryInterface> {
    let mut security_group_ids: Vec<String> =
        first.groups().iter().filter_map(|group| some_text(group.group_id())).collect();
    security_group_ids.sort_unstable();
    Some(PrimaryInterface { id: some_text(first.network_interface_id())?, security_group_ids })
}

/// The options of the metadata service; `None` while EC2 is changing them, or if one has a value that this version does
/// not know.
fn metadata_options(options: &types::InstanceMetadataOptionsResponse) -> Option<InstanceMetadataOptions> {
    let is_settled = options.state() == Some(&types::InstanceMetadataOptionsState::Applied);
    let tags = options.instance_metadata_tags();
    is_settled.then_some(InstanceMetadataOptions {
        http_endpoint: options.http_endpoint()?.as_str().parse().ok()?,
        http_tokens: options.http_tokens()?.as_str().parse().ok()?,
        http_put_response_hop_limit: options.http_put_response_hop_limit()?.into(),
        http_protocol_ipv6: options.http_protocol_ipv6()?.as_str().parse().ok()?,
        instance_metadata_tags: tags?.as_str().parse().ok()?,
    })
}

/// The volumes that are deleted together with the instance.
fn volume_ids(devices: &[types::InstanceBlockDeviceMapping]) -> Vec<String> {
    let volumes = devices.iter().filter_map(types::InstanceBlockDeviceMapping::ebs);
    let own = volumes.filter(|volume| volume.delete_on_termination() == Some(true));
    let mut ids: Vec<String> = own.filter_map(|volume| some_text(volume.volume_id())).collect();
    ids.sort_unstable();
    ids
}

/// The names and addresses of the interfaces in the form of Cluster API, in the order of their devices.
fn addresses(interfaces: &[types::InstanceNetworkInterface]) -> Vec<MachineAddress> {
    ordered(interfaces).into_iter().flat_map(interface_addresses).collect()
}

fn interface_addresses(interface: &types::InstanceNetworkInterface) -> Vec<MachineAddress> {
    let public = interface.association();
    let mut addresses: Vec<_> = [
        (MachineAddressType::InternalDNS, interface.private_dns_name()),
        (MachineAddressType::InternalIP, interface.private_ip_address()),
        (MachineAddressType::ExternalDNS, public.and_then(|public| public.public_dns_name())),
        (MachineAddressType::ExternalIP, public.and_then(|public| public.public_ip())),
    ]
    .into_iter()
    .filter_map(|(kind, address)| Some(MachineAddress { address_type: kind, address: some_text(address)? }))
    .collect();
    let mut ipv6: Vec<_> = interface.ipv6_addresses().iter().filter_map(|address| address.ipv6_address()).collect();
    ipv6.sort_unstable();
    addresses.extend(
        ipv6.into_iter().filter(|address| !is_link_local(address)).map(|address| MachineAddress {
            address_type: MachineAddressType::InternalIP,
            address: address.to_owned(),
        }),
    );
    addresses
}

fn is_link_local(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_unicast_link_local())
}

fn tags(tags: &[types::Tag]) -> BTreeMap<String, String> {
    let identifying = tags.iter().filter(|tag| tag.key().is_some_and(identifying_tag));
    identifying.map(|tag| (text(tag.key()), text(tag.value()))).collect()
}

#[cfg(test)]
mod tests {
    use capa_api::machine::{HttpTokens, Switch};

    use super::*;

    fn interface(device: i32, ip: &str) -> types::builders::InstanceNetworkInterfaceBuilder {
        let attachment = types::InstanceNetworkInterfaceAttachment::builder().device_index(device).build();
        types::InstanceNetworkInterface::builder()
            .attachment(attachment)
            .private_dns_name(format!("ip-{ip}.internal"))
            .private_ip_address(ip)
    }

    #[test]
    fn addresses_follow_the_devices_and_leave_out_link_local_ones() {
        let public =
            types::InstanceNetworkInterfaceAssociation::builder().public_ip("203.0.113.5").public_dns_name("").build();
        let ipv6 = |address: &str| types::InstanceIpv6Address::builder().ipv6_address(address).build();
        let first = interface(0, "10.0.0.1")
            .association(public)
            .ipv6_addresses(ipv6("2001:db8::2"))
            .ipv6_addresses(ipv6("fe80::1"))
            .ipv6_addresses(ipv6("2001:db8::1"))
            .build();
        let second = interface(1, "10.0.0.2").build();
        let shown: Vec<_> =
            addresses(&[second, first]).into_iter().map(|address| (address.address_type, address.address)).collect();
        let expected = [
            (MachineAddressType::InternalDNS, "ip-10.0.0.1.internal"),
            (MachineAddressType::InternalIP, "10.0.0.1"),
            (MachineAddressType::ExternalIP, "203.0.113.5"),
            (MachineAddressType::InternalIP, "2001:db8::1"),
            (MachineAddressType::InternalIP, "2001:db8::2"),
            (MachineAddressType::InternalDNS, "ip-10.0.0.2.internal"),
            (MachineAddressType::InternalIP, "10.0.0.2"),
        ];
        assert_eq!(shown, expected.map(|(kind, address)| (kind, address.to_owned())));
    }

    #[test]
    fn an_instance_of_an_ipv6_only_subnet_has_its_name_and_ipv6_address() {
        let address = types::InstanceIpv6Address::builder().ipv6_address("2001:db8::1").build();
        let only = types::InstanceNetworkInterface::builder()
            .private_dns_name("i-1.eu-west-1.compute.internal")
            .ipv6_addresses(address)
            .build();
        let shown: Vec<_> =
            addresses(&[only]).into_iter().map(|address| (address.address_type, address.address)).collect();
        let expected = [
            (MachineAddressType::InternalDNS, "i-1.eu-west-1.compute.internal"),
            (MachineAddressType::InternalIP, "2001:db8::1"),
        ];
        assert_eq!(shown, expected.map(|(kind, address)| (kind, address.to_owned())));
    }

    #[test]
    fn the_first_device_and_the_instances_own_volumes_are_kept() {
        let group = |id: &str| types::GroupIdentifier::builder().group_id(id).build();
        let first = interface(0, "10.0.0.1").network_interface_id("eni-1");
        let first = first.groups(group("sg-b")).groups(group("sg-a")).build();
        let second = interface(1, "10.0.0.2").network_interface_id("eni-2").groups(group("sg-c")).build();
        let volume = |id: &str, ends: bool| {
            let volume = types::EbsInstanceBlockDevice::builder().volume_id(id).delete_on_termination(ends);
            types::InstanceBlockDeviceMapping::builder().ebs(volume.build()).build()
        };
        let shown = types::Instance::builder()
            .instance_id("i-1")
            .instance_type(types::InstanceType::T3Large)
            .state(types::InstanceState::builder().name("running".into()).build())
            .network_interfaces(second)
            .network_interfaces(first)
            .block_device_mappings(volume("vol-2", true))
            .block_device_mappings(volume("vol-of-a-claim", false))
            .block_device_mappings(volume("vol-1", true))
            .build();
        let kept = instance("DescribeInstances", &shown).unwrap();
        assert_eq!(kept.instance_type, "t3.large");
        assert_eq!(kept.volume_ids, ["vol-1", "vol-2"]);
        let interface = kept.primary_interface.unwrap();
        assert_eq!(
            (interface.id.as_str(), interface.security_group_ids),
            ("eni-1", vec!["sg-a".to_owned(), "sg-b".to_owned()])
        );
    }

    #[test]
    fn metadata_options_with_an_unknown_value_are_not_known() {
        let shown = |tokens: &str| {
            types::InstanceMetadataOptionsResponse::builder()
                .state(types::InstanceMetadataOptionsState::Applied)
                .http_endpoint(types::InstanceMetadataEndpointState::Enabled)
                .http_tokens(tokens.into())
                .http_put_response_hop_limit(2)
                .http_protocol_ipv6(types::InstanceMetadataProtocolState::Disabled)
                .instance_metadata_tags(types::InstanceMetadataTagsState::Enabled)
                .build()
        };
        let known = metadata_options(&shown("required")).unwrap();
        assert_eq!((known.http_tokens, known.instance_metadata_tags), (HttpTokens::Required, Switch::Enabled));
        assert_eq!(metadata_options(&shown("sometimes")), None);
    }

    #[test]
    fn an_instance_in_an_unknown_state_is_an_error() {
        let state = |word: &str| types::InstanceState::builder().name(word.into()).build();
        let shown = |word: &str| types::Instance::builder().instance_id("i-1").state(state(word)).build();
        assert_eq!(instance("DescribeInstances", &shown("stopped")).unwrap().state, InstanceState::Stopped);
        assert!(instance("DescribeInstances", &shown("hibernating")).is_err());
        assert!(instance("DescribeInstances", &types::Instance::builder().instance_id("i-1").build()).is_err());
    }
}
