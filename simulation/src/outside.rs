//! Everything outside the processes: the API server, AWS, and the time.

use jiff::Timestamp;

use crate::aws::Aws;
use crate::management_cluster::ManagementCluster;
use crate::server::Server;
use crate::time::START;

/// The services that calls have their effect on.
pub(crate) struct Outside {
    pub(crate) now: Timestamp,
    pub(crate) aws: Aws,
    main: Server,
    neighbour: Server,
}

impl Outside {
    /// Empty API servers, and AWS as histories find it.
    pub(crate) fn new() -> Self {
        Self {
            now: START,
            aws: Aws::new(),
            main: Server::new(ManagementCluster::Main),
            neighbour: Server::new(ManagementCluster::Neighbour),
        }
    }

    /// Moves all clocks, never back.
    pub(crate) fn set_now(&mut self, at: Timestamp) {
        self.now = at.max(self.now);
        self.main.now = self.now;
        self.neighbour.now = self.now;
    }

    /// The API server of a management cluster.
    pub(crate) fn server(&self, of: ManagementCluster) -> &Server {
        match of {
            ManagementCluster::Main => &self.main,
            ManagementCluster::Neighbour => &self.neighbour,
        }
    }

    /// The same, to be changed.
    pub(crate) fn server_mut(&mut self, of: ManagementCluster) -> &mut Server {
        match of {
            ManagementCluster::Main => &mut self.main,
            ManagementCluster::Neighbour => &mut self.neighbour,
        }
    }
}
