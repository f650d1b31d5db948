//! Looks at the instance stores now and then, for what concerns whole clusters.

use std::convert::Infallible;
use std::time::Duration;

use capa_aws::SessionPool;
use capa_controllers::kubernetes::KubernetesClient;
use capa_controllers::oversight::Oversight;
use capa_runtime::Runtime;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RegionLabel {
    region: String,
}

/// Instances without a machine, by region.
#[derive(Clone, Default)]
pub(super) struct StrayCounts(Family<RegionLabel, Gauge>);

impl StrayCounts {
    /// Registers the metric.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let counts = Self::default();
        registry.register(
            "capa_instances_without_machine",
            "Instances with the tags of a cluster that is here and of no machine that is here",
            counts.0.clone(),
        );
        counts
    }
}

/// Looks once each interval, until `stop`.
pub(super) async fn watch_over(
    clouds: SessionPool,
    kubernetes: KubernetesClient,
    runtime: Runtime,
    counts: StrayCounts,
    interval: Duration,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut oversight = Oversight::default();
    let mut ticks = tokio::time::interval(interval);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let findings = oversight.look(&clouds.informers(), &kubernetes);
        // A region whose last machine is gone is not listed any more: what was counted there is not known any more.
        counts.0.clear();
        for (region, count) in findings.without_machine {
            counts.0.get_or_create(&RegionLabel { region }).set(i64::from(count));
        }
        for (cluster, notice) in findings.events {
            runtime.events.publish(cluster.as_ref(), vec![notice]).await;
        }
    }
    Ok(())
}
