//! Gauges of all instance informers. They are read at each scrape, so a dropped informer leaves no series behind.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use capa_cloud::informer::InstanceInformer;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// The gauges of one informer, or the combined gauges of all informers of a region.
#[derive(Default)]
pub(crate) struct InformerGauges {
    instances: u32,
    incomplete_listings: u32,
    overdue: u32,
    age: Option<Duration>,
    took: Option<Duration>,
}

impl InformerGauges {
    /// The gauges of an informer that a machine uses.
    pub(crate) fn of(informer: &InstanceInformer, now: Duration) -> Option<Self> {
        let listing = informer.last_listing();
        informer.is_watched().then(|| Self {
            instances: u32::try_from(informer.instances()).unwrap_or(u32::MAX),
            incomplete_listings: u32::from(informer.is_listing_incomplete()),
            overdue: u32::from(informer.is_overdue()),
            age: listing.map(|listing| now.saturating_sub(listing.ended)),
            took: listing.map(|listing| listing.took),
        })
    }

    fn add(&mut self, other: &Self) {
        self.instances = self.instances.saturating_add(other.instances);
        self.incomplete_listings += other.incomplete_listings;
        self.overdue += other.overdue;
        // An absent value is smaller than any other, so the maximum is the value of the worst informer of a region.
        self.age = self.age.max(other.age);
        self.took = self.took.max(other.took);
    }
}

/// The collector. `gauges` returns the gauges of every informer with its region.
pub(crate) struct InformerMetrics<F> {
    gauges: F,
}

impl<F: Fn() -> Vec<(String, InformerGauges)>> InformerMetrics<F> {
    pub(crate) fn new(gauges: F) -> Self {
        Self { gauges }
    }

    fn by_region(&self) -> BTreeMap<String, InformerGauges> {
        let mut regions: BTreeMap<String, InformerGauges> = BTreeMap::new();
        for (region, gauges) in (self.gauges)() {
            regions.entry(region).or_default().add(&gauges);
        }
        regions
    }
}

impl<F> fmt::Debug for InformerMetrics<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InformerMetrics")
    }
}

impl<F> Collector for InformerMetrics<F>
where
    F: Fn() -> Vec<(String, InformerGauges)> + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let regions = self.by_region();
        let mut gauge = |name, help, value: fn(&InformerGauges) -> Option<f64>| {
            let kind = MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for (region, gauges) in &regions {
                if let Some(value) = value(gauges) {
                    let labels = [("region", region.as_str())];
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        gauge("capa_instance_store_instances", "Instances that the informers know", |gauges| {
            Some(f64::from(gauges.instances))
        })?;
        gauge(
            "capa_instance_listing_incomplete",
            "Informers whose last listing lost more instances at once than one listing proves absent",
            |gauges| Some(f64::from(gauges.incomplete_listings)),
        )?;
        gauge(
            "capa_instance_store_overdue",
            "Informers that have not finished a listing for five intervals",
            |gauges| Some(f64::from(gauges.overdue)),
        )?;
        gauge(
            "capa_instance_store_age_seconds",
            "Time since the last complete listing, of the oldest informer",
            |gauges| gauges.age.map(|age| age.as_secs_f64()),
        )?;
        gauge(
            "capa_instance_store_listing_seconds",
            "Time that the last complete listing took, of the slowest informer",
            |gauges| gauges.took.map(|took| took.as_secs_f64()),
        )
    }
}
