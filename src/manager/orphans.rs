//! Scans the instance informers periodically for orphaned instances and incomplete listings.

use std::convert::Infallible;
use std::time::Duration;

use capa_aws::SessionPool;
use capa_controllers::kubernetes::KubernetesClient;
use capa_controllers::orphans::OrphanScanner;
use capa_runtime::{Runtime, events};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::info_span;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegionLabel {
    region: String,
}

/// The number of orphaned instances, by region.
#[derive(Clone, Default)]
pub(super) struct OrphanCounts(Family<RegionLabel, Gauge>);

impl OrphanCounts {
    /// Registers the metric.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counts = Self::default();
        registry.register(
            "capa_instances_without_machine",
            "Instances launched by this management cluster with the tags of a cluster that is here and of no machine",
            counts.0.clone(),
        );
        counts
    }
}

/// Scans once per interval, until `stop`.
pub(super) async fn scan_periodically(
    clouds: SessionPool,
    kubernetes: KubernetesClient,
    runtime: Runtime,
    counts: OrphanCounts,
    interval: Duration,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut scanner = OrphanScanner::default();
    let mut ticks = tokio::time::interval(interval);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let findings = scanner.scan(clouds.informers(), &kubernetes);
        // A region without machines is no longer listed, so its last count is out of date.
        counts.0.clear();
        for (region, count) in findings.without_machine {
            counts.0.get_or_create(&RegionLabel { region }).set(i64::from(count));
        }
        for (cluster, event) in findings.events {
            let metadata = &cluster.metadata;
            let span = info_span!("scan", namespace = metadata.namespace, cluster = metadata.name);
            let found = vec![event];
            span.in_scope(|| events::log(&found));
            runtime.events.publish(cluster.as_ref(), found).await;
        }
    }
    Ok(())
}
