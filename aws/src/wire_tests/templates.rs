//! The calls for machine templates.

use std::collections::BTreeMap;

use capa_cloud::{ErrorClass, MachineClouds, Query, TemplateClouds};

use super::fake::{Answer, CLUSTER, Call, Fake, REGION, answer, identity};

/// A server that treats the value of the filter as a prefix, as if it ended with a wildcard.
fn serve(call: &Call) -> Answer {
    if call.action == "DescribeImages" {
        let windows =
            "<item><imageId>ami-1</imageId><architecture>x86_64</architecture><platform>windows</platform></item>";
        return answer("DescribeImages", &format!("<imagesSet>{windows}</imagesSet>"), None);
    }
    let gpus = "<gpuInfo><gpus><item><manufacturer>NVIDIA</manufacturer><count>4</count></item>\
                <item><manufacturer>NVIDIA</manufacturer><count>4</count></item></gpus></gpuInfo>";
    let neuron = "<neuronInfo><neuronDevices><item><count>6</count></item></neuronDevices></neuronInfo>";
    let described = |name: &str, more: &str| {
        format!(
            "<item><instanceType>{name}</instanceType><vCpuInfo><defaultVCpus>96</defaultVCpus></vCpuInfo>\
             <memoryInfo><sizeInMiB>1179648</sizeInMiB></memoryInfo>\
             <processorInfo><supportedArchitectures><item>i386</item><item>x86_64</item></supportedArchitectures>\
             </processorInfo>{more}</item>"
        )
    };
    let all = [("p9.48xlarge", gpus), ("inf9.48xlarge", neuron), ("m9.24xlarge", "")];
    let prefix = call.filter_values().concat();
    let prefix = prefix.trim_end_matches('*');
    let shown = all.iter().filter(|(name, _)| name.starts_with(prefix));
    let shown: String = shown.map(|(name, more)| described(name, more)).collect();
    let content = format!("<instanceTypeSet>{shown}</instanceTypeSet>");
    answer("DescribeInstanceTypes", &content, None)
}

#[tokio::test]
async fn an_instance_type_shows_all_that_its_nodes_offer() {
    let fake = Fake::start(serve).await;
    let templates = fake.pool().await.templates(&identity("A"), REGION);
    let plain = templates.instance_type("m9.24xlarge").await.unwrap();
    assert_eq!((plain.vcpus, plain.memory), (96, 1_179_648));
    assert_eq!(plain.architectures, ["i386", "x86_64"]);
    assert_eq!((plain.gpus, plain.neuron_devices), (BTreeMap::new(), 0));
    let gpus = templates.instance_type("p9.48xlarge").await.unwrap().gpus;
    assert_eq!(gpus, BTreeMap::from([("NVIDIA".to_owned(), 8)]));
    assert_eq!(templates.instance_type("inf9.48xlarge").await.unwrap().neuron_devices, 6);
}

#[tokio::test]
async fn a_known_type_is_cached_and_a_missing_one_is_not() {
    let fake = Fake::start(serve).await;
    let pool = fake.pool().await;
    let templates = || pool.templates(&identity("A"), REGION);
    for _ in 0..3 {
        templates().instance_type("m9.24xlarge").await.unwrap();
    }
    assert_eq!(fake.calls().len(), 1);
    for _ in 0..2 {
        // A wildcard is not the name of a type, even if it matches one.
        let error = templates().instance_type("m9.*").await.unwrap_err();
        assert_eq!(error.class, ErrorClass::NotFound);
    }
    assert_eq!(fake.calls_of("DescribeInstanceTypes").len(), 3);
    assert_eq!(fake.calls()[0].filter_values(), ["m9.24xlarge"]);
    assert_eq!(fake.calls()[0].field("MaxResults"), "100");
}

#[tokio::test]
async fn an_image_is_shared_with_machines() {
    let fake = Fake::start(serve).await;
    let pool = fake.pool_in_real_time().await.0;
    let image = pool.templates(&identity("A"), REGION).image("ami-1").await.unwrap();
    assert_eq!((image.architecture.as_deref(), image.windows), (Some("x86_64"), true));
    let machines = pool.machines(&identity("A"), REGION, CLUSTER);
    machines.images(&Query::filter("image-id", ["ami-1"])).await.unwrap();
    assert_eq!(fake.calls_of("DescribeImages").len(), 1);
    let missing = pool.templates(&identity("A"), REGION).image("ami-2").await;
    assert_eq!(missing.unwrap_err().class, ErrorClass::NotFound);
}
