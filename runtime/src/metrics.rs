//! The runtime's metrics, with the names of controller-runtime.
//!
//! `prometheus-client` appends `_total` to the names of counters, so they are registered without it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The buckets of controller-runtime in seconds, so that its dashboards work unchanged.
const RECONCILE_SECONDS: [f64; 34] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 60.0,
];

/// The buckets of controller-runtime's work queue in seconds.
const QUEUE_SECONDS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

/// The labels of a work queue. In controller-runtime, a queue has the name of its controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    controller: &'static str,
    name: &'static str,
}

impl QueueLabels {
    fn of(controller: &'static str) -> Self {
        Self { controller, name: controller }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: String,
}

/// The result of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileResult {
    Success,
    Error,
    Requeue,
    RequeueAfter,
}

impl ReconcileResult {
    const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// The runtime's metrics. Clones share the series.
#[derive(Clone, Debug)]
pub struct Metrics {
    reconciles: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    seconds: Family<ControllerLabels, Histogram>,
    active_workers: Family<ControllerLabels, Gauge>,
    workers: Family<ControllerLabels, Gauge>,
    leading: Family<LeaseLabels, Gauge>,
    malformed: Family<KindLabels, Gauge>,
    depths: QueueDepths,
    queue_seconds: Family<QueueLabels, Histogram>,
    retries: Family<QueueLabels, Counter>,
}

type Depth = Box<dyn Fn() -> usize + Send + Sync>;

/// The depth of each controller's work queue, computed at each scrape.
#[derive(Clone, Default)]
struct QueueDepths(Arc<Mutex<Vec<(&'static str, Depth)>>>);

impl fmt::Debug for QueueDepths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("QueueDepths")
    }
}

impl Collector for QueueDepths {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Objects that wait for a reconcile that is due";
        let mut family = encoder.encode_descriptor("workqueue_depth", help, None, MetricType::Gauge)?;
        for (controller, depth) in self.0.lock().iter() {
            ConstGauge::new(depth()).encode(family.encode_family(&QueueLabels::of(controller))?)?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Creates the metrics and registers them in `registry`, which other crates share. The names of metrics that
    /// controller-runtime does not have start with `prefix`.
    pub fn register(prefix: &str, registry: &mut Registry) -> Self {
        let seconds = || Histogram::new(RECONCILE_SECONDS);
        let metrics = Self {
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            active_workers: Family::default(),
            workers: Family::default(),
            leading: Family::default(),
            malformed: Family::default(),
            depths: QueueDepths::default(),
            queue_seconds: Family::new_with_constructor(|| Histogram::new(QUEUE_SECONDS)),
            retries: Family::default(),
        };
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles by controller and result",
            metrics.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that ended with an error",
            metrics.errors.clone(),
        );
        registry.register("controller_runtime_reconcile_panics", "Reconciles that panicked", metrics.panics.clone());
        registry.register("controller_runtime_reconcile_time_seconds", "Time per reconcile", metrics.seconds.clone());
        registry.register(
            "controller_runtime_active_workers",
            "Reconciles running now",
            metrics.active_workers.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Reconciles that may run at once",
            metrics.workers.clone(),
        );
        registry.register(
            "leader_election_master_status",
            "1 while this process holds the Lease, else 0",
            metrics.leading.clone(),
        );
        registry.register_collector(Box::new(metrics.depths.clone()));
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time for which objects waited for a reconcile that was due",
            metrics.queue_seconds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Reconciles repeated after a failure, a conflict or a step that may succeed later",
            metrics.retries.clone(),
        );
        registry.sub_registry_with_prefix(prefix).register(
            "malformed_objects",
            "Objects that are skipped because they cannot be read",
            metrics.malformed.clone(),
        );
        metrics
    }

    /// The metrics of one controller, with every series present from the start.
    pub(crate) fn controller(&self, controller: &'static str, workers: u16) -> ControllerMetrics {
        let labels = ControllerLabels { controller };
        for result in ReconcileResult::ALL {
            let _ = self.reconciles.get_or_create_owned(&ResultLabels { controller, result: result.label() });
        }
        self.workers.get_or_create_owned(&labels).set(workers.into());
        ControllerMetrics {
            controller,
            reconciles: self.reconciles.clone(),
            errors: self.errors.get_or_create_owned(&labels),
            panics: self.panics.get_or_create_owned(&labels),
            seconds: self.seconds.get_or_create_owned(&labels),
            active_workers: self.active_workers.get_or_create_owned(&labels),
            queue_seconds: self.queue_seconds.get_or_create_owned(&QueueLabels::of(controller)),
            retries: self.retries.get_or_create_owned(&QueueLabels::of(controller)),
        }
    }

    /// Adds the work queue of a controller. `depth` is the number of its objects whose reconcile is due.
    pub(crate) fn queue(&self, controller: &'static str, depth: impl Fn() -> usize + Send + Sync + 'static) {
        self.depths.0.lock().push((controller, Box::new(depth)));
    }

    /// Whether this process holds the Lease of this name.
    pub(crate) fn leading(&self, lease: &str) -> Gauge {
        self.leading.get_or_create_owned(&LeaseLabels { name: lease.to_owned() })
    }

    /// The number of objects of a kind that cannot be read.
    pub(crate) fn malformed(&self, kind: &str) -> Gauge {
        self.malformed.get_or_create_owned(&KindLabels { kind: kind.to_owned() })
    }
}

/// One controller's series.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    controller: &'static str,
    reconciles: Family<ResultLabels, Counter>,
    errors: Counter,
    panics: Counter,
    seconds: Histogram,
    active_workers: Gauge,
    queue_seconds: Histogram,
    retries: Counter,
}

impl ControllerMetrics {
    /// Counts a worker as busy until the guard is dropped.
    pub(crate) fn busy(&self) -> Busy {
        self.active_workers.inc();
        Busy(self.active_workers.clone())
    }

    pub(crate) fn finished(&self, result: ReconcileResult, took: Duration) {
        let labels = ResultLabels { controller: self.controller, result: result.label() };
        self.reconciles.get_or_create_owned(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
        if result == ReconcileResult::Error {
            self.errors.inc();
        }
        if matches!(result, ReconcileResult::Error | ReconcileResult::Requeue) {
            self.retries.inc();
        }
    }

    /// Records that an object has waited in the queue for this time; `None` if the time is unknown.
    pub(crate) fn dequeued(&self, waited: Option<Duration>) {
        if let Some(waited) = waited {
            self.queue_seconds.observe(waited.as_secs_f64());
        }
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }
}

/// A busy worker.
pub(crate) struct Busy(Gauge);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scrape;

    #[test]
    fn series_have_the_names_and_labels_that_dashboards_know() {
        let mut registry = Registry::default();
        let metrics = Metrics::register("widgets", &mut registry);
        let controller = metrics.controller("awsmachine", 10);
        controller.finished(ReconcileResult::Success, Duration::from_millis(20));
        controller.finished(ReconcileResult::Error, Duration::from_millis(20));
        controller.panicked();
        controller.dequeued(Some(Duration::from_millis(20)));
        controller.dequeued(None);
        metrics.queue("awsmachine", || 7);
        metrics.leading("leader").set(1);
        metrics.malformed("AWSMachine").set(2);
        let busy = controller.busy();
        let scraped = scrape(&registry);
        drop(busy);
        for line in [
            "controller_runtime_reconcile_total{controller=\"awsmachine\",result=\"success\"} 1",
            "controller_runtime_reconcile_total{controller=\"awsmachine\",result=\"error\"} 1",
            "controller_runtime_reconcile_total{controller=\"awsmachine\",result=\"requeue\"} 0",
            "controller_runtime_reconcile_total{controller=\"awsmachine\",result=\"requeue_after\"} 0",
            "controller_runtime_reconcile_errors_total{controller=\"awsmachine\"} 1",
            "controller_runtime_reconcile_panics_total{controller=\"awsmachine\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"awsmachine\"} 2",
            "controller_runtime_active_workers{controller=\"awsmachine\"} 1",
            "controller_runtime_max_concurrent_reconciles{controller=\"awsmachine\"} 10",
            "leader_election_master_status{name=\"leader\"} 1",
            "workqueue_depth{controller=\"awsmachine\",name=\"awsmachine\"} 7",
            "workqueue_queue_duration_seconds_count{controller=\"awsmachine\",name=\"awsmachine\"} 1",
            "workqueue_retries_total{controller=\"awsmachine\",name=\"awsmachine\"} 1",
            "widgets_malformed_objects{kind=\"AWSMachine\"} 2",
        ] {
            assert!(scraped.lines().any(|scraped| scraped == line), "{line} is missing in\n{scraped}");
        }
        assert!(scrape(&registry).contains("active_workers{controller=\"awsmachine\"} 0"));
    }
}
