//! Determines the capacity of a node from its instance type and image. Pure.

use std::collections::BTreeMap;

use capa_api::machine::AWSMachineSpec;
use capa_api::machine::template::{Architecture, NodeInfo, OperatingSystem};
use capa_cloud::{Image, InstanceType};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The resource names of device plugins for GPUs, by manufacturer in EC2's spelling.
const GPU_RESOURCES: [(&str, &str); 3] =
    [("NVIDIA", "nvidia.com/gpu"), ("AMD", "amd.com/gpu"), ("Habana", "habana.ai/gaudi")];
/// The resource name of the device plugin for AWS's own accelerators.
const NEURON_RESOURCE: &str = "aws.amazon.com/neuron";

/// Capacity of a node in the form of a template's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeCapacity {
    pub(super) capacity: BTreeMap<String, Quantity>,
    pub(super) node_info: Option<NodeInfo>,
}

/// Capacity of a node of this instance type with this image.
pub(super) fn of_node(spec: &AWSMachineSpec, instance_type: &InstanceType, image: Option<&Image>) -> NodeCapacity {
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), Quantity(instance_type.vcpus.to_string())),
        ("memory".to_owned(), Quantity(format!("{}Mi", instance_type.memory))),
    ]);
    // The size of the image's own root volume is not looked up. Without this field the autoscaler uses existing nodes
    // to estimate the ephemeral storage for pods.
    if let Some(volume) = &spec.root_volume {
        capacity.insert("ephemeral-storage".to_owned(), Quantity(format!("{}Gi", volume.size)));
    }
    let gpus = GPU_RESOURCES
        .into_iter()
        .map(|(maker, resource)| (resource, instance_type.gpus.get(maker).copied().unwrap_or_default()));
    for (resource, count) in gpus.chain([(NEURON_RESOURCE, instance_type.neuron_devices)]) {
        if count > 0 {
            capacity.insert(resource.to_owned(), Quantity(count.to_string()));
        }
    }
    let node_info = NodeInfo {
        architecture: architecture(instance_type, image),
        // Without an image the operating system is not known.
        operating_system: image.map(
            |image| {
                if image.windows { OperatingSystem::Windows } else { OperatingSystem::Linux }
            },
        ),
    };
    NodeCapacity { capacity, node_info: (node_info != NodeInfo::default()).then_some(node_info) }
}

/// The reason why the image cannot run on this instance type, if any.
pub(super) fn mismatch(instance_type: &InstanceType, image: &Image) -> Option<String> {
    let built_for = image.architecture.as_ref()?;
    (!instance_type.architectures.contains(built_for)).then(|| {
        format!(
            "image {} is built for {built_for}, which instance type {} does not run: make a template with another of \
             either",
            image.id, instance_type.name
        )
    })
}

/// The architecture of the image, if known; else the one of the instance type. Some instance types support several
/// architectures.
fn architecture(instance_type: &InstanceType, image: Option<&Image>) -> Option<Architecture> {
    let known = |name: &str| match name {
        "x86_64" => Some(Architecture::Amd64),
        "arm64" => Some(Architecture::Arm64),
        _ => None,
    };
    let of_image = image.and_then(|image| image.architecture.as_deref());
    of_image.map_or_else(|| instance_type.architectures.iter().find_map(|name| known(name)), known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::read;

    fn instance_type(architectures: &[&str]) -> InstanceType {
        InstanceType {
            name: "t3.large".to_owned(),
            vcpus: 2,
            memory: 8192,
            architectures: architectures.iter().map(|name| (*name).to_owned()).collect(),
            ..InstanceType::default()
        }
    }

    fn image(architecture: &str, windows: bool) -> Image {
        Image { id: "ami-1".to_owned(), architecture: Some(architecture.to_owned()), windows, ..Image::default() }
    }

    fn resources(spec: &str, instance_type: &InstanceType) -> BTreeMap<String, String> {
        let node = of_node(&read(spec), instance_type, None);
        let capacity = node.capacity.into_iter();
        capacity.map(|(resource, quantity)| (resource, quantity.0)).collect()
    }

    fn expected<const N: usize>(resources: [(&str, &str); N]) -> BTreeMap<String, String> {
        resources.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into()
    }

    #[test]
    fn capacity_has_processors_memory_and_the_root_volume() {
        let plain = instance_type(&["x86_64"]);
        let spec = "{instanceType: t3.large}";
        assert_eq!(resources(spec, &plain), expected([("cpu", "2"), ("memory", "8192Mi")]));
        let spec = "{instanceType: t3.large, rootVolume: {size: 80}}";
        let with_storage = expected([("cpu", "2"), ("memory", "8192Mi"), ("ephemeral-storage", "80Gi")]);
        assert_eq!(resources(spec, &plain), with_storage);
    }

    #[test]
    fn accelerators_have_the_names_of_their_device_plugins() {
        let mut accelerated = instance_type(&["x86_64"]);
        let makers = [("NVIDIA", 8), ("AMD", 1), ("Habana", 4), ("Unheard of", 3)];
        accelerated.gpus = makers.map(|(maker, count)| (maker.to_owned(), count)).into();
        accelerated.neuron_devices = 16;
        let mut resources = resources("{instanceType: any}", &accelerated);
        resources.retain(|resource, _| resource.contains('/'));
        let known =
            [("nvidia.com/gpu", "8"), ("amd.com/gpu", "1"), ("habana.ai/gaudi", "4"), ("aws.amazon.com/neuron", "16")];
        assert_eq!(resources, expected(known));
    }

    #[test]
    fn node_info_is_that_of_the_image_where_it_is_known() {
        let spec = read("{instanceType: any}");
        let node = |architectures: &[&str], image: Option<Image>| {
            let info = of_node(&spec, &instance_type(architectures), image.as_ref()).node_info;
            info.map(|info| (info.architecture, info.operating_system))
        };
        let (amd64, arm64) = (Some(Architecture::Amd64), Some(Architecture::Arm64));
        let linux = Some(OperatingSystem::Linux);
        assert_eq!(node(&["i386", "x86_64"], None), Some((amd64, None)));
        assert_eq!(node(&["arm64"], None), Some((arm64, None)));
        assert_eq!(node(&["x86_64_mac"], None), None);
        assert_eq!(node(&["arm64"], Some(image("arm64", false))), Some((arm64, linux)));
        // Kubernetes does not run on this architecture.
        assert_eq!(node(&["i386", "x86_64"], Some(image("i386", false))), Some((None, linux)));
        let windows = Some(OperatingSystem::Windows);
        assert_eq!(node(&["x86_64"], Some(image("x86_64", true))), Some((amd64, windows)));
    }

    #[test]
    fn an_image_for_other_processors_is_a_mismatch() {
        let arm = instance_type(&["arm64"]);
        assert_eq!(mismatch(&arm, &image("arm64", false)), None);
        let message = mismatch(&arm, &image("x86_64", false)).unwrap();
        assert!(message.contains("ami-1") && message.contains("x86_64") && message.contains("t3.large"), "{message}");
        let untold = Image { architecture: None, ..image("", false) };
        assert_eq!(mismatch(&arm, &untold), None);
    }
}
