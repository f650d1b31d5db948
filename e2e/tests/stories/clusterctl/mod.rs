//! clusterctl as users run it, on management clusters whose components it has installed.

mod addon;
mod described;
mod flavors;
pub(crate) mod installed;
mod moves;
mod templates;
mod upgrades;
