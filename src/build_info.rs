//! The metric `capa_build_info`, which identifies the running release.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    program: &'static str,
    version: &'static str,
}

/// Registers the metric. `program` is the subcommand that runs.
pub(crate) fn register(registry: &mut Registry, program: &'static str) {
    let info = Family::<BuildLabels, Gauge>::default();
    info.get_or_create(&BuildLabels { program, version: VERSION }).set(1);
    registry.register("capa_build_info", "1, with the subcommand and the version of the program", info);
}
