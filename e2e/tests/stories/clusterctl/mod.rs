//! clusterctl as users run it, on management clusters whose components it has installed.

mod described;
mod flavors;
pub(crate) mod installed;
mod moves;
mod templates;
mod upgrades;
