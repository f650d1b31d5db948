//! Every row of the table of fields without effect, tested on the API server: an error in the expression of one row
//! does not show in another row.

use anyhow::Context as _;
use capa_api::unsupported::{self, Field, When};

use super::{rows, table_of_users, yaml};

const CLUSTER: &str = "{region: eu-west-1, unmanaged: true}";
const MACHINE: &str = "{instanceType: t3.large, ami: {id: ami-1}}";

/// A spec for each row that sets its field, and otherwise only the fields that other policies require.
const SAMPLES: &str = r"
AWSCluster | partition | {partition: aws-cn}
AWSCluster | controlPlaneLoadBalancer.scheme | {controlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal}}
AWSCluster | controlPlaneLoadBalancer.crossZoneLoadBalancing
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, crossZoneLoadBalancing: true}}
AWSCluster | controlPlaneLoadBalancer.subnets
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, subnets: [subnet-0000000a]}}
AWSCluster | controlPlaneLoadBalancer.healthCheckProtocol
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: HTTPS}}
AWSCluster | controlPlaneLoadBalancer.healthCheck
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheck: {intervalSeconds: 10}}}
AWSCluster | controlPlaneLoadBalancer.additionalSecurityGroups
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, additionalSecurityGroups: [sg-0000000a]}}
AWSCluster | controlPlaneLoadBalancer.additionalListeners
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, additionalListeners: [{port: 8132}]}}
AWSCluster | controlPlaneLoadBalancer.ingressRules
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, ingressRules: [{description: d, protocol: tcp, fromPort: 1,
      toPort: 1, cidrBlocks: [10.0.0.0/8]}]}}
AWSCluster | controlPlaneLoadBalancer.disableHostsRewrite
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, disableHostsRewrite: true}}
AWSCluster | controlPlaneLoadBalancer.preserveClientIP
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, preserveClientIP: true}}
AWSCluster | controlPlaneLoadBalancer.targetGroupIPType
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, targetGroupIPType: ipv4}}
AWSCluster | controlPlaneLoadBalancer.dnsResolutionCheck
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, dnsResolutionCheck: None}}
AWSCluster | secondaryControlPlaneLoadBalancer.scheme
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}
AWSCluster | secondaryControlPlaneLoadBalancer.crossZoneLoadBalancing
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      crossZoneLoadBalancing: true}}
AWSCluster | secondaryControlPlaneLoadBalancer.subnets
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      subnets: [subnet-0000000a]}}
AWSCluster | secondaryControlPlaneLoadBalancer.healthCheckProtocol
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      healthCheckProtocol: HTTPS}}
AWSCluster | secondaryControlPlaneLoadBalancer.healthCheck
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      healthCheck: {intervalSeconds: 10}}}
AWSCluster | secondaryControlPlaneLoadBalancer.additionalSecurityGroups
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      additionalSecurityGroups: [sg-0000000a]}}
AWSCluster | secondaryControlPlaneLoadBalancer.additionalListeners
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      additionalListeners: [{port: 8132}]}}
AWSCluster | secondaryControlPlaneLoadBalancer.ingressRules
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      ingressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks: [10.0.0.0/8]}]}}
AWSCluster | secondaryControlPlaneLoadBalancer.disableHostsRewrite
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      disableHostsRewrite: true}}
AWSCluster | secondaryControlPlaneLoadBalancer.preserveClientIP
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal, preserveClientIP: true}}
AWSCluster | secondaryControlPlaneLoadBalancer.targetGroupIPType
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal, targetGroupIPType: ipv4}}
AWSCluster | secondaryControlPlaneLoadBalancer.dnsResolutionCheck
    | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal,
      dnsResolutionCheck: None}}
AWSCluster | bastion | {bastion: {enabled: true}}
AWSCluster | s3Bucket.controlPlaneIAMInstanceProfile
    | {s3Bucket: {name: boot, presignedURLDuration: 1h, controlPlaneIAMInstanceProfile: control-plane}}
AWSCluster | s3Bucket.nodesIAMInstanceProfiles
    | {s3Bucket: {name: boot, presignedURLDuration: 1h, nodesIAMInstanceProfiles: [nodes]}}
AWSCluster | s3Bucket.additionalIAMRoles
    | {s3Bucket: {name: boot, presignedURLDuration: 1h, additionalIAMRoles: [{name: reader, prefix: node-config}]}}
AWSCluster | network.cni | {network: {cni: {cniIngressRules: []}}}
AWSCluster | network.additionalControlPlaneIngressRules
    | {network: {additionalControlPlaneIngressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 1,
      cidrBlocks: [10.0.0.0/8]}]}}
AWSCluster | network.additionalNodeIngressRules
    | {network: {additionalNodeIngressRules: [{description: d, protocol: tcp, fromPort: 1, toPort: 1, cidrBlocks:
      [10.0.0.0/8]}]}}
AWSCluster | network.nodePortIngressRuleCidrBlocks | {network: {nodePortIngressRuleCidrBlocks: [10.0.0.0/8]}}
AWSCluster | network.subnets[].cidrBlock | {network: {subnets: [{id: a, cidrBlock: 10.0.0.0/24}]}}
AWSCluster | network.subnets[].ipv6CidrBlock | {network: {subnets: [{id: a, ipv6CidrBlock: '2001:db8:1234:1a00::/64'}]}}
AWSCluster | network.subnets[].natGatewayId | {network: {subnets: [{id: a, natGatewayId: nat-1}]}}
AWSCluster | network.subnets[].parentZoneName | {network: {subnets: [{id: a, parentZoneName: eu-west-1b}]}}
AWSCluster | network.subnets[].routeTableId | {network: {subnets: [{id: a, routeTableId: rtb-1}]}}
AWSCluster | network.vpc.availabilityZoneSelection | {network: {vpc: {availabilityZoneSelection: Random}}}
AWSCluster | network.vpc.availabilityZoneUsageLimit | {network: {vpc: {availabilityZoneUsageLimit: 1}}}
AWSCluster | network.vpc.carrierGatewayId | {network: {vpc: {carrierGatewayId: cagw-1}}}
AWSCluster | network.vpc.cidrBlock | {network: {vpc: {cidrBlock: 10.0.0.0/16}}}
AWSCluster | network.vpc.elasticIpPool
    | {network: {vpc: {elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: amazon-pool}}}}
AWSCluster | network.vpc.emptyRoutesDefaultVPCSecurityGroup
    | {network: {vpc: {emptyRoutesDefaultVPCSecurityGroup: true}}}
AWSCluster | network.vpc.internetGatewayId | {network: {vpc: {internetGatewayId: igw-1}}}
AWSCluster | network.vpc.ipamPool | {network: {vpc: {ipamPool: {id: ipam-pool-1}}}}
AWSCluster | network.vpc.ipv6 | {network: {vpc: {ipv6: {}}}}
AWSCluster | network.vpc.privateDnsHostnameTypeOnLaunch | {network: {vpc: {privateDnsHostnameTypeOnLaunch: ip-name}}}
AWSCluster | network.vpc.secondaryCidrBlocks | {network: {vpc: {secondaryCidrBlocks: [{ipv4CidrBlock: 100.64.0.0/16}]}}}
AWSCluster | network.vpc.subnetSchema | {network: {vpc: {subnetSchema: PreferPublic}}}
AWSCluster | network.vpc.tags | {network: {vpc: {tags: {team: a}}}}
AWSMachine | elasticIpPool | {elasticIpPool: {}, publicIP: true}
";

fn fields(kind: &str) -> impl Iterator<Item = &'static Field> {
    unsupported::fields().iter().filter(move |field| field.kind == kind)
}

fn sample(field: &Field) -> anyhow::Result<String> {
    let mut samples = rows(SAMPLES)?.into_iter();
    let sample = samples.find(|[kind, path, _]| (kind.as_str(), path.as_str()) == (field.kind, field.path));
    let [_, _, spec] = sample.with_context(|| format!("{}.{}: add a sample that sets it", field.kind, field.path))?;
    Ok(spec)
}

/// The name of a field below this path, as the refusal contains it.
fn named(below: &str, field: &Field) -> String {
    let path = field.path.replace("[]", "");
    format!("{below}.{path} ({})", field.instead.replace('`', ""))
}

/// Tests the rows of a kind on its objects.
fn try_on_objects(kind: &'static str, smallest: &str) -> anyhow::Result<()> {
    table_of_users(kind, smallest, async |table| {
        for field in fields(kind) {
            let (path, spec) = (field.path, sample(field)?);
            let refusal = named("spec", field);
            let at_creation = if field.when == When::Set { refusal.as_str() } else { "" };
            table.creation(path, &spec, at_creation).await?;
            // The fields of the managed mode are never refused.
            for neutral in field.neutral.iter().filter(|_| field.when == When::Set) {
                let spec = path
                    .rsplit('.')
                    .fold((*neutral).to_owned(), |value, name| format!("{{{name}: {value}}}"));
                table.creation(path, &spec, "").await?;
            }
        }
        Ok(())
    })
}

/// Tests the rows of a kind on its template, as Cluster API compares templates: a dry run in which all other policies
/// admit a change, and in which a refusal stops the topology.
fn try_on_templates(kind: &str, template: &'static str, smallest: &str) -> anyhow::Result<()> {
    let smallest = format!("{{template: {{spec: {smallest}}}}}");
    table_of_users(template, &smallest, async |table| {
        for field in fields(kind) {
            let change = format!(
                "{{metadata: {{annotations: {{topology.cluster.x-k8s.io/dry-run: \"\"}}}}, \
             spec: {{template: {{spec: {}}}}}}}",
                sample(field)?
            );
            let refusal = (field.when == When::Set).then(|| named("spec.template.spec", field));
            table
                .change(field.path, "{}", &change, &refusal.unwrap_or_default())
                .await?;
        }
        Ok(())
    })
}

#[test]
fn each_field_without_effect_is_refused_on_a_machine() -> anyhow::Result<()> {
    try_on_objects("AWSMachine", MACHINE)
}

#[test]
fn each_field_without_effect_is_refused_in_a_machine_template() -> anyhow::Result<()> {
    try_on_templates("AWSMachine", "AWSMachineTemplate", MACHINE)
}

#[test]
fn each_field_without_effect_is_refused_on_a_cluster() -> anyhow::Result<()> {
    try_on_objects("AWSCluster", CLUSTER)
}

#[test]
fn each_field_without_effect_is_refused_in_a_cluster_template() -> anyhow::Result<()> {
    try_on_templates("AWSCluster", "AWSClusterTemplate", CLUSTER)
}

#[test]
fn every_row_has_a_sample_and_every_sample_a_row() -> anyhow::Result<()> {
    let fields = unsupported::fields()
        .iter()
        .map(|field| [field.kind, field.path].map(str::to_owned));
    let samples = rows(SAMPLES)?.into_iter().map(|[kind, path, _]| [kind, path]);
    assert_eq!(samples.collect::<Vec<_>>(), fields.collect::<Vec<_>>());
    for field in unsupported::fields() {
        let found = unsupported::found(field.kind, &yaml(&sample(field)?)?);
        let sets = found.iter().any(|found| found.field == field);
        assert!(sets, "{}.{}: its sample sets {found:?}", field.kind, field.path);
    }
    Ok(())
}
