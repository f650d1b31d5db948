//! What EC2 shows, in the words of `cloud`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use aws_sdk_ec2::types;
use capa_cloud::{
    CloudError, Image, Instance, InstanceState, InstanceType, MachineAddress, MachineAddressType, Query, RouteTable,
    SecurityGroup, StateReason, Subnet, Vpc, identifying_tag,
};
use jiff::Timestamp;

/// The filters of a query; none at all where it has none.
pub(crate) fn filters(query: &Query) -> Option<Vec<types::Filter>> {
    let filters = query.filters.iter().map(|(name, values)| {
        types::Filter::builder()
            .name(name)
            .set_values(Some(values.clone()))
            .build()
    });
    Some(filters.collect::<Vec<_>>()).filter(|filters| !filters.is_empty())
}

pub(crate) fn vpc(vpc: &types::Vpc) -> Vpc {
    let blocks = vpc.cidr_block_association_set().iter();
    let blocks = blocks.filter(|block| {
        let state = block.cidr_block_state().and_then(|state| state.state());
        state == Some(&types::VpcCidrBlockStateCode::Associated)
    });
    let ipv6_blocks = vpc.ipv6_cidr_block_association_set().iter();
    let ipv6_blocks = ipv6_blocks.filter(|block| {
        let state = block.ipv6_cidr_block_state().and_then(|state| state.state());
        state == Some(&types::VpcCidrBlockStateCode::Associated)
    });
    Vpc {
        id: text(vpc.vpc_id()),
        cidr_blocks: blocks.map(|block| text(block.cidr_block())).collect(),
        ipv6_cidr_blocks: ipv6_blocks.map(|block| text(block.ipv6_cidr_block())).collect(),
    }
}

pub(crate) fn subnet(subnet: &types::Subnet) -> Subnet {
    Subnet {
        id: text(subnet.subnet_id()),
        vpc_id: text(subnet.vpc_id()),
        availability_zone: text(subnet.availability_zone()),
        ipv6: subnet.ipv6_cidr_block_association_set().iter().any(|block| {
            let state = block.ipv6_cidr_block_state().and_then(|state| state.state());
            state == Some(&types::SubnetCidrBlockStateCode::Associated)
        }),
    }
}

pub(crate) fn security_group(group: &types::SecurityGroup) -> SecurityGroup {
    SecurityGroup {
        id: text(group.group_id()),
        vpc_id: text(group.vpc_id()),
    }
}

pub(crate) fn route_table(table: &types::RouteTable) -> RouteTable {
    let associations = table.associations();
    let subnets = associations.iter().filter_map(types::RouteTableAssociation::subnet_id);
    RouteTable {
        id: text(table.route_table_id()),
        vpc_id: text(table.vpc_id()),
        main: associations.iter().any(|association| association.main() == Some(true)),
        subnet_ids: subnets.map(str::to_owned).collect(),
        internet_gateway_route: table.routes().iter().any(leads_to_the_internet),
    }
}

fn leads_to_the_internet(route: &types::Route) -> bool {
    let default =
        route.destination_cidr_block() == Some("0.0.0.0/0") || route.destination_ipv6_cidr_block() == Some("::/0");
    default && route.gateway_id().is_some_and(|gateway| gateway.starts_with("igw-"))
}

pub(crate) fn image(image: &types::Image) -> Image {
    Image {
        id: text(image.image_id()),
        root_device_name: image.root_device_name().map(str::to_owned),
        architecture: image
            .architecture()
            .map(|architecture| architecture.as_str().to_owned()),
        // EC2 answers `windows`; the SDK's own value is spelled otherwise.
        windows: image
            .platform()
            .is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")),
    }
}

pub(crate) fn instance_type(shown: &types::InstanceTypeInfo) -> InstanceType {
    let processors = shown.v_cpu_info().and_then(types::VCpuInfo::default_v_cpus);
    let memory = shown.memory_info().and_then(types::MemoryInfo::size_in_mib);
    let architectures = shown
        .processor_info()
        .map_or(&[][..], types::ProcessorInfo::supported_architectures);
    let mut gpus: BTreeMap<String, i32> = BTreeMap::new();
    for gpu in shown.gpu_info().map_or(&[][..], types::GpuInfo::gpus) {
        *gpus.entry(text(gpu.manufacturer())).or_default() += gpu.count().unwrap_or_default();
    }
    let neuron_devices = shown.neuron_info().map_or(&[][..], types::NeuronInfo::neuron_devices);
    InstanceType {
        name: text(shown.instance_type().map(types::InstanceType::as_str)),
        processors: processors.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        architectures: architectures.iter().map(|name| name.as_str().to_owned()).collect(),
        gpus,
        neuron_devices: neuron_devices.iter().filter_map(types::NeuronDeviceInfo::count).sum(),
    }
}

/// An instance. One whose id or state cannot be read is an error and never left out: what is left out of a listing
/// would look gone.
pub(crate) fn instance(operation: &'static str, instance: &types::Instance) -> Result<Instance, CloudError> {
    let id = instance.instance_id().filter(|id| !id.is_empty());
    let state = instance.state().and_then(|state| state.name()).and_then(state_name);
    let (Some(id), Some(state)) = (id, state) else {
        return Err(CloudError::no_answer(
            operation,
            "the answer holds an instance without id or known state",
        ));
    };
    Ok(Instance {
        id: id.to_owned(),
        state,
        state_reason: instance.state_reason().and_then(state_reason),
        availability_zone: text(instance.placement().and_then(|placement| placement.availability_zone())),
        subnet_id: some_text(instance.subnet_id()),
        client_token: some_text(instance.client_token()),
        launch_time: instance.launch_time().and_then(timestamp),
        addresses: addresses(instance.network_interfaces()),
        tags: tags(instance.tags()),
    })
}

pub(crate) fn state_name(name: &types::InstanceStateName) -> Option<InstanceState> {
    name.as_str().parse().ok()
}

fn state_reason(reason: &types::StateReason) -> Option<StateReason> {
    Some(StateReason {
        code: some_text(reason.code())?,
        message: text(reason.message()),
    })
}

/// Per interface, in the order of their devices: names and addresses as Cluster API lists them.
fn addresses(interfaces: &[types::InstanceNetworkInterface]) -> Vec<MachineAddress> {
    let mut ordered: Vec<_> = interfaces.iter().collect();
    ordered.sort_by_key(|interface| {
        let device = interface
            .attachment()
            .and_then(types::InstanceNetworkInterfaceAttachment::device_index);
        (device.unwrap_or(i32::MAX), interface.network_interface_id())
    });
    ordered.into_iter().flat_map(interface_addresses).collect()
}

fn interface_addresses(interface: &types::InstanceNetworkInterface) -> Vec<MachineAddress> {
    let public = interface.association();
    let mut addresses: Vec<_> = [
        (MachineAddressType::InternalDNS, interface.private_dns_name()),
        (MachineAddressType::InternalIP, interface.private_ip_address()),
        (
            MachineAddressType::ExternalDNS,
            public.and_then(|public| public.public_dns_name()),
        ),
        (
            MachineAddressType::ExternalIP,
            public.and_then(|public| public.public_ip()),
        ),
    ]
    .into_iter()
    .filter_map(|(kind, address)| {
        Some(MachineAddress {
            address_type: kind,
            address: some_text(address)?,
        })
    })
    .collect();
    let mut ipv6: Vec<_> = interface
        .ipv6_addresses()
        .iter()
        .filter_map(|address| address.ipv6_address())
        .collect();
    ipv6.sort_unstable();
    addresses.extend(
        ipv6.into_iter()
            .filter(|address| !is_link_local(address))
            .map(|address| MachineAddress {
                address_type: MachineAddressType::InternalIP,
                address: address.to_owned(),
            }),
    );
    addresses
}

fn is_link_local(address: &str) -> bool {
    address
        .parse::<Ipv6Addr>()
        .is_ok_and(|address| address.is_unicast_link_local())
}

fn tags(tags: &[types::Tag]) -> BTreeMap<String, String> {
    let identifying = tags.iter().filter(|tag| tag.key().is_some_and(identifying_tag));
    identifying.map(|tag| (text(tag.key()), text(tag.value()))).collect()
}

fn timestamp(time: &aws_smithy_types::DateTime) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(time.subsec_nanos()).ok()?;
    Timestamp::new(time.secs(), nanoseconds).ok()
}

fn text(text: Option<&str>) -> String {
    text.unwrap_or_default().to_owned()
}

/// EC2 writes some absent values as empty texts.
fn some_text(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(device: i32, ip: &str) -> types::builders::InstanceNetworkInterfaceBuilder {
        let attachment = types::InstanceNetworkInterfaceAttachment::builder()
            .device_index(device)
            .build();
        types::InstanceNetworkInterface::builder()
            .attachment(attachment)
            .private_dns_name(format!("ip-{ip}.internal"))
            .private_ip_address(ip)
    }

    #[test]
    fn addresses_follow_the_devices_and_leave_out_link_local_ones() {
        let public = types::InstanceNetworkInterfaceAssociation::builder()
            .public_ip("203.0.113.5")
            .public_dns_name("")
            .build();
        let ipv6 = |address: &str| types::InstanceIpv6Address::builder().ipv6_address(address).build();
        let first = interface(0, "10.0.0.1")
            .association(public)
            .ipv6_addresses(ipv6("2001:db8::2"))
            .ipv6_addresses(ipv6("fe80::1"))
            .ipv6_addresses(ipv6("2001:db8::1"))
            .build();
        let second = interface(1, "10.0.0.2").build();
        let shown: Vec<_> = addresses(&[second, first])
            .into_iter()
            .map(|address| (address.address_type, address.address))
            .collect();
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
    fn a_default_route_to_an_internet_gateway_makes_a_table_public() {
        let table = |destination: &str, gateway: &str| {
            let route = types::Route::builder()
                .destination_cidr_block(destination)
                .gateway_id(gateway)
                .build();
            route_table(&types::RouteTable::builder().routes(route).build()).internet_gateway_route
        };
        assert!(table("0.0.0.0/0", "igw-1"));
        assert!(!table("10.0.0.0/8", "igw-1"));
        assert!(!table("0.0.0.0/0", "vgw-1"));
        let ipv6 = types::Route::builder()
            .destination_ipv6_cidr_block("::/0")
            .gateway_id("igw-1")
            .build();
        assert!(route_table(&types::RouteTable::builder().routes(ipv6).build()).internet_gateway_route);
    }

    #[test]
    fn only_associated_blocks_count() {
        let block = |cidr: &str, state: types::VpcCidrBlockStateCode| {
            types::VpcCidrBlockAssociation::builder()
                .cidr_block(cidr)
                .cidr_block_state(types::VpcCidrBlockState::builder().state(state).build())
                .build()
        };
        let shown = types::Vpc::builder()
            .vpc_id("vpc-1")
            .cidr_block_association_set(block("10.0.0.0/16", types::VpcCidrBlockStateCode::Associated))
            .cidr_block_association_set(block("10.1.0.0/16", types::VpcCidrBlockStateCode::Disassociated))
            .build();
        assert_eq!(vpc(&shown).cidr_blocks, ["10.0.0.0/16"]);
    }

    #[test]
    fn an_instance_in_an_unknown_state_is_an_error() {
        let state = |word: &str| types::InstanceState::builder().name(word.into()).build();
        let shown = |word: &str| types::Instance::builder().instance_id("i-1").state(state(word)).build();
        assert_eq!(
            instance("DescribeInstances", &shown("stopped")).unwrap().state,
            InstanceState::Stopped
        );
        assert!(instance("DescribeInstances", &shown("hibernating")).is_err());
        assert!(
            instance(
                "DescribeInstances",
                &types::Instance::builder().instance_id("i-1").build()
            )
            .is_err()
        );
    }

    #[test]
    fn an_empty_query_sends_no_filter() {
        assert_eq!(filters(&Query::default()), None);
        let query = Query::filter("vpc-id", ["vpc-1"]).and("tag-key", ["a", "b"]);
        assert_eq!(filters(&query).map(|filters| filters.len()), Some(2));
    }
}
