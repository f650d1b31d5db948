//! Measures the memory of an informer. The test is a separate binary, so that only the informer makes the process grow.

use std::collections::BTreeMap;
use std::time::Duration;

use capa_api::machine::{HttpTokens, Switch};
use capa_cloud::informer::{InstanceInformer, InstanceRead};
use capa_cloud::{
    Instance, InstanceMetadataOptions, InstanceState, MachineAddress, MachineAddressType, MachineKey, PrimaryInterface,
    Timing,
};

const INSTANCES: usize = 20_000;
/// Maximum memory of one instance and its machine, in bytes.
const BYTES: usize = 1024;

/// Memory of this process in bytes, without the pages of its program, which are loaded when they run.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the line is there");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

fn machine(index: usize) -> MachineKey {
    MachineKey { namespace: "team-with-a-name".into(), name: format!("production-workers-7d9f8b6c5-{index:05}") }
}

/// An instance as EC2 shows it, with the tags that are kept.
fn instance(index: usize) -> Instance {
    let address = |kind, address: String| MachineAddress { address_type: kind, address };
    let host = format!("ip-10-{}-{}-{}", index >> 16, (index >> 8) & 255, index & 255);
    let key = machine(index);
    Instance {
        id: format!("i-{index:017x}"),
        state: InstanceState::Running,
        state_reason: None,
        instance_type: "m6i.2xlarge".into(),
        availability_zone: "eu-central-1a".into(),
        subnet_id: Some("subnet-0123456789abcdef0".into()),
        vpc_id: Some("vpc-0123456789abcdef0".into()),
        primary_interface: Some(PrimaryInterface {
            id: format!("eni-{index:017x}"),
            security_group_ids: vec!["sg-0123456789abcdef0".into(), "sg-0123456789abcdef1".into()],
        }),
        volume_ids: vec![format!("vol-{index:017x}")],
        metadata_options: Some(InstanceMetadataOptions {
            http_endpoint: Switch::Enabled,
            http_tokens: HttpTokens::Required,
            http_put_response_hop_limit: 2,
            http_protocol_ipv6: Switch::Disabled,
            instance_metadata_tags: Switch::Disabled,
        }),
        client_token: Some(format!("01234567-89ab-cdef-0123-{index:012x}-1")),
        launch_time: Some("2026-01-02T03:04:05Z".parse().expect("a time")),
        addresses: vec![
            address(MachineAddressType::InternalIP, host.trim_start_matches("ip-").replace('-', ".")),
            address(MachineAddressType::InternalDNS, format!("{host}.eu-central-1.compute.internal")),
        ],
        tags: BTreeMap::from([
            ("MachineName".to_owned(), format!("{}/{}", key.namespace, key.name)),
            ("sigs.k8s.io/cluster-api-provider-aws/cluster/production".to_owned(), "owned".to_owned()),
            (
                "sigs.k8s.io/cluster-api-provider-aws/management-cluster".to_owned(),
                "01234567-89ab-cdef-0123-456789abcdef".to_owned(),
            ),
            ("sigs.k8s.io/cluster-api-provider-aws/role".to_owned(), "node".to_owned()),
        ]),
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "the number is worth knowing while it is small enough")]
fn an_instance_costs_at_most_a_kibibyte() {
    let before = resident();
    let mut informer = InstanceInformer::new(Timing::default());
    for index in 0..INSTANCES {
        informer.watch(&machine(index), "production", &format!("i-{index:017x}"));
    }
    let listing = informer.next_read(Duration::ZERO).expect("a listing");
    assert!(matches!(listing, InstanceRead::List { .. }));
    // The instances are moved in one by one, because a whole listing would count as well.
    for index in 0..INSTANCES {
        informer.launched(&instance(index), std::time::Duration::ZERO);
        // A driver takes the woken machines after each call.
        informer.take_woken();
    }
    let grown = resident() - before;
    assert_eq!(informer.instances(), INSTANCES);
    let each = grown / INSTANCES;
    assert!(each > 200, "{each} bytes cannot be all: is the informer measured at all?");
    assert!(each <= BYTES, "{each} bytes for each instance");
    println!("{each} bytes for each instance");
}
