//! Follows the computers of all accounts, and has them do what their instances do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::Options;
use super::boot::{self, Node};
use super::cluster::Cluster;
use super::computers::Computers;
use super::connect;
use super::route::{Backend, Routes};
use crate::aws_proxy::computers::{Boot, Computer};
use crate::directory::Directory;

/// How often the computers are looked at.
const LOOK: Duration = Duration::from_millis(250);

/// How long kubeadm waits before it tries again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// What all computers share.
#[derive(Clone)]
pub(super) struct World {
    pub(super) options: Options,
    pub(super) directory: Arc<Directory>,
    pub(super) computers: Computers,
    pub(super) routes: Routes,
    /// The clusters that computers have started, by instance id: a second try of one does not start it again.
    started: Arc<Mutex<HashMap<String, Weak<Cluster>>>>,
}

impl World {
    /// Where a connection to this endpoint, `host:port`, goes.
    pub(super) async fn route(&self, endpoint: &str) -> anyhow::Result<Backend> {
        let targets = self.computers.healthy_targets(endpoint).await?;
        self.routes.to(endpoint, targets.as_deref())
    }

    pub(super) fn started(&self, instance_id: &str) -> Option<Arc<Cluster>> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.get(instance_id)?.upgrade()
    }

    pub(super) fn has_started(&self, instance_id: &str, cluster: &Arc<Cluster>) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.insert(instance_id.to_owned(), Arc::downgrade(cluster));
    }
}

/// Simulates nodes until the runtime ends.
pub async fn simulate(options: Options) -> anyhow::Result<()> {
    let world = World {
        directory: Arc::new(Directory::new()?),
        computers: Computers::new(&options.aws),
        routes: Routes::default(),
        started: Arc::default(),
        options,
    };
    let connections = connect::serve(world.options.listen, world.clone());
    let local = LocalSet::new();
    tokio::try_join!(connections, local.run_until(follow(world)))?;
    Ok(())
}

async fn follow(world: World) -> anyhow::Result<()> {
    let mut lives: HashMap<String, Life> = HashMap::new();
    loop {
        match world.computers.list().await {
            Ok(computers) => {
                for computer in computers {
                    let life = lives.remove(&computer.instance_id).unwrap_or(Life::Off { since: None });
                    let id = computer.instance_id.clone();
                    lives.insert(id, life.goes_on(&world, computer).await);
                }
            }
            Err(error) => tracing::warn!("cannot list the computers: {error:#}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What has become of a computer.
enum Life {
    /// It has not booted; `since` is when it last tried to.
    Off {
        since: Option<Instant>,
    },
    Booting(JoinHandle<anyhow::Result<Option<Node>>>),
    Up(Box<Node>),
    Stopped(Box<Node>),
    /// Over, or of no interest.
    Gone,
}

impl Life {
    async fn goes_on(self, world: &World, computer: Computer) -> Self {
        let id = computer.instance_id.clone();
        match (self, computer.state.as_str()) {
            (Self::Booting(task), _) if !task.is_finished() => Self::Booting(task),
            (Self::Booting(task), _) => booted(task, &id).await,
            (Self::Off { since }, "running") if is_due(&computer, since) => {
                let world = world.clone();
                Self::Booting(spawn_local(async move { boot::boot(&world, &computer).await }))
            }
            (Self::Gone, _) | (Self::Off { .. }, "shutting-down" | "terminated") => Self::Gone,
            (Self::Up(node), "stopping" | "stopped") => {
                told(&id, "stops", node.stop(world).await);
                Self::Stopped(node)
            }
            (Self::Stopped(node), "running") => {
                told(&id, "starts", node.run(world).await);
                Self::Up(node)
            }
            (Self::Up(node) | Self::Stopped(node), "shutting-down" | "terminated") => {
                told(&id, "ends", node.vanish(world).await);
                Self::Gone
            }
            (life, _) => life,
        }
    }
}

fn is_due(computer: &Computer, tried: Option<Instant>) -> bool {
    let rested = tried.is_none_or(|tried| tried.elapsed() >= TRY_AGAIN);
    rested
        && match computer.boot {
            Boot::Normal => true,
            Boot::After(delay) => Duration::from_millis(computer.up_milliseconds) >= delay,
            Boot::Never => false,
        }
}

async fn booted(task: JoinHandle<anyhow::Result<Option<Node>>>, id: &str) -> Life {
    let outcome = task.await.unwrap_or_else(|panicked| Err(panicked.into()));
    match outcome {
        Ok(Some(node)) => {
            tracing::info!(
                instance = id,
                node = node.facts.name,
                endpoint = node.cluster.endpoint,
                "is a node"
            );
            Life::Up(Box::new(node))
        }
        Ok(None) => Life::Gone,
        Err(error) => {
            tracing::info!(instance = id, "did not become a node, and tries again: {error:#}");
            Life::Off {
                since: Some(Instant::now()),
            }
        }
    }
}

fn told(id: &str, what: &str, outcome: anyhow::Result<()>) {
    match outcome {
        Ok(()) => tracing::info!(instance = id, "{what}"),
        Err(error) => tracing::warn!(instance = id, "{what}, and could not say so: {error:#}"),
    }
}
