//! The traffic that the rules require. Rules check that security groups and network ACLs allow it, and the list of
//! requirements contains it.

use std::collections::BTreeSet;

use capa_api::cluster::preflight::PodNetwork;
use serde::Serialize;

use crate::facts::{Demand, IpProtocol, MachineRole, Traffic};

/// The other side of a connection of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Workers.
    Workers,
    /// Control plane machines.
    ControlPlane,
    /// All machines.
    Machines,
    /// The load balancers of the control plane.
    LoadBalancers,
    /// Every address of the VPC.
    Vpc,
    /// Every address.
    Anywhere,
}

/// Connections that the security groups of machines must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The rule that requires the connections.
    pub(crate) rule: &'static str,
    /// Role of the machines.
    pub(crate) role: MachineRole,
    /// The packets.
    pub(crate) traffic: Traffic,
    /// The other side.
    pub(crate) side: Side,
}

const BOTH: [MachineRole; 2] = [MachineRole::ControlPlane, MachineRole::Worker];
const KUBELET: Traffic = Traffic::tcp(10250);

/// The connections that machines must admit, without the traffic of the pod network.
pub(crate) fn incoming(demand: &Demand) -> Vec<Flow> {
    let flow = |rule, role, traffic, side| Flow { rule, role, traffic, side };
    let (control_plane, worker) = (MachineRole::ControlPlane, MachineRole::Worker);
    let mut flows = vec![flow("G9", worker, Traffic::range(IpProtocol::Tcp, 30000, 32767), Side::Vpc)];
    if demand.has_control_plane_machines() {
        let api = Traffic::tcp(demand.api_port);
        flows.extend([
            flow("G4", control_plane, api, Side::Workers),
            flow("G4", control_plane, api, Side::ControlPlane),
            flow("G4", control_plane, api, Side::LoadBalancers),
            // Even a control plane with one machine has two while the machine is replaced.
            flow("G5", control_plane, Traffic::range(IpProtocol::Tcp, 2379, 2380), Side::ControlPlane),
            flow("G6", control_plane, KUBELET, Side::ControlPlane),
            flow("G6", worker, KUBELET, Side::ControlPlane),
            flow("G7", control_plane, Traffic::tcp(10257), Side::ControlPlane),
            flow("G7", control_plane, Traffic::tcp(10259), Side::ControlPlane),
        ]);
    }
    flows
}

/// The connections that machines must be allowed to open.
pub(crate) fn outgoing(demand: &Demand) -> Vec<Flow> {
    let port = demand.endpoint_port();
    // Connections to everywhere include an endpoint with their port.
    let endpoint = (port != 443).then_some((Traffic::tcp(port), Side::ControlPlane));
    // Security groups do not filter traffic to Amazon's DNS and time servers.
    let first = std::iter::once((Traffic::tcp(443), Side::Anywhere));
    let wanted: Vec<(Traffic, Side)> = first.chain(endpoint).chain([(KUBELET, Side::Machines)]).collect();
    let of_role = |role| wanted.iter().map(move |&(traffic, side)| Flow { rule: "G10", role, traffic, side });
    let konnectivity = demand.has_hosted_control_plane.then_some(Flow {
        rule: "G12",
        role: MachineRole::Worker,
        traffic: Traffic::tcp(8132),
        side: Side::Anywhere,
    });
    BOTH.into_iter().flat_map(of_role).chain(konnectivity).collect()
}

/// The traffic between the nodes of a pod network. One of the sets must be admitted. Sources: the requirements pages of
/// Calico, Cilium, Flannel and Antrea.
pub(crate) fn of_pod_network(cni: PodNetwork) -> Vec<Vec<Traffic>> {
    match cni {
        PodNetwork::None => vec![],
        PodNetwork::Calico => {
            vec![vec![Traffic::tcp(179), Traffic::protocol(IpProtocol::IP_IN_IP)], vec![Traffic::udp(4789)]]
        }
        PodNetwork::Cilium => {
            let with = |tunnel| vec![Traffic::udp(tunnel), Traffic::tcp(4240), Traffic::range(IpProtocol::Icmp, 8, 8)];
            vec![with(8472), with(6081)]
        }
        PodNetwork::Flannel => vec![vec![Traffic::udp(8472)]],
        PodNetwork::Antrea => vec![vec![Traffic::udp(6081), Traffic::range(IpProtocol::Tcp, 10349, 10351)]],
    }
}

/// Packets that the network ACL of a subnet must let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AclTraffic {
    /// Whether the packets leave the subnet.
    pub is_egress: bool,
    /// The packets.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Whether the other side is every subnet of machines. Otherwise it is every address.
    pub with_subnets: bool,
}

/// The traffic that network ACLs must let pass: HTTPS and its answers, the API server and the kubelet.
pub(crate) fn of_network_acls(demand: &Demand) -> Vec<AclTraffic> {
    let with = |is_egress, traffic, with_subnets| AclTraffic { is_egress, traffic, with_subnets };
    let mut wanted =
        vec![with(true, Traffic::tcp(443), false), with(false, Traffic::range(IpProtocol::Tcp, 32768, 60999), false)];
    let ports = BTreeSet::from([demand.api_port, demand.endpoint_port()]);
    for traffic in ports.into_iter().map(Traffic::tcp).chain([KUBELET]) {
        wanted.extend([with(false, traffic, true), with(true, traffic, true)]);
    }
    wanted
}
