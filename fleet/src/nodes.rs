//! The capacity of a cluster, from its nodes. Pure.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_quantity::ParsedQuantity;

/// What the nodes that are ready and accept pods have for pods, the running pods included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) ready_nodes: usize,
    /// In thousandths of a CPU, for example `3860m`.
    pub(crate) cpu: String,
    /// In kibibytes, for example `15728640Ki`.
    pub(crate) memory: String,
}

/// The capacity of these nodes. A quantity that cannot be read counts as nothing.
pub(crate) fn capacity(nodes: &[Node]) -> Capacity {
    let usable: Vec<&Node> = nodes.iter().filter(|node| accepts_pods(node)).collect();
    let sum = |resource: &str| -> f64 {
        let quantities = usable.iter().filter_map(|node| allocatable(node, resource));
        // The sum of nothing would be a negative zero.
        quantities.filter_map(number).fold(0.0, |sum, number| sum + number)
    };
    Capacity {
        ready_nodes: usable.len(),
        cpu: format!("{:.0}m", sum("cpu") * 1000.0),
        memory: format!("{:.0}Ki", sum("memory") / 1024.0),
    }
}

fn accepts_pods(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    let status = node.status.as_ref();
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    !is_cordoned && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn allocatable<'a>(node: &'a Node, resource: &str) -> Option<&'a Quantity> {
    node.status.as_ref()?.allocatable.as_ref()?.get(resource)
}

/// As a floating-point number: other users' clusters decide how large it is, and nothing may overflow.
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

    #[test]
    fn only_nodes_that_take_pods_count() {
        let nodes = [
            node("True", false, "1930m", "7000000Ki"),
            node("True", false, "2", "1Gi"),
            node("True", true, "4", "8Gi"),
            node("Unknown", false, "4", "8Gi"),
        ];
        let expected = Capacity {
            ready_nodes: 2,
            cpu: "3930m".into(),
            memory: "8048576Ki".into(),
        };
        assert_eq!(capacity(&nodes), expected);
    }

    #[test]
    fn quantities_that_cannot_be_read_count_as_nothing() {
        let nodes = [
            node("True", false, "many", "-1Gi"),
            node("True", false, "1", "9999999999999999999Ei"),
        ];
        assert_eq!(
            (capacity(&nodes).ready_nodes, capacity(&nodes).cpu.as_str()),
            (2, "1000m")
        );
        assert_eq!(capacity(&[]).memory, "0Ki");
    }
}
