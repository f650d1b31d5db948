//! The requirements of an unmanaged AWSCluster on the infrastructure that the user brings, for the infrastructure
//! checks.

use capa_api::cluster::{AWSCluster, AWSClusterSpec};
use capa_api::conditions::ConditionStatus;
use capa_api::contract::Cluster;
use capa_api::network::{MachineNetwork, NetworkSecurityGroups, NetworkSubnet, NetworkVpc};
use capa_cloud::{CloudError, ClusterCloud};
use capa_preflight::facts::{Demand, EndpointDemand, MachineDemand};

use super::facts::NetworkLookup;
use super::load_balancer::endpoint_port;
use super::read::look_up;
use super::resolve::resolve;

/// The control plane providers whose control planes do not run on machines of the cluster.
const HOSTED: [&str; 3] = ["K0smotronControlPlane", "KamajiControlPlane", "HostedControlPlane"];

/// The network that an AWSCluster describes, as the controller would publish it, and the message of `NetworkReady` if
/// something is missing. For commands that use AWS without Kubernetes.
///
/// # Errors
/// A call that AWS refuses or does not answer.
pub async fn resolved_network(
    spec: &AWSClusterSpec,
    cluster_name: &str,
    cloud: &dyn ClusterCloud,
) -> Result<(MachineNetwork, Option<String>), CloudError> {
    let account_id = cloud.account_id().await?;
    let lookup = match look_up(cloud, spec, account_id).await {
        Ok(lookup) => lookup,
        Err(error) => NetworkLookup::Failed(error),
    };
    let resolution = resolve(spec, cluster_name, endpoint_port(spec, None), &lookup, None);
    let is_complete = resolution.condition.status == ConditionStatus::True;
    let problem = (!is_complete).then_some(resolution.condition.message);
    Ok((resolution.network, problem))
}

/// The requirements of an AWSCluster and its machines on the infrastructure. `network` is the network that the
/// controller publishes. Resources that the spec declares and AWS does not have are added, so that the checks find them
/// missing.
pub fn demand(cluster: &AWSCluster, owner: &Cluster, network: &MachineNetwork, machines: Vec<MachineDemand>) -> Demand {
    let spec = &cluster.spec;
    let of_owner = demand_of_network(owner, declared(spec, network), machines);
    let endpoint = spec.endpoint().map(|(host, port)| EndpointDemand {
        host: host.to_owned(),
        port,
        is_initialized: owner.control_plane_initialized(),
    });
    Demand {
        region: spec.region.clone().unwrap_or_default(),
        cni: spec.preflight.as_ref().and_then(|preflight| preflight.cni),
        endpoint: endpoint.or(of_owner.endpoint),
        ..of_owner
    }
}

/// The requirements of a Cluster and its machines on a network, which any kind of object may describe.
pub fn demand_of_network(owner: &Cluster, network: MachineNetwork, machines: Vec<MachineDemand>) -> Demand {
    let endpoint = owner.spec.control_plane_endpoint.as_ref();
    let endpoint = endpoint.filter(|endpoint| endpoint.is_set());
    let control_plane = owner.spec.control_plane_ref.as_ref();
    let has_hosted_control_plane = control_plane.is_some_and(|reference| HOSTED.contains(&reference.kind.as_str()));
    let cluster_cidrs: Vec<String> = owner.cidr_blocks().into_iter().map(str::to_owned).collect();
    Demand {
        cluster_tag: owner.metadata.name.clone().unwrap_or_default(),
        region: network.region.clone().unwrap_or_default(),
        account_id: None,
        network,
        wants_ipv6: cluster_cidrs.iter().any(|block| block.contains(':')),
        cluster_cidrs,
        cni: None,
        api_port: owner.api_server_port(),
        endpoint: endpoint.map(|endpoint| EndpointDemand {
            host: endpoint.host.clone(),
            port: endpoint.port,
            is_initialized: owner.control_plane_initialized(),
        }),
        runs_control_plane: control_plane.is_some() && !has_hosted_control_plane,
        has_hosted_control_plane,
        machines,
    }
}

/// The network with the ids and zones that the spec declares.
fn declared(spec: &AWSClusterSpec, network: &MachineNetwork) -> MachineNetwork {
    let mut network = network.clone();
    if let Some(id) = spec.vpc_id() {
        let known = network.vpc.take().filter(|vpc| vpc.id == id);
        network.vpc = Some(known.unwrap_or_else(|| NetworkVpc { id: id.to_owned(), ..NetworkVpc::default() }));
    }
    for subnet in spec.subnets().iter().filter(|subnet| !subnet.is_for_pods_only()) {
        let Some(id) = subnet.effective_resource_id() else {
            continue;
        };
        let zone = subnet.availability_zone.clone().filter(|zone| !zone.is_empty());
        match network.subnets.iter_mut().find(|known| known.id == id) {
            Some(known) => known.availability_zone = zone.or_else(|| known.availability_zone.take()),
            None => network.subnets.push(NetworkSubnet {
                id: id.to_owned(),
                availability_zone: zone,
                ..NetworkSubnet::default()
            }),
        }
    }
    if let Some(overrides) = spec.network.as_ref().map(|network| &network.security_group_overrides) {
        let named = NetworkSecurityGroups::from_overrides(overrides);
        let groups = network.security_groups.get_or_insert_default();
        for (known, named) in [(&mut groups.all, named.all), (&mut groups.control_plane, named.control_plane)] {
            known.extend(named);
            known.sort();
            known.dedup();
        }
    }
    if network.control_plane_targets.is_empty() {
        network.control_plane_targets.clone_from(&spec.control_plane_targets);
    }
    if network.region.is_none() {
        network.region.clone_from(&spec.region);
    }
    network
}
