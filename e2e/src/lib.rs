//! The local world: a real kube-apiserver, Cluster API and the EC2 API over the wire

pub mod aws_proxy;
pub mod moto;
pub mod user;
