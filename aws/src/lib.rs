//! Calls to AWS. This crate is the only one that uses the AWS SDK, and implements the traits of `cloud`.
//!
//! [`SessionPool`] returns a session for each identity and region. Machines share the answers of reads, and one
//! informer follows all instances of a session ([`capa_cloud::informer`]), so the number of calls grows with the number
//! of changes, not with the number of machines.

mod calls;
mod ec2;
mod elb;
mod facts;
mod iam;
pub mod iam_actions;
mod informer;
mod informer_metrics;
mod kms;
mod lookups;
mod managed;
mod pool;
mod s3;
mod sdk;
mod secrets;
mod service_quotas;
mod session;
mod sts;
#[cfg(test)]
mod wire_tests;

pub use pool::{InformerDied, Options, SessionPool};
pub use sdk::config::AccessKey;
pub use sdk::endpoints::{ParseEndpointsError, ServiceEndpoints};
