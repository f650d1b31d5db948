//! The local world: a real kube-apiserver, Cluster API and the EC2 API over the wire
