//! Determines from Karmada's bindings which workloads still run in a member that is being drained. Pure.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// The bindings that still have replicas in a member, by the names of their workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Remaining {
    /// Workloads that Karmada is moving to other members.
    pub(crate) moving: Vec<String>,
    /// Workloads that no other member can take.
    pub(crate) blocked: Vec<String>,
}

impl Remaining {
    pub(crate) fn is_empty(&self) -> bool {
        self.moving.is_empty() && self.blocked.is_empty()
    }

    /// Adds the workload of a ResourceBinding or ClusterResourceBinding if it still has replicas in the member.
    pub(crate) fn add(&mut self, binding: &DynamicObject, member: &str) {
        if !uses(&binding.data, member) {
            return;
        }
        let workloads = if is_refused(&binding.data) { &mut self.blocked } else { &mut self.moving };
        workloads.push(workload(binding));
    }
}

/// Whether the member runs a part of the workload, as one of the targets or until the other targets are healthy.
fn uses(binding: &Value, member: &str) -> bool {
    let names = |list: &str, field: &str| {
        let entries = binding.pointer(list).and_then(Value::as_array);
        let mut entries = entries.into_iter().flatten();
        entries.any(|entry| entry[field] == member)
    };
    names("/spec/clusters", "name") || names("/spec/gracefulEvictionTasks", "fromCluster")
}

/// Whether Karmada's scheduler has found no member for the workload.
fn is_refused(binding: &Value) -> bool {
    let conditions = binding.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Scheduled" && condition["status"] == "False")
}

fn workload(binding: &DynamicObject) -> String {
    let field = |name: &str| binding.data.pointer(&format!("/spec/resource/{name}")).and_then(Value::as_str);
    let kind = field("kind").unwrap_or("Binding");
    let name = field("name").map_or_else(|| binding.name_any(), str::to_owned);
    match binding.namespace() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(name: &str, spec: &Value, scheduled: &str) -> DynamicObject {
        let mut spec = spec.clone();
        spec["resource"] = json!({"kind": "Deployment", "name": name});
        serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("{name}-deployment"), "namespace": "shop"},
            "spec": spec,
            "status": {"conditions": [{"type": "Scheduled", "status": scheduled}]},
        }))
        .unwrap()
    }

    #[test]
    fn a_workload_remains_while_it_is_placed_or_evicted_gracefully() {
        let bindings = [
            binding("placed", &json!({"clusters": [{"name": "b"}, {"name": "a"}]}), "True"),
            binding(
                "evicted",
                &json!({"clusters": [{"name": "b"}], "gracefulEvictionTasks": [{"fromCluster": "a"}]}),
                "True",
            ),
            binding("stuck", &json!({"clusters": [{"name": "a"}]}), "False"),
            binding("elsewhere", &json!({"clusters": [{"name": "b"}]}), "False"),
        ];
        let expected = Remaining {
            moving: vec!["Deployment shop/placed".into(), "Deployment shop/evicted".into()],
            blocked: vec!["Deployment shop/stuck".into()],
        };
        let remaining = |member: &str| {
            let mut remaining = Remaining::default();
            for binding in &bindings {
                remaining.add(binding, member);
            }
            remaining
        };
        assert_eq!(remaining("a"), expected);
        assert!(remaining("c").is_empty());
    }
}
