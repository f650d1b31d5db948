//! The capacity of a cluster, from its nodes. Pure.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_quantity::ParsedQuantity;

/// The allocatable resources of the nodes that are ready and accept pods, including the share of running pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) ready_nodes: usize,
    /// Number of CPUs. It is a floating-point number, because other users' clusters determine its size, and it must not
    /// overflow.
    pub(crate) cpu: f64,
    /// Bytes of memory, also as a floating-point number.
    pub(crate) memory: f64,
}

impl Capacity {
    /// Adds a node if it is ready and accepts pods. A quantity that cannot be read counts as zero.
    pub(crate) fn add(&mut self, node: &Node) {
        if accepts_pods(node) {
            self.ready_nodes += 1;
            self.cpu += allocatable(node, "cpu");
            self.memory += allocatable(node, "memory");
        }
    }

    /// In thousandths of a CPU, for example `3860m`.
    pub(crate) fn cpu(&self) -> String {
        format!("{:.0}m", self.cpu * 1000.0)
    }

    /// In kibibytes, for example `15728640Ki`.
    pub(crate) fn memory(&self) -> String {
        format!("{:.0}Ki", self.memory / 1024.0)
    }
}

fn accepts_pods(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let status = node.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    !is_cordoned && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn allocatable(node: &Node, resource: &str) -> f64 {
    let status = node.status.as_ref();
    let quantity = status.and_then(|status| status.allocatable.as_ref()?.get(resource));
    quantity.and_then(number).unwrap_or_default()
}

fn number(quantity: &Quantity) -> Option<f64> {
    let number = ParsedQuantity::try_from(quantity).ok()?.to_bytes_f64()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str, cordoned: bool, cpu: &str, memory: &str) -> Node {
        serde_json::from_value(json!({
            "spec": {"unschedulable": cordoned},
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }))
        .unwrap()
    }

    fn told(nodes: &[Node]) -> (usize, String, String) {
        let mut capacity = Capacity::default();
        for node in nodes {
            capacity.add(node);
        }
        (capacity.ready_nodes, capacity.cpu(), capacity.memory())
    }

    #[test]
    fn only_nodes_that_take_pods_count() {
        let nodes = [
            node("True", false, "1930m", "7000000Ki"),
            node("True", false, "2", "1Gi"),
            node("True", true, "4", "8Gi"),
            node("Unknown", false, "4", "8Gi"),
        ];
        assert_eq!(told(&nodes), (2, "3930m".into(), "8048576Ki".into()));
        assert_eq!(told(&[]), (0, "0m".into(), "0Ki".into()));
    }

    #[test]
    fn quantities_that_cannot_be_read_count_as_nothing() {
        let nodes = [node("True", false, "many", "-1Gi"), node("True", false, "1", "9999999999999999999Ei")];
        let (ready_nodes, cpu, _) = told(&nodes);
        assert_eq!((ready_nodes, cpu.as_str()), (2, "1000m"));
    }
}
