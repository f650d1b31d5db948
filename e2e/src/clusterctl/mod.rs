//! What clusterctl installs.

mod release;

pub use release::Release;
