//! Simulated nodes: computers that boot from their user data and play kubeadm, and the clusters that they form.
//!
//! The simulator polls the instances behind the [AWS proxy](crate::aws_proxy). A running instance reads its user data,
//! and runs the boot hooks in it, which may fetch the configuration from AWS with the credentials of the instance.
//! Where the user data calls `kubeadm init`, a kube-apiserver starts with the keys of the user data, together with a
//! stub of kubelet and etcd. Where the user data calls `kubeadm join`, the computer connects to the configured
//! endpoint, through the load balancer of the cluster, and presents its token. Each computer then appears as a Node, a
//! control plane node with its static pods. The Node of a stopped instance stops reporting its status; the Node of a
//! terminated instance is deleted, as by a cloud controller.
//!
//! Names of endpoints need no DNS: clients outside use the CONNECT proxy of this program, which passes traffic only to
//! instances that the load balancer with that name considers healthy.

mod addons;
mod authority;
mod boot;
mod boot_hook;
mod cluster;
mod computers;
mod configuration;
mod connect;
mod etcd;
mod ignition;
mod keys;
mod multipart;
mod objects;
mod route;
mod simulator;
mod sources;
mod state;
mod user_data;
mod write;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

pub use simulator::simulate;

/// The settings of the simulator.
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
