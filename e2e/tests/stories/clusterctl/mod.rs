//! clusterctl, as users run it, on management clusters into which it has installed everything.

mod templates;
