//! The metric `capa_objects`: the number of objects whose condition has a status and a reason.

use std::borrow::Cow;
use std::fmt;

use capa_api::cluster::status::AWSClusterStatus;
use capa_api::conditions::{ConditionStatus, ConditionType, Reason};
use capa_api::identity::IdentityStatus;
use capa_api::machine::AWSMachineStatus;
use capa_api::machine::template::AWSMachineTemplateStatus;
use capa_runtime::cache::ObjectCache;
use capa_runtime::kinds::CachedKind;
use capa_runtime::tally::Tally;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::core::object::HasStatus;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::kubernetes::Caches;

/// The label value for a reason that this provider does not set. Another controller wrote it, under `managed-by` or
/// before a takeover.
const FOREIGN_REASON: &str = "Other";

/// A status with conditions.
pub trait HasConditions {
    /// The conditions.
    fn conditions(&self) -> &[Condition];
}

impl HasConditions for AWSClusterStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl HasConditions for AWSMachineStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl HasConditions for AWSMachineTemplateStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl HasConditions for IdentityStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

/// Registers the metric. The counts follow the watches of the caches, so a scrape does not iterate over the objects.
/// The number of series depends on the types and reasons in the code, and not on the objects.
pub fn count_objects(caches: &Caches, registry: &mut Registry) {
    let counts = ObjectCounts(vec![
        KindCounts::of(&caches.aws_clusters),
        KindCounts::of(&caches.aws_machines),
        KindCounts::of(&caches.aws_machine_templates),
        KindCounts::of(&caches.controller_identities),
        KindCounts::of(&caches.role_identities),
        KindCounts::of(&caches.static_identities),
    ]);
    registry.register_collector(Box::new(counts));
}

/// A series of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Series {
    condition: ConditionType,
    status: ConditionStatus,
    /// `None` for a reason that this provider does not set.
    reason: Option<Reason>,
}

/// The series that an object is in: one for each of its conditions. Conditions of types that this provider does not
/// have belong to other controllers, and are not counted.
fn series_of<K: HasStatus<Status: HasConditions>>(object: &K) -> Vec<Series> {
    let conditions = object.status().map(HasConditions::conditions).unwrap_or_default().iter();
    let series = conditions.filter_map(|condition| {
        Some(Series {
            condition: condition.type_.parse().ok()?,
            status: condition.status.parse().ok()?,
            reason: condition.reason.parse().ok(),
        })
    });
    series.collect()
}

/// The counts of one kind.
struct KindCounts {
    kind: Cow<'static, str>,
    counts: Box<dyn Fn() -> Vec<(Series, u32)> + Send + Sync>,
}

impl KindCounts {
    fn of<K: CachedKind + HasStatus<Status: HasConditions>>(cache: &ObjectCache<K>) -> Self {
        Self::from(cache.tally(series_of::<K>))
    }
}

impl<K: CachedKind> From<Tally<K, Series>> for KindCounts {
    fn from(tally: Tally<K, Series>) -> Self {
        Self { kind: K::kind(&()).into_owned().into(), counts: Box::new(move || tally.counts()) }
    }
}

struct ObjectCounts(Vec<KindCounts>);

impl fmt::Debug for ObjectCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ObjectCounts")
    }
}

impl Collector for ObjectCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Objects by the status and the reason of each of their conditions";
        let mut family = encoder.encode_descriptor("capa_objects", help, None, MetricType::Gauge)?;
        for kind in &self.0 {
            for (series, count) in (kind.counts)() {
                let labels = [
                    ("kind", &*kind.kind),
                    ("condition", series.condition.as_str()),
                    ("status", series.status.into()),
                    ("reason", series.reason.map_or(FOREIGN_REASON, Reason::as_str)),
                ];
                ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use capa_api::machine::AWSMachine;
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::testing::read;

    /// A machine with these conditions, each `type status reason`.
    fn machine(name: &str, conditions: &[&str]) -> AWSMachine {
        let condition = |text: &&str| {
            let [kind, status, reason] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
            format!(
                "{{type: {kind}, status: '{status}', reason: {reason}, message: '', \
                  lastTransitionTime: '2026-01-01T00:00:00Z'}}"
            )
        };
        let conditions: Vec<String> = conditions.iter().map(condition).collect();
        read(&format!(
            "{{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: AWSMachine, \
              metadata: {{name: {name}, namespace: n}}, spec: {{instanceType: t3.large}}, \
              status: {{conditions: [{}]}}}}",
            conditions.join(", ")
        ))
    }

    /// The samples of a scrape, sorted.
    fn scrape(registry: &Registry) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        let samples = text.lines().filter_map(|line| line.strip_prefix("capa_objects"));
        let mut samples: Vec<String> = samples.map(str::to_owned).collect();
        samples.sort();
        samples
    }

    fn sample(condition: &str, status: &str, reason: &str, count: u32) -> String {
        format!("{{kind=\"AWSMachine\",condition=\"{condition}\",status=\"{status}\",reason=\"{reason}\"}} {count}")
    }

    #[test]
    fn objects_are_counted_by_each_condition_and_its_reason() {
        let tally = Tally::new(series_of::<AWSMachine>);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ObjectCounts(vec![tally.clone().into()])));
        assert_eq!(scrape(&registry), [""; 0]);
        let ready = machine("a", &["Ready True Ready", "InstanceReady True Ready"]);
        let missing = machine("c", &["Ready False NotFound", "InstanceReady False NotFound"]);
        for object in [&ready, &ready, &missing] {
            tally.replace(None, Some(object));
        }
        assert_eq!(
            scrape(&registry),
            [
                sample("InstanceReady", "False", "NotFound", 1),
                sample("InstanceReady", "True", "Ready", 2),
                sample("Ready", "False", "NotFound", 1),
                sample("Ready", "True", "Ready", 2),
            ]
        );
        tally.replace(Some(&missing), Some(&machine("c", &["Ready True Ready"])));
        tally.replace(Some(&ready), None);
        assert_eq!(
            scrape(&registry),
            [sample("InstanceReady", "True", "Ready", 1), sample("Ready", "True", "Ready", 2)]
        );
    }

    #[test]
    fn foreign_conditions_and_reasons_add_no_series() {
        let tally = Tally::new(series_of::<AWSMachine>);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ObjectCounts(vec![tally.clone().into()])));
        for number in 0..1000 {
            let (foreign, reason) = (format!("Foreign{number} False X"), format!("Ready False Because{number}"));
            let machine = machine(&format!("m-{number}"), &[&foreign, &reason, "Paused Perhaps Paused"]);
            tally.replace(None, Some(&machine));
        }
        assert_eq!(scrape(&registry), [sample("Ready", "False", FOREIGN_REASON, 1000)]);
    }
}
