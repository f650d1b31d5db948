//! Publishes the Clusters of a management cluster where fleet engines look.
//!
//! The crate depends neither on AWS nor on an infrastructure provider: it reads Clusters of Cluster API, their
//! kubeconfigs, and the API servers that these lead to. [`reconciler`] reads from top to bottom: what is read, in
//! `kubeconfig`, `member` and `infrastructure`; what follows from it, in `profile`, which is pure; and what is written.

mod cluster_profile;
mod conditions;
mod connection;
mod infrastructure;
mod karmada;
mod kubeconfig;
mod member;
pub mod names;
mod nodes;
mod profile;
pub mod reconciler;

pub use cluster_profile::{ClusterProfile, ClusterProfileSpec, ClusterProfileStatus};
pub use conditions::{ConditionType, Reason};
pub use kubeconfig::field_refused_in_secrets;
