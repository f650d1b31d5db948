//! AWS over the wire: the only crate that names the SDK. Implements the traits of `cloud`.
//!
//! [`SessionPool`] gives a session for each identity and region. Reads of machines are shared; instances are followed
//! by one informer each ([`capa_cloud::informer`]), so that the calls grow with the changes and not with the machines.

mod ec2;
mod elb;
pub mod iam_actions;
mod informer;
mod informer_metrics;
mod lookups;
mod pool;
mod sdk;
mod session;
mod sts;
#[cfg(test)]
mod wire_tests;

pub use pool::{InformerDied, Options, SessionPool};
pub use sdk::config::AccessKey;
pub use sdk::endpoints::{ParseEndpointsError, ServiceEndpoints};
