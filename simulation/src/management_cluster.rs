//! The management clusters of a history.

/// A management cluster: an API server, Cluster API's core, and processes of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ManagementCluster {
    /// The one that a history is about.
    Main,
    /// Another one in the same AWS account, whose objects have the same namespace and names.
    Neighbour,
}

impl ManagementCluster {
    pub(crate) const ALL: [Self; 2] = [Self::Main, Self::Neighbour];
}
