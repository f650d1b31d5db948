//! The local world that stories are tested in: a real kube-apiserver, the real Cluster API core, the EC2 API over the
//! wire, and our manager as the binary that users run, under its own permissions.
//!
//! ```no_run
//! # async fn story() -> anyhow::Result<()> {
//! use capa_e2e::World;
//!
//! let environment = World::shared().await?.test("machines-come-up").await?;
//! let manager = environment.manager().start().await?;
//! environment.apply("…").await?;
//! // … wait with `eventually`, look at `environment.aws().journal()` …
//! environment.finish().await
//! # }
//! ```
//!
//! The programs come from `make tools`. Everything that is started ends with the process that started it, however that
//! ends: each program hangs on the input of a small supervisor (`src/bin/supervise.rs`). A test that does not reach
//! `finish` leaves its logs, AWS calls and objects in a folder that it prints.

mod api_server;
pub mod aws_proxy;
mod cloud;
mod cluster_api;
pub mod clusterctl;
pub mod detached;
mod directory;
mod environment;
mod evidence;
pub mod fixtures;
pub mod hostile;
mod left_behind;
mod manager;
mod metrics;
pub mod moto;
pub mod nodes;
pub mod objects;
mod pki;
pub mod planted;
mod ports;
mod programs;
mod provider;
mod snapshot;
mod supervised;
mod turn;
pub mod user;
mod wait;
mod world;

pub use directory::Directory;
pub use environment::TestEnvironment;
pub use manager::{InProcessManager, Manager, ManagerBuilder};
pub use metrics::Metrics;
pub use snapshot::Snapshot;
pub use supervised::{Memory, Supervised};
pub use turn::mostly_waits;
pub use wait::eventually;
pub use world::World;
