//! Everything outside the processes: the API server, AWS, and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::aws::Aws;
use crate::server::Server;

/// When every history begins.
pub(crate) const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

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

/// Time since the beginning of the history.
pub(crate) fn since_start(now: Timestamp) -> Duration {
    now.duration_since(START).unsigned_abs()
}

/// `duration` later.
pub(crate) fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    at.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
