//! Simulated nodes: computers that boot from their user data and play kubeadm, and the clusters that they form.
//!
//! Instances behind the [AWS proxy](crate::aws_proxy) are followed by polling. A running one reads its user data; where
//! that calls `kubeadm init`, a kube-apiserver starts with the keys found in it, and a stub of kubelet and etcd beside
//! it; where it calls `kubeadm join`, the machine asks the cluster at the endpoint it was told, through the load
//! balancer in front of it, whether its token is good. Each then shows as a Node, a control plane node with its static
//! pods. A stopped instance's Node is no longer heard of; a terminated one's is deleted, as a cloud controller does it.
//!
//! Names of endpoints need no DNS: clients outside reach them through the CONNECT proxy of this program, which lets
//! traffic through only to an instance that the load balancer of that name holds for healthy.

mod authority;
mod boot;
mod cluster;
mod computers;
mod connect;
mod etcd;
mod objects;
mod route;
mod simulator;
mod user_data;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

pub use simulator::simulate;

/// What the simulator is told.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// URL of the AWS proxy whose instances are followed, e.g. `http://127.0.0.1:5000`.
    #[arg(long)]
    pub aws: String,
    /// Address of the CONNECT proxy that leads to the endpoints of the clusters: the HTTPS_PROXY of whoever uses them.
    #[arg(long)]
    pub listen: SocketAddr,
    /// URL of the etcd that keeps the data of all clusters, each under a prefix of its own.
    #[arg(long)]
    pub etcd: String,
    /// Folder for the logs of the API servers.
    #[arg(long)]
    pub logs: PathBuf,
}
