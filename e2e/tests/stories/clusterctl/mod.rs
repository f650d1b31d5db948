//! clusterctl, as users run it, on management clusters into which it has installed everything.

mod described;
mod installed;
mod moves;
mod templates;
mod upgrades;
