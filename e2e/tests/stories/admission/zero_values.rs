//! Zero and the empty string count as absent: the API server accepts them beside other fields, too.
//!
//! That they change nothing is shown by the generated tests `awsmachine/tests/absent.rs` and
//! `awscluster/tests/absent.rs`.

use anyhow::Context as _;
use capa_api::crd::zero_value;
use serde_json::{Map, Value, json};

use super::{table, yaml};

/// The rules of CAPA's own schema that refuse an empty value.
const REFUSED_BY_CAPA: [&str; 1] = ["network.vpc.carrierGatewayId"];

/// The optional scalars of a schema that a spec leaves out, in the blocks and items of lists that the spec has: their
/// paths, and the spec with the zero value of each.
fn with_zeros(schema: &Value, spec: &Value) -> Vec<(String, Value)> {
    let (Some(properties), Some(fields)) = (schema["properties"].as_object(), spec.as_object()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, property) in properties {
        match (fields.get(name), zero_value(property)) {
            (None, Some(zero)) => found.push((name.clone(), with(fields, name, zero))),
            (Some(Value::Array(items)), _) => {
                let inner = items.first().map(|first| with_zeros(&property["items"], first));
                let inner = inner.into_iter().flatten();
                found.extend(inner.map(|(path, item)| (format!("{name}[].{path}"), with(fields, name, json!([item])))));
            }
            (Some(inner), _) => {
                let inner = with_zeros(property, inner).into_iter();
                found.extend(inner.map(|(path, value)| (format!("{name}.{path}"), with(fields, name, value))));
            }
            (None, None) => {}
        }
    }
    found
}

fn with(fields: &Map<String, Value>, name: &str, value: Value) -> Value {
    let mut fields = fields.clone();
    fields.insert(name.to_owned(), value);
    Value::Object(fields)
}

/// Tests each zero value in specs that set other fields.
fn try_zeros(kind: &'static str, smallest: &'static str, specs: &'static [&str]) -> anyhow::Result<()> {
    table(kind, smallest, async |table| {
        let crds = capa_api::crd::crds()?;
        let crd = crds.into_iter().find(|crd| crd.spec.names.kind == kind);
        let crd = serde_json::to_value(crd.context("the kind has a definition")?)?;
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut tried = 0;
        for spec in specs {
            for (path, set) in with_zeros(schema, &super::merged(&yaml(smallest)?, &yaml(spec)?)) {
                if REFUSED_BY_CAPA.contains(&path.as_str()) {
                    continue;
                }
                let what = format!("zero for {path} beside {spec}");
                table.creation(&what, &set.to_string(), "").await?;
                tried += 1;
            }
        }
        assert!(tried > 30, "the schema gave {tried} values only");
        Ok(())
    })
}

#[test]
fn zero_values_of_a_machine_are_accepted() -> anyhow::Result<()> {
    let specs = &[
        "{ami: {}, cloudInit: {}, instanceMetadataOptions: {}, privateDnsName: {}, spotMarketOptions: {},
          rootVolume: {size: 8}, nonRootVolumes: [{deviceName: /dev/sdb, size: 8}],
          subnet: {filters: [{name: a, values: [b]}]},
          additionalSecurityGroups: [{filters: [{name: a, values: [b]}]}]}",
        "{marketType: Spot, publicIP: true, elasticIpPool: {}, ignition: {}}",
        "{marketType: OnDemand, tenancy: host, hostAffinity: host, dynamicHostAllocation: {}}",
    ];
    try_zeros("AWSMachine", "{instanceType: t3.large}", specs)
}

#[test]
fn zero_values_of_a_cluster_are_accepted() -> anyhow::Result<()> {
    let specs = &[
        "{unmanaged: true, preflight: {mode: Disabled}, controlPlaneLoadBalancer: {}, bastion: {},
          network: {vpc: {}, subnets: [{id: subnet-0000000a}]}}",
        "{controlPlaneLoadBalancer: {loadBalancerType: disabled}, network: {vpc: {ipv6: {}, elasticIpPool: {}},
          additionalNodeIngressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 1}]}}",
        "{controlPlaneLoadBalancer: {name: a, loadBalancerType: nlb},
          secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}",
    ];
    try_zeros("AWSCluster", "{region: eu-west-1}", specs)
}
