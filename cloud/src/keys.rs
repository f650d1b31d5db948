//! The names of the objects on whose behalf calls are made.

/// The name of an AWSMachine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineKey {
    /// Namespace of the AWSMachine.
    pub namespace: String,
    /// Name of the AWSMachine.
    pub name: String,
}

/// The name of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster. The name is empty for an object whose Cluster is unknown.
    pub name: String,
}
