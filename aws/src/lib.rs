//! AWS over the wire: the only crate that names the SDK. Implements the traits of `cloud`.
//!
//! [`Clouds`] gives a client for each identity and region. Reads of machines are shared; instances are followed by one
//! store each ([`capa_cloud::store`]), so that the calls grow with the changes and not with the machines.

pub mod actions;
mod api;
mod client;
mod clouds;
mod convert;
mod credentials;
mod endpoints;
mod error;
mod launch;
mod limits;
mod load_balancing;
mod lookups;
mod metrics;
mod replacements;
mod retries;
mod setup;
pub mod store;
mod sync;
#[cfg(test)]
mod wire_tests;

pub use clouds::{AccessKey, Clouds, Options, StoreDied};
pub use endpoints::{ParseEndpointsError, ServiceEndpoints};
