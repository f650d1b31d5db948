//! Instance types.

use std::collections::BTreeMap;

use aws_sdk_ec2::types;
use capa_cloud::ec2::Offering;
use capa_cloud::{CloudError, InstanceType, Query};

use super::{Ec2Calls, PAGE_SIZE, SMALL_PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// An instance type by its name. Filters accept wildcards, so an answer may also contain other types.
    pub(crate) async fn instance_type(&self, name: &str) -> Result<InstanceType, CloudError> {
        let shown = self.instance_types(vec![name.to_owned()]).await?;
        let shown = shown.into_iter().find(|instance_type| instance_type.name == name);
        let missing = || CloudError::not_found("DescribeInstanceTypes", format!("there is no instance type {name}"));
        shown.ok_or_else(missing)
    }

    /// The instance types with these names, or that match their wildcards.
    pub(crate) async fn instance_types(&self, names: Vec<String>) -> Result<Vec<InstanceType>, CloudError> {
        let query = &Query::filter("instance-type", names);
        self.runner
            .describe("DescribeInstanceTypes", query, |permit, token| async move {
                let request = self.client.describe_instance_types().set_filters(filters(query));
                let request = request.max_results(SMALL_PAGE_SIZE).set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page { items: answer.instance_types().iter().map(converted).collect(), next: answer.next_token })
            })
            .await
    }

    /// The zones in which these instance types are offered.
    pub(crate) async fn offerings(&self, names: Vec<String>) -> Result<Vec<Offering>, CloudError> {
        let query = &Query::filter("instance-type", names);
        self.runner
            .describe("DescribeInstanceTypeOfferings", query, |permit, token| async move {
                let request = self.client.describe_instance_type_offerings().set_filters(filters(query));
                let request = request.location_type(types::LocationType::AvailabilityZone).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                let offerings = answer.instance_type_offerings().iter().map(|offering| Offering {
                    instance_type: text(offering.instance_type().map(types::InstanceType::as_str)),
                    zone: text(offering.location()),
                });
                Ok(Page { items: offerings.collect(), next: answer.next_token })
            })
            .await
    }
}

fn converted(shown: &types::InstanceTypeInfo) -> InstanceType {
    let vcpus = shown.v_cpu_info().and_then(types::VCpuInfo::default_v_cpus);
    let memory = shown.memory_info().and_then(types::MemoryInfo::size_in_mib);
    let architectures = shown.processor_info().map_or(&[][..], types::ProcessorInfo::supported_architectures);
    let mut gpus: BTreeMap<String, i32> = BTreeMap::new();
    for gpu in shown.gpu_info().map_or(&[][..], types::GpuInfo::gpus) {
        *gpus.entry(text(gpu.manufacturer())).or_default() += gpu.count().unwrap_or_default();
    }
    let ena = shown.network_info().and_then(types::NetworkInfo::ena_support);
    let boot_modes = shown.supported_boot_modes().iter();
    let neuron_devices = shown.neuron_info().map_or(&[][..], types::NeuronInfo::neuron_devices);
    InstanceType {
        name: text(shown.instance_type().map(types::InstanceType::as_str)),
        architectures: architectures.iter().map(|name| name.as_str().to_owned()).collect(),
        boot_modes: boot_modes.map(|mode| mode.as_str().to_owned()).collect(),
        ena: text(ena.map(types::EnaSupport::as_str)),
        vcpus: vcpus.unwrap_or_default(),
        memory: memory.unwrap_or_default(),
        gpus,
        neuron_devices: neuron_devices.iter().filter_map(types::NeuronDeviceInfo::count).sum(),
    }
}
