//! Follows the computers of all accounts, and simulates the effects of their instances' state changes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::Options;
use super::boot::{self, Node};
use super::connect;
use super::state::NodeSimulator;
use crate::aws_proxy::computers::{Boot, Computer};

/// The interval at which the computers are read.
const LOOK: Duration = Duration::from_millis(250);

/// The pause after a failure.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The limit for any step, including the start of an API server on a busy host.
const WITHIN: Duration = Duration::from_mins(6);

/// Simulates nodes until the runtime ends.
pub async fn simulate(options: Options) -> anyhow::Result<()> {
    let simulator = NodeSimulator::new(options)?;
    let connections = connect::serve(simulator.options.listen, simulator.clone());
    let local = LocalSet::new();
    tokio::try_join!(connections, local.run_until(follow(simulator)))?;
    Ok(())
}

async fn follow(simulator: NodeSimulator) -> anyhow::Result<()> {
    let mut lives: HashMap<String, Life> = HashMap::new();
    loop {
        match simulator.computers.list().await {
            Ok(computers) => {
                for computer in computers {
                    let id = computer.instance_id.clone();
                    let life = lives.remove(&id).unwrap_or(Life::Off { tried: None });
                    lives.insert(id, life.goes_on(&simulator, computer).await);
                }
            }
            Err(error) => tracing::warn!("cannot list the computers: {error:#}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The state of a computer. `tried` is the time of the last failed attempt to leave the state.
enum Life {
    /// The computer has not booted.
    Off {
        tried: Option<Instant>,
    },
    /// The computer is changing from one state to another.
    Busy(JoinHandle<Self>),
    /// The computer is a node of a cluster, but its components are not yet running and visible.
    Half {
        node: Box<Node>,
        tried: Instant,
    },
    Up(Box<Node>),
    Stopped(Box<Node>),
    /// The instance is gone, and its cluster does not reflect that yet.
    Ending {
        node: Box<Node>,
        tried: Instant,
    },
    /// The computer is gone, or its user data does not create a node.
    Gone,
}

impl Life {
    async fn goes_on(self, simulator: &NodeSimulator, computer: Computer) -> Self {
        let simulator = simulator.clone();
        let is_over = ["shutting-down", "terminated"].contains(&computer.state.as_str());
        match (self, computer.state.as_str()) {
            (Self::Busy(task), _) if !task.is_finished() => Self::Busy(task),
            (Self::Busy(task), _) => task.await.unwrap_or(Self::Off { tried: None }),
            (Self::Off { tried }, "running") if is_due(&computer, tried) => busy(boots(simulator, computer)),
            (Self::Off { .. }, _) if is_over => Self::Gone,
            (Self::Half { node, tried }, "running") if rested(tried) => busy(runs(simulator, node)),
            (Self::Stopped(node), "running") => busy(runs(simulator, node)),
            (Self::Half { node, tried }, "stopping" | "stopped") if rested(tried) => busy(stops(simulator, node)),
            (Self::Up(node), "stopping" | "stopped") => busy(stops(simulator, node)),
            (Self::Ending { node, tried }, _) if rested(tried) => busy(ends(simulator, node)),
            (Self::Half { node, .. } | Self::Up(node) | Self::Stopped(node), _) if is_over => {
                busy(ends(simulator, node))
            }
            (life, _) => life,
        }
    }
}

fn busy(transition: impl Future<Output = Life> + 'static) -> Life {
    Life::Busy(spawn_local(transition))
}

fn rested(tried: Instant) -> bool {
    tried.elapsed() >= TRY_AGAIN
}

fn is_due(computer: &Computer, tried: Option<Instant>) -> bool {
    tried.is_none_or(rested)
        && match computer.boot {
            Boot::Normal => true,
            Boot::After(delay) => Duration::from_millis(computer.up_milliseconds) >= delay,
            Boot::Never => false,
        }
}

async fn boots(simulator: NodeSimulator, computer: Computer) -> Life {
    let id = &computer.instance_id;
    match within(boot::boot(&simulator, &computer)).await {
        Ok(Some(node)) => runs(simulator, Box::new(node)).await,
        Ok(None) => Life::Gone,
        Err(error) => {
            tracing::info!(instance = id, "did not become a node, and tries again: {error:#}");
            let tried = Some(Instant::now());
            Life::Off { tried }
        }
    }
}

async fn runs(simulator: NodeSimulator, node: Box<Node>) -> Life {
    if logged(&node, "is a node", within(node.run(&simulator)).await) {
        return Life::Up(node);
    }
    let tried = Instant::now();
    Life::Half { node, tried }
}

async fn stops(simulator: NodeSimulator, node: Box<Node>) -> Life {
    if logged(&node, "has stopped", within(node.stop(&simulator)).await) {
        return Life::Stopped(node);
    }
    let tried = Instant::now();
    Life::Half { node, tried }
}

async fn ends(simulator: NodeSimulator, node: Box<Node>) -> Life {
    if logged(&node, "is gone", within(node.vanish(&simulator)).await) {
        return Life::Gone;
    }
    let tried = Instant::now();
    Life::Ending { node, tried }
}

async fn within<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let ended = tokio::time::timeout(WITHIN, work).await;
    ended.context("the step does not end")?
}

/// Logs the result of a change of a node, and returns whether the change succeeded.
fn logged(node: &Node, what: &str, outcome: anyhow::Result<()>) -> bool {
    let (instance, name, endpoint) = (&node.instance_id, &node.facts.name, &node.cluster.endpoint);
    let Err(error) = outcome else {
        tracing::info!(instance, name, endpoint, "{what}");
        return true;
    };
    tracing::warn!(instance, name, endpoint, "{what}, and its cluster does not know: {error:#}");
    false
}
