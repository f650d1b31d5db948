//! clusterctl as users run it, on management clusters whose components it has installed.

mod described;
pub(crate) mod installed;
mod moves;
mod templates;
mod upgrades;
