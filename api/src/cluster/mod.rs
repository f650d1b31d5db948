//! AWSCluster: the infrastructure of one cluster.

pub mod status;
