//! Publishes the Clusters of a management cluster to fleet engines.
//!
//! The crate depends neither on AWS nor on an infrastructure provider: it reads Clusters of Cluster API, their
//! kubeconfigs, and the API servers of these kubeconfigs. A pass in [`reconciler`] has three steps: it reads
//! (`kubeconfig`, `member` and `infrastructure`), computes the profile (`profile`, which is pure), and writes.

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
