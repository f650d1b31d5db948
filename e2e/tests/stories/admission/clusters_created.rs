//! Clusters and their templates as they are created.

use super::{RULES_AT_CREATION, rows, table};

const POLICY: &str = "capa-rs-create-only";

/// The cases of AWSClusters and AWSClusterTemplates.
const CLUSTERS: &str = r#"
the smallest | {} |
no key | {sshKeyName: ""} |
a key name with a tab | {sshKeyName: "key\t"} | sshKeyName is printable ASCII
tags | {additionalTags: {cost-centre: "42"}} |
a tag of AWS | {additionalTags: {"aws:a": b}} | belong to AWS: choose another key
a tag key with a comma | {additionalTags: {"a,b": c}} | a tag key has 1 to 128 letters
a tag value with a comma | {additionalTags: {a: "b,c"}} | a tag value has letters
# Bastion.
ranges | {bastion: {allowedCIDRBlocks: [192.0.2.0/24, "2001:db8::/32"]}} |
no range | {bastion: {allowedCIDRBlocks: [192.0.2.0]}} | allowedCIDRBlocks lists CIDR blocks
a range too wide | {bastion: {allowedCIDRBlocks: [100.200.300.400/99]}} | allowedCIDRBlocks lists CIDR blocks
no rules | {bastion: {disableIngressRules: true, allowedCIDRBlocks: []}} |
no rules, and ranges | {bastion: {disableIngressRules: true, allowedCIDRBlocks: [192.0.2.0/24]}}
    | allowedCIDRBlocks has no effect with disableIngressRules
# Bucket.
presigned URLs | {s3Bucket: {name: b.1-c, presignedURLDuration: 30m}} |
a bucket | {s3Bucket: {name: bbb, controlPlaneIAMInstanceProfile: control-plane, nodesIAMInstanceProfiles: [worker]}} |
a bucket without a name | {s3Bucket: {presignedURLDuration: 30m}} | s3Bucket.name: Required
a short name | {s3Bucket: {name: bb, presignedURLDuration: 30m}} | s3Bucket.name
a name with a hyphen in front | {s3Bucket: {name: -bb, presignedURLDuration: 30m}} | s3Bucket.name
a name with a hyphen behind | {s3Bucket: {name: bb-, presignedURLDuration: 30m}} | s3Bucket.name
an address as a name | {s3Bucket: {name: 10.0.0.1, presignedURLDuration: 30m}} | must not have the form of an IP address
no profile of control planes
    | {s3Bucket: {name: bbb, controlPlaneIAMInstanceProfile: "", nodesIAMInstanceProfiles: [worker]}}
    | controlPlaneIAMInstanceProfile is needed
no profile of workers | {s3Bucket: {name: bbb, controlPlaneIAMInstanceProfile: control-plane}}
    | nodesIAMInstanceProfiles is needed
an empty profile of workers
    | {s3Bucket: {name: bbb, controlPlaneIAMInstanceProfile: control-plane, nodesIAMInstanceProfiles: [worker, ""]}}
    | nodesIAMInstanceProfiles is needed
readers
    | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: r, prefix: a/b/}, {name: r, prefix:
      "*"}]}} |
a reader twice
    | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: r, prefix: a}, {name: r, prefix:
      a}]}} | Duplicate value
a reader without a name
    | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: "", prefix: a}]}}
    | additionalIAMRoles[0].name
a reader by ARN
    | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: "arn:aws:iam::1:role/r", prefix:
      a}]}} | additionalIAMRoles[0].name
a reader of nothing | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: r, prefix: ""}]}}
    | additionalIAMRoles[0].prefix
a prefix with a slash in front
    | {s3Bucket: {name: bbb, presignedURLDuration: 30m, additionalIAMRoles: [{name: r, prefix: /a}]}}
    | additionalIAMRoles[0].prefix
"#;

/// The cases of AWSClusters only: a ClusterClass may still patch a template.
const NETWORKS: &str = r#"
ranges
    | {network: {vpc: {cidrBlock: 10.0.0.0/16, ipv6: {cidrBlock: "2001:db8::/56"}, secondaryCidrBlocks: [{ipv4CidrBlock:
      10.1.0.0/16}]}, subnets: [{id: a, cidrBlock: 10.0.1.0/24, ipv6CidrBlock: "2001:db8::/64"}],
      nodePortIngressRuleCidrBlocks: [0.0.0.0/0, "::/0"]}} |
no range of a VPC | {network: {vpc: {cidrBlock: 10.0.0.0}}}
    | spec.network has what is no CIDR block such as 10.0.0.0/16: 10.0.0.0
no IPv6 range of a VPC | {network: {vpc: {ipv6: {cidrBlock: "2001:db8::"}}}} | no CIDR block such as
no further range | {network: {vpc: {secondaryCidrBlocks: [{ipv4CidrBlock: 10.1/16}]}}} | no CIDR block such as
no range of a subnet | {network: {subnets: [{id: a, cidrBlock: 10.0.1.0/33}]}} | no CIDR block such as
no IPv6 range of a subnet | {network: {subnets: [{id: a, ipv6CidrBlock: x}]}} | no CIDR block such as
no range of NodePorts | {network: {nodePortIngressRuleCidrBlocks: [anywhere]}} | such as 10.0.0.0/16: anywhere
the same range twice | {network: {vpc: {cidrBlock: 10.0.0.0/16, secondaryCidrBlocks: [{ipv4CidrBlock: 10.0.0.0/16}]}}}
    | secondaryCidrBlocks must not repeat spec.network.vpc.cidrBlock
a pool by id | {network: {vpc: {ipamPool: {id: ipam-pool-1}}}} |
a pool by name | {network: {vpc: {ipamPool: {name: prod, netmaskLength: 20}}}} |
a pool by nothing | {network: {vpc: {ipamPool: {netmaskLength: 20}}}} | ipamPool needs an id or a name
a pool and a range | {network: {vpc: {cidrBlock: 10.0.0.0/16, ipamPool: {name: prod}}}}
    | spec.network.vpc.cidrBlock and ipamPool exclude each other
an edge subnet | {network: {subnets: [{id: a, zoneType: local-zone, parentZoneName: eu-west-1a}]}} |
an edge subnet without a parent | {network: {subnets: [{id: a, zoneType: local-zone}]}} | needs parentZoneName
an edge subnet that is there | {unmanaged: true, network: {subnets: [{id: a, zoneType: wavelength-zone}]}} |
public addresses without a fallback | {network: {vpc: {elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1}}}}
    | needs both publicIpv4Pool and publicIpv4PoolFallbackOrder
public addresses by name | {network: {vpc: {elasticIpPool: {publicIpv4Pool: mine, publicIpv4PoolFallbackOrder: none}}}}
    | begins with ipv4pool-ec2-
"#;

/// The fields of a cluster with ingress rules.
const RULES: [&str; 4] = [
    "{network: {additionalControlPlaneIngressRules: [RULE]}}",
    "{network: {additionalNodeIngressRules: [RULE]}}",
    "{controlPlaneLoadBalancer: {ingressRules: [RULE]}}",
    "{controlPlaneLoadBalancer: {scheme: internal}, \
     secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, ingressRules: [RULE]}}",
];

/// The cases of the sources of an ingress rule.
const SOURCES: &str = r#"
ranges | cidrBlocks: [10.0.0.0/8], ipv6CidrBlocks: ["::/0"] |
groups | sourceSecurityGroupIds: [sg-1], sourceSecurityGroupRoles: [node] |
gateways | natGatewaysIPsSource: true |
ranges and groups | cidrBlocks: [10.0.0.0/8], sourceSecurityGroupIds: [sg-1] | not both: write two rules
ranges and roles | ipv6CidrBlocks: ["::/0"], sourceSecurityGroupRoles: [node] | not both: write two rules
gateways and ranges | natGatewaysIPsSource: true, cidrBlocks: [10.0.0.0/8]
    | natGatewaysIPsSource of an ingress rule excludes
gateways and roles | natGatewaysIPsSource: true, sourceSecurityGroupRoles: [node]
    | natGatewaysIPsSource of an ingress rule excludes
"#;

/// The load balancer fields that a cluster without a load balancer must not set.
const OF_A_LOAD_BALANCER: [&str; 10] = [
    "name: a",
    "crossZoneLoadBalancing: true",
    "subnets: [subnet-1]",
    "healthCheckProtocol: TCP",
    "additionalSecurityGroups: [sg-1]",
    "additionalListeners: [{port: 22623}]",
    "ingressRules: [{description: a, protocol: tcp, fromPort: 1, toPort: 1}]",
    "preserveClientIP: true",
    "disableHostsRewrite: true",
    "targetGroupIPType: ipv4",
];

const LOAD_BALANCERS: &str = r"
none | {controlPlaneLoadBalancer: {loadBalancerType: disabled, subnets: [], preserveClientIP: false}} |
a scheme of its own | {controlPlaneLoadBalancer: {scheme: public}} | controlPlaneLoadBalancer.scheme
IPv4 targets | {controlPlaneLoadBalancer: {loadBalancerType: nlb, targetGroupIPType: ipv4}} |
IPv4 targets of a classic one | {controlPlaneLoadBalancer: {targetGroupIPType: ipv4}}
    | not for a load balancer of type classic
IPv4 targets of a classic one's listener
    | {controlPlaneLoadBalancer: {additionalListeners: [{port: 80, targetGroupIPType: ipv4}]}}
    | not for a load balancer of type classic
IPv6 targets | {controlPlaneLoadBalancer: {loadBalancerType: nlb, targetGroupIPType: ipv6}, network: {vpc: {ipv6: {}}}}
    |
IPv6 targets without IPv6 | {controlPlaneLoadBalancer: {loadBalancerType: nlb, targetGroupIPType: ipv6}}
    | targetGroupIPType ipv6 needs IPv6 in the VPC
IPv6 targets of a listener without IPv6
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb, additionalListeners: [{port: 80, targetGroupIPType: ipv6}]}}
    | targetGroupIPType ipv6 needs IPv6 in the VPC
a second one | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}} |
a second one without a name | {secondaryControlPlaneLoadBalancer: {loadBalancerType: nlb, scheme: internal}}
    | secondaryControlPlaneLoadBalancer needs a name
a second one of the same name
    | {controlPlaneLoadBalancer: {name: b}, secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme:
      internal}} | secondaryControlPlaneLoadBalancer needs a name, another than
a second classic one | {secondaryControlPlaneLoadBalancer: {name: b, scheme: internal}}
    | secondaryControlPlaneLoadBalancer needs loadBalancerType nlb
a second one for the same | {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb}}
    | need different schemes
";

/// The number of rules about clusters in the policy.
const RULES_OF_CLUSTERS: usize = 16;

#[test]
fn an_inconsistent_cluster_is_not_created() -> anyhow::Result<()> {
    table("AWSCluster", "{region: eu-west-1}", async |table| {
        for cases in [CLUSTERS, NETWORKS, LOAD_BALANCERS] {
            table.created(cases).await?;
        }
        for place in RULES {
            for [what, sources, refused] in rows(SOURCES)? {
                let rule = format!("{{description: a, protocol: tcp, fromPort: 1, toPort: 1, {sources}}}");
                let what = format!("{what} in {place}");
                table.creation(&what, &place.replace("RULE", &rule), &refused).await?;
            }
        }
        for option in OF_A_LOAD_BALANCER {
            let spec = format!("{{controlPlaneLoadBalancer: {{loadBalancerType: disabled, {option}}}}}");
            let refused = "with loadBalancerType disabled there is no load balancer to set";
            table.creation(option, &spec, refused).await?;
        }
        table.covers(POLICY, RULES_OF_CLUSTERS, RULES_AT_CREATION).await
    })
}

#[test]
fn a_template_of_inconsistent_clusters_is_not_created() -> anyhow::Result<()> {
    let smallest = "{template: {spec: {region: eu-west-1}}}";
    table("AWSClusterTemplate", smallest, async |table| {
        table.templates_created(CLUSTERS).await?;
        table.covers(POLICY, 1, RULES_AT_CREATION).await
    })
}

#[test]
fn an_unmanaged_cluster_may_have_fields_of_the_managed_mode() -> anyhow::Result<()> {
    table("AWSCluster", "{region: eu-west-1, unmanaged: true}", async |table| {
        table
            .created(
                r"
checks | {preflight: {mode: Require, cni: Cilium, skipRules: [S7]}} |
a bucket | {s3Bucket: {name: boot, presignedURLDuration: 1h}} |
a bucket as in the template for Flatcar
    | {unmanaged: false,
      s3Bucket: {name: boot, controlPlaneIAMInstanceProfile: cp, nodesIAMInstanceProfiles: [nodes]}} |
a lookup of images | {imageLookupOrg: '123456789012'} |
what belongs to the managed mode
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb}, network: {vpc: {cidrBlock: 10.0.0.0/16}}} |
",
            )
            .await
    })
}
