//! The demands of several clusters.

use std::collections::BTreeSet;

use capa_api::cluster::preflight::PodNetwork;
use capa_api::network::MachineNetwork;
use serde_json::{Value, json};

use crate::facts::{Demand, EndpointDemand, MachineDemand, MachineRole};
use crate::testing::good;

/// Machines with a role, a number and fields of the spec.
pub(super) fn machines(name: &str, role: MachineRole, replicas: i32, fields: &Value) -> MachineDemand {
    let mut spec = json!({"instanceType": "m5.large"});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    MachineDemand {
        template: format!("AWSMachineTemplate/{name}"),
        role,
        replicas,
        existing: 0,
        failure_domains: BTreeSet::new(),
        spec: serde_json::from_value(spec).unwrap(),
        user_data_bytes: None,
    }
}

/// A cluster with workers, and with control plane machines for `cp`. It names only the given objects.
pub(super) fn of_spec(kind: &str, named: &[(&str, Value)]) -> Demand {
    let has_control_plane = kind == "cp";
    let control_plane = machines("cp", MachineRole::ControlPlane, 4, &json!({}));
    let workers = machines("md", MachineRole::Worker, 3, &json!({}));
    let network: serde_json::Map<String, Value> =
        named.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let network: MachineNetwork = serde_json::from_value(Value::Object(network)).unwrap();
    Demand {
        cluster_tag: "prod".to_owned(),
        region: "eu-west-1".to_owned(),
        network,
        cluster_cidrs: vec!["10.0.0.0/17".to_owned(), "10.128.0.0/12".to_owned()],
        cni: Some(PodNetwork::Calico),
        api_port: 6443,
        runs_control_plane: has_control_plane,
        has_hosted_control_plane: !has_control_plane,
        machines: has_control_plane.then_some(control_plane).into_iter().chain([workers]).collect(),
        ..Demand::default()
    }
}

fn subnets(zones: [Option<&str>; 3]) -> (&'static str, Value) {
    let subnets = zones
        .iter()
        .zip(["a", "b", "c"])
        .map(|(zone, letter)| json!({"id": format!("subnet-0000000{letter}"), "availabilityZone": zone}));
    ("subnets", subnets.collect())
}

const ZONES: [Option<&str>; 3] = [Some("eu-west-1a"), Some("eu-west-1b"), Some("eu-west-1c")];
const TARGET_GROUP: &str = "arn:aws:elasticloadbalancing:eu-west-1:111122223333:targetgroup/api/0000000000000001";

/// All demands, with names.
pub(super) fn all() -> Vec<(&'static str, Demand)> {
    let vpc = ("vpc", json!({"id": "vpc-0000000a"}));
    let groups =
        ("securityGroups", json!({"all": ["sg-0000000a"], "controlPlane": ["sg-0000000b"], "worker": ["sg-0000000c"]}));
    let targets = ("controlPlaneTargets", json!([{"targetGroupARN": TARGET_GROUP}]));
    let named = [vpc.clone(), subnets(ZONES), groups, targets];
    let cilium = Demand {
        cni: Some(PodNetwork::Cilium),
        endpoint: Some(EndpointDemand {
            host: "api.elb.eu-west-1.amazonaws.com".to_owned(),
            port: 443,
            is_initialized: false,
        }),
        ..of_spec("cp", &named)
    };
    let with_ipv6 = |demand| Demand { wants_ipv6: true, cni: None, ..demand };
    let of_control_plane = ("securityGroups", json!({"controlPlane": ["sg-0000000b", "sg-0000000d"]}));
    let of_workers = ("securityGroups", json!({"worker": ["sg-0000000b"]}));
    let of_all = ("securityGroups", json!({"all": ["sg-0000000a"]}));
    vec![
        ("nothing named", of_spec("cp", &[])),
        ("hosted control plane", of_spec("workers", &[])),
        ("hosted control plane, groups named", of_spec("workers", std::slice::from_ref(&of_all))),
        ("Cilium, all named", cilium),
        ("IPv6", with_ipv6(of_spec("cp", &[]))),
        ("IPv6, all named", with_ipv6(of_spec("cp", &named))),
        ("zones not known", of_spec("cp", &[vpc.clone(), subnets([None; 3]), of_all])),
        ("one zone named", of_spec("cp", &[vpc.clone(), subnets([Some("eu-west-1b"); 3]), of_control_plane])),
        ("groups of workers named", of_spec("cp", &[vpc, of_workers])),
        ("public workers", of_public_workers()),
        ("public machines alone", of_public_machines()),
        ("failure domains", of_failure_domains()),
        ("no machines known", Demand { machines: vec![], ..of_spec("cp", &[]) }),
        ("everything", everything()),
    ]
}

fn of_public_workers() -> Demand {
    let mut demand = of_spec("cp", &[]);
    demand.cni = Some(PodNetwork::Antrea);
    demand.machines[1].spec.public_ip = Some(true);
    demand
}

fn of_public_machines() -> Demand {
    let mut demand = of_spec("cp", &[]);
    demand.cni = Some(PodNetwork::Flannel);
    for machines in &mut demand.machines {
        machines.spec.public_ip = Some(true);
    }
    demand
}

fn of_failure_domains() -> Demand {
    let mut demand = of_spec("cp", &[subnets(ZONES)]);
    demand.machines[1].failure_domains.insert("eu-west-1d".to_owned());
    demand.endpoint = Some(EndpointDemand { host: "10.0.0.1".to_owned(), port: 6443, is_initialized: false });
    demand.machines.push(machines("edge", MachineRole::Worker, 1, &json!({"subnet": {"id": "subnet-0000000e"}})));
    demand
}

/// The demand of the good infrastructure, with a bucket and more security groups than usual.
fn everything() -> Demand {
    let mut demand = good().demand;
    let storage = json!({"s3": {"bucket": "bootstrap"}});
    demand.network.bootstrap_storage = Some(serde_json::from_value(storage).unwrap());
    let groups = demand.network.security_groups.as_mut().unwrap();
    groups.worker.extend((1..6).map(|number| format!("sg-0000001{number}")));
    demand
}
