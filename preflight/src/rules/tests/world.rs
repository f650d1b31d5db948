//! Facts of infrastructure in which no rule is broken.

use std::collections::BTreeMap;

use capa_api::network::MachineNetwork;
use serde_json::{Value, json};

use crate::facts::{
    AclEntry, Answer, Bucket, CapacityReservation, DedicatedHost, Demand, DhcpOptions, DryRun, EncryptionKey,
    EndpointDemand, Facts, HealthCheck, Image, InstanceProfile, InstanceType, KubernetesFacts, Listener, LoadBalancer,
    MachineDemand, NatGateway, NetworkAcl, Offering, PlacementGroup, Region, RoleOfMachines, Route, RouteTable,
    RouteTableAssociation, RouteTarget, Rule, SecurityGroup, Source, SourceAccess, Subnet, TargetGroup, Vpc, VpcDns,
    VpcEndpoint, Zone,
};
use crate::testing::rule;

pub(super) const ACCOUNT: &str = "111122223333";
pub(super) const REGION: &str = "eu-west-1";
pub(super) const VPC: &str = "vpc-0000000a";
pub(super) const GROUP_ARN: &str =
    "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0000000000000001";
const BALANCER_ARN: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:loadbalancer/net/api/0000000000000002";
const ZONES: [&str; 3] = ["eu-west-1a", "eu-west-1b", "eu-west-1c"];

/// Three private subnets, two with NAT gateways in their zones and one with VPC endpoints; one public subnet. An
/// internal load balancer with a security group. A control plane, workers, and workers with public addresses.
pub(super) fn good() -> Facts {
    Facts {
        gathered_at: "2026-11-01T12:00:00Z".to_owned(),
        demand: demand(),
        account_id: Answer::Found(ACCOUNT.to_owned()),
        regions: Answer::Found(vec![Region {
            name: REGION.to_owned(),
            opt_in_status: "opt-in-not-required".to_owned(),
        }]),
        zones: Answer::Found(ZONES.map(zone).to_vec()),
        vpc: Answer::Found(Some(Vpc {
            id: VPC.to_owned(),
            state: "available".to_owned(),
            owner_id: ACCOUNT.to_owned(),
            cidr_blocks: vec!["10.0.0.0/16".to_owned()],
            ipv6_cidr_blocks: vec!["2001:db8::/56".to_owned()],
            tenancy: "dedicated".to_owned(),
            dhcp_options_id: "dopt-0000000a".to_owned(),
            ..Vpc::default()
        })),
        vpc_dns: Answer::Found(VpcDns {
            support: true,
            hostnames: true,
        }),
        dhcp_options: Answer::Found(Some(DhcpOptions {
            id: "dopt-0000000a".to_owned(),
            domain_names: vec!["eu-west-1.compute.internal".to_owned()],
            domain_name_servers: vec!["AmazonProvidedDNS".to_owned()],
        })),
        subnets: Answer::Found(subnets()),
        route_tables: Answer::Found(route_tables()),
        nat_gateways: Answer::Found(vec![
            nat("nat-0000000a", "subnet-0000001a"),
            nat("nat-0000000b", "subnet-0000001b"),
        ]),
        network_acls: Answer::Found(vec![NetworkAcl {
            id: "acl-0000000a".to_owned(),
            subnet_ids: subnets().into_iter().map(|subnet| subnet.id).collect(),
            entries: [true, false].map(allow_all).to_vec(),
        }]),
        vpc_endpoints: Answer::Found(vpc_endpoints()),
        security_groups: Answer::Found(security_groups()),
        target_groups: Answer::Found(vec![target_group()]),
        load_balancers: Answer::Found(vec![load_balancer()]),
        endpoint_addresses: Answer::Found(vec!["10.0.1.5".to_owned()]),
        kubernetes: Some(KubernetesFacts {
            sources: vec![SourceAccess {
                object: "Landscape/dev".to_owned(),
                group: "example.org".to_owned(),
                resource: "landscapes".to_owned(),
                is_served: true,
                is_described: true,
                is_readable_by_manager: Answer::Found(true),
                problem: None,
            }],
        }),
        ..of_machines()
    }
}

fn of_machines() -> Facts {
    let allowed = || Answer::Found(DryRun::Allowed);
    Facts {
        images: Answer::Found(vec![Image {
            id: "ami-0000000a".to_owned(),
            state: "available".to_owned(),
            architecture: Some("x86_64".to_owned()),
            boot_mode: Some("uefi".to_owned()),
            has_ena: true,
            imds_support: Some("v2.0".to_owned()),
            deprecation_time: Some("2028-01-01T00:00:00Z".to_owned()),
            root_snapshot_gib: Some(8),
            ..Image::default()
        }]),
        instance_types: Answer::Found(vec![InstanceType {
            name: "m5.large".to_owned(),
            architectures: vec!["x86_64".to_owned()],
            boot_modes: vec!["legacy-bios".to_owned(), "uefi".to_owned()],
            ena: "required".to_owned(),
            vcpus: 2,
            ..InstanceType::default()
        }]),
        offerings: Answer::Found(
            ZONES
                .map(|zone| Offering {
                    instance_type: "m5.large".to_owned(),
                    zone: zone.to_owned(),
                })
                .to_vec(),
        ),
        key_pairs: Answer::Found(vec!["ops".to_owned()]),
        instance_profiles: [(
            "nodes".to_owned(),
            Answer::Found(Some(InstanceProfile {
                name: "nodes".to_owned(),
                roles: vec!["nodes".to_owned()],
                policies: Answer::Found(vec!["nodes".to_owned()]),
            })),
        )]
        .into(),
        encryption_keys: [(
            "alias/volumes".to_owned(),
            Answer::Found(Some(EncryptionKey {
                arn: "arn:aws:kms:eu-west-1:111122223333:key/1".to_owned(),
                state: "Enabled".to_owned(),
                usage: "ENCRYPT_DECRYPT".to_owned(),
            })),
        )]
        .into(),
        placement_groups: Answer::Found(vec![PlacementGroup {
            name: "spread".to_owned(),
            state: "available".to_owned(),
            partitions: None,
        }]),
        capacity_reservations: Answer::Found(vec![CapacityReservation {
            id: "cr-0000000a".to_owned(),
            state: "active".to_owned(),
            zone: ZONES[0].to_owned(),
            instance_type: "m5.large".to_owned(),
            free: 5,
        }]),
        dedicated_hosts: Answer::Found(vec![DedicatedHost {
            id: "h-0000000a".to_owned(),
            state: "available".to_owned(),
            zone: ZONES[0].to_owned(),
        }]),
        buckets: [(
            "bootstrap".to_owned(),
            Answer::Found(Some(Bucket {
                name: "bootstrap".to_owned(),
                region: REGION.to_owned(),
                is_public: false,
            })),
        )]
        .into(),
        spot_role: Answer::Found(true),
        quotas: Answer::Found(BTreeMap::from(
            [
                ("L-2AFB9258", 5.0),
                ("L-0EA8095F", 60.0),
                ("L-1216C47A", 64.0),
                ("L-34B43A08", 64.0),
            ]
            .map(|(code, value)| (code.to_owned(), value)),
        )),
        launches: [("AWSMachineTemplate/workers".to_owned(), allowed())].into(),
        other_calls: ["TerminateInstances", "CreateTags"]
            .map(|action| (action.to_owned(), allowed()))
            .into(),
        ..Facts::default()
    }
}

fn demand() -> Demand {
    let network = json!({
        "region": REGION,
        "vpc": {"id": VPC, "cidrBlocks": ["10.0.0.0/16"]},
        "subnets": [
            {"id": "subnet-0000000a", "availabilityZone": ZONES[0]},
            {"id": "subnet-0000000b", "availabilityZone": ZONES[1]},
            {"id": "subnet-0000000c", "availabilityZone": ZONES[2]},
        ],
        "securityGroups": {"all": ["sg-0000000a"], "controlPlane": ["sg-0000000b"]},
        "controlPlaneTargets": [{"targetGroupARN": GROUP_ARN}],
        "sshKeyName": "ops",
    });
    let network: MachineNetwork = serde_json::from_value(network).unwrap();
    let pinned = json!({
        "hostID": "h-0000000a", "capacityReservationId": "cr-0000000a", "placementGroupName": "spread",
        "subnet": {"id": "subnet-0000000a"}, "spotMarketOptions": {},
        "rootVolume": {"size": 16, "type": "gp3", "encryptionKey": "alias/volumes"},
    });
    Demand {
        cluster_tag: "prod".to_owned(),
        region: REGION.to_owned(),
        account_id: Some(ACCOUNT.to_owned()),
        network,
        cluster_cidrs: vec!["192.168.0.0/16".to_owned()],
        wants_ipv6: true,
        cni: Some(capa_api::cluster::preflight::PodNetwork::Calico),
        endpoint: Some(EndpointDemand {
            host: "api.elb.eu-west-1.amazonaws.com".to_owned(),
            port: 6443,
            is_initialized: true,
        }),
        api_port: 6443,
        runs_control_plane: true,
        has_hosted_control_plane: true,
        machines: vec![
            machines("control-plane", RoleOfMachines::ControlPlane, 4, json!({})),
            machines("workers", RoleOfMachines::Worker, 3, json!({})),
            machines("pinned", RoleOfMachines::Worker, 1, pinned),
            machines(
                "public",
                RoleOfMachines::Worker,
                1,
                json!({"publicIP": true, "subnet": {"id": "subnet-0000001a"}}),
            ),
        ],
    }
}

fn machines(name: &str, role: RoleOfMachines, replicas: i32, spec: Value) -> MachineDemand {
    let mut whole = json!({
        "instanceType": "m5.large", "ami": {"id": "ami-0000000a"}, "iamInstanceProfile": "nodes", "tenancy": "dedicated",
        "instanceMetadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    });
    let Value::Object(fields) = spec else {
        panic!("a spec is an object");
    };
    whole.as_object_mut().unwrap().extend(fields);
    MachineDemand {
        template: format!("AWSMachineTemplate/{name}"),
        role,
        replicas,
        spec: serde_json::from_value(whole).unwrap(),
        user_data_bytes: Some(9_000),
        ..MachineDemand::default()
    }
}

fn zone(name: &str) -> Zone {
    Zone {
        name: name.to_owned(),
        zone_type: "availability-zone".to_owned(),
        state: "available".to_owned(),
    }
}

fn subnets() -> Vec<Subnet> {
    let subnet = |id: &str, number: usize, zone: usize, role: &str| Subnet {
        id: id.to_owned(),
        vpc_id: VPC.to_owned(),
        state: "available".to_owned(),
        zone: ZONES[zone].to_owned(),
        cidr_block: format!("10.0.{number}.0/24"),
        ipv6_cidr_blocks: vec![format!("2001:db8:0:{number}::/64")],
        assigns_ipv6: true,
        assigns_public_ip: false,
        free_addresses: 200,
        outpost_arn: None,
        hostname_type: None,
        tags: [("kubernetes.io/cluster/prod", "shared"), (role, "1")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let (private, public) = ("kubernetes.io/role/internal-elb", "kubernetes.io/role/elb");
    vec![
        subnet("subnet-0000000a", 1, 0, private),
        subnet("subnet-0000000b", 2, 1, private),
        subnet("subnet-0000000c", 3, 2, private),
        subnet("subnet-0000001a", 11, 0, public),
        subnet("subnet-0000001b", 12, 1, public),
    ]
}

fn route_tables() -> Vec<RouteTable> {
    let association = |subnet: &str| RouteTableAssociation {
        id: format!("rtbassoc-{subnet}"),
        subnet_id: subnet.to_owned(),
    };
    let table = |id: &str, is_main, subnets: &[&str], target: Option<RouteTarget>| {
        let route = |destination: &str, target| Route {
            destination: destination.to_owned(),
            target,
            is_blackhole: false,
        };
        let default = target.map(|target| route("0.0.0.0/0", target));
        RouteTable {
            id: id.to_owned(),
            vpc_id: VPC.to_owned(),
            is_main,
            associations: subnets.iter().map(|id| association(id)).collect(),
            routes: [route("10.0.0.0/16", RouteTarget::Local)]
                .into_iter()
                .chain(default)
                .collect(),
            tags: BTreeMap::new(),
        }
    };
    let nat = |id: &str| Some(RouteTarget::NatGateway(id.to_owned()));
    let internet = Some(RouteTarget::InternetGateway("igw-0000000a".to_owned()));
    vec![
        table("rtb-0000000a", false, &["subnet-0000000a"], nat("nat-0000000a")),
        table("rtb-0000000b", false, &["subnet-0000000b"], nat("nat-0000000b")),
        // subnet-0000000c has no association, so it uses the main route table.
        table("rtb-0000000c", true, &[], None),
        table("rtb-0000001a", false, &["subnet-0000001a", "subnet-0000001b"], internet),
    ]
}

fn nat(id: &str, subnet: &str) -> NatGateway {
    NatGateway {
        id: id.to_owned(),
        subnet_id: subnet.to_owned(),
        state: "available".to_owned(),
    }
}

fn allow_all(is_egress: bool) -> AclEntry {
    AclEntry {
        number: 100,
        is_egress,
        allows: true,
        protocol: "-1".to_owned(),
        cidr_block: "0.0.0.0/0".to_owned(),
        ports: None,
    }
}

fn vpc_endpoints() -> Vec<VpcEndpoint> {
    let services = ["ec2", "elasticloadbalancing", "sts", "ecr.api", "ecr.dkr"]
        .into_iter()
        .enumerate();
    let interfaces = services.map(|(number, service)| VpcEndpoint {
        id: format!("vpce-0000000{number}"),
        service: service.to_owned(),
        endpoint_type: "Interface".to_owned(),
        state: "available".to_owned(),
        has_private_dns: true,
        subnet_ids: vec!["subnet-0000000c".to_owned()],
        security_group_ids: vec!["sg-0000000e".to_owned()],
        route_table_ids: vec![],
    });
    let gateway = VpcEndpoint {
        id: "vpce-0000000f".to_owned(),
        service: "s3".to_owned(),
        endpoint_type: "Gateway".to_owned(),
        state: "available".to_owned(),
        route_table_ids: vec!["rtb-0000000c".to_owned()],
        ..VpcEndpoint::default()
    };
    interfaces.chain([gateway]).collect()
}

pub(super) fn of_group(protocol: &str, ports: Option<(i32, i32)>, group: &str) -> Rule<String> {
    rule(protocol, ports, Source::Group(group.to_owned()))
}

pub(super) fn of_range(protocol: &str, ports: Option<(i32, i32)>, range: &str) -> Rule<String> {
    rule(protocol, ports, Source::Cidr(range.to_owned()))
}

/// Group `a` belongs to all machines, `b` to the control plane, `d` to the load balancer, and `e` to endpoints.
fn security_groups() -> Vec<SecurityGroup> {
    let group = |id: &str, name: &str, ingress: Vec<Rule<String>>, egress: Vec<Rule<String>>| SecurityGroup {
        id: id.to_owned(),
        name: name.to_owned(),
        vpc_id: VPC.to_owned(),
        owner_id: ACCOUNT.to_owned(),
        tags: BTreeMap::new(),
        ingress,
        egress,
    };
    let vpc = |protocol, ports| of_range(protocol, Some(ports), "10.0.0.0/16");
    let mut of_nodes = group(
        "sg-0000000a",
        "nodes",
        vec![
            of_group("tcp", Some((10250, 10250)), "sg-0000000b"),
            of_group("tcp", Some((179, 179)), "sg-0000000a"),
            of_group("4", None, "sg-0000000a"),
            vpc("tcp", (30000, 32767)),
        ],
        vec![of_range("-1", None, "0.0.0.0/0")],
    );
    of_nodes
        .tags
        .insert("kubernetes.io/cluster/prod".to_owned(), "shared".to_owned());
    let of_control_plane = group(
        "sg-0000000b",
        "control-plane",
        vec![
            of_group("tcp", Some((6443, 6443)), "sg-0000000a"),
            of_group("tcp", Some((6443, 6443)), "sg-0000000b"),
            of_group("tcp", Some((6443, 6443)), "sg-0000000d"),
            of_group("tcp", Some((2379, 2380)), "sg-0000000b"),
            of_group("tcp", Some((10250, 10259)), "sg-0000000b"),
        ],
        vec![],
    );
    vec![
        of_nodes,
        of_control_plane,
        group("sg-0000000d", "load-balancer", vec![vpc("tcp", (6443, 6443))], vec![]),
        group("sg-0000000e", "endpoints", vec![vpc("tcp", (443, 443))], vec![]),
    ]
}

fn attributes(pairs: &[(&str, &str)]) -> Answer<BTreeMap<String, String>> {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    Answer::Found(pairs.collect())
}

fn target_group() -> TargetGroup {
    TargetGroup {
        arn: GROUP_ARN.to_owned(),
        protocol: "TCP".to_owned(),
        port: 6443,
        vpc_id: VPC.to_owned(),
        target_type: "instance".to_owned(),
        health_check: HealthCheck {
            protocol: "HTTPS".to_owned(),
            port: "traffic-port".to_owned(),
            path: Some("/readyz".to_owned()),
            interval_seconds: 10,
            healthy_threshold: 2,
            unhealthy_threshold: 2,
        },
        load_balancer_arns: vec![BALANCER_ARN.to_owned()],
        attributes: attributes(&[
            ("preserve_client_ip.enabled", "false"),
            ("deregistration_delay.connection_termination.enabled", "true"),
        ]),
    }
}

fn load_balancer() -> LoadBalancer {
    LoadBalancer {
        arn: BALANCER_ARN.to_owned(),
        name: "api".to_owned(),
        dns_name: "api.elb.eu-west-1.amazonaws.com".to_owned(),
        balancer_type: "network".to_owned(),
        scheme: "internal".to_owned(),
        state: "active".to_owned(),
        vpc_id: VPC.to_owned(),
        ip_address_type: "dualstack".to_owned(),
        zones: ZONES
            .into_iter()
            .zip(["subnet-0000000a", "subnet-0000000b", "subnet-0000000c"])
            .map(|(zone, subnet)| (zone.to_owned(), subnet.to_owned()))
            .collect(),
        security_group_ids: vec!["sg-0000000d".to_owned()],
        attributes: attributes(&[("load_balancing.cross_zone.enabled", "false")]),
        listeners: Answer::Found(vec![Listener {
            protocol: "TCP".to_owned(),
            port: 6443,
            target_group_arns: vec![GROUP_ARN.to_owned()],
        }]),
    }
}
