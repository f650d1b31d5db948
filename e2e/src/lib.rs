//! The local world of the stories: a real kube-apiserver, the real Cluster API core, the EC2 API over the wire, and the
//! manager as the binary that users run, with its own permissions.
//!
//! ```no_run
//! use capa_e2e::Story;
//!
//! # fn machines_come_up() -> anyhow::Result<()> {
//! Story::new("machines-come-up").run(async |environment| {
//!     environment.new_manager().start().await?;
//!     environment.apply("…").await?;
//!     // … wait with `eventually`, look at `environment.aws().journal()` …
//!     Ok(())
//! })
//! # }
//! ```
//!
//! The programs come from `make tools`. Every started program ends with the process that started it, however that ends:
//! each program depends on the input of a small supervisor (`src/bin/supervise.rs`). A failed story leaves its logs,
//! AWS calls and objects in a folder, and prints the folder's name.

mod api_server;
mod audit;
pub mod aws_proxy;
mod capa;
mod changes;
pub mod cloud;
mod cluster_api;
pub mod clusterctl;
pub mod detached;
mod directory;
mod environment;
mod evidence;
pub mod fixtures;
mod flavor;
mod fleet;
mod forward_proxy;
mod growing_log;
pub mod hostile;
pub mod inventory;
pub mod karmada;
mod kubectl;
mod left_behind;
mod local_world;
mod manager;
mod manager_builder;
mod metrics;
pub mod moto;
pub mod nodes;
pub mod objects;
mod passes;
mod pki;
pub mod planted;
mod ports;
mod programs;
mod provider;
mod provider_command;
mod snapshot;
mod story;
mod supervised;
mod turn;
pub mod user;
mod wait;

pub use audit::KubernetesWrite;
pub use directory::Directory;
pub use environment::TestEnvironment;
pub use flavor::{Brought, Flavor};
pub use forward_proxy::ForwardProxy;
pub use kubectl::kubectl;
pub use local_world::LocalWorld;
pub use manager::Manager;
pub use manager_builder::ManagerBuilder;
pub use metrics::Metrics;
pub use programs::{
    aws_cli, capa_manifests, cloud_init, cloud_init_boot, consumer_of_profiles, kustomize, upstream_folder,
    upstream_specs,
};
pub use provider_command::{ProviderCommand, ProviderOutput};
pub use snapshot::Snapshot;
pub use story::{Story, block_on};
pub use supervised::{Memory, Supervised};
pub use turn::mostly_waits;
pub use wait::{eventually, eventually_by_polling};
