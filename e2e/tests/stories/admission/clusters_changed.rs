//! What an AWSCluster cannot become.

use super::{Change, Table};

/// Whoever makes the infrastructure.
const ALWAYS: &[Change] = &[
    ("to unmanaged", "{}", "{spec: {unmanaged: true}}", None),
    (
        "from unmanaged",
        "{spec: {unmanaged: true}}",
        "{spec: {unmanaged: false}}",
        Some("spec.unmanaged cannot be turned off"),
    ),
    (
        "from unmanaged by leaving it out",
        "{spec: {unmanaged: true}}",
        "{spec: {unmanaged: null}}",
        Some("spec.unmanaged cannot be turned off"),
    ),
    (
        "given to another controller",
        "{}",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}",
        None,
    ),
    (
        "given to a third one",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: third}}}",
        None,
    ),
    (
        "taken back",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: null}}}",
        Some("the annotation cluster.x-k8s.io/managed-by cannot be removed"),
    ),
    (
        "deleted for a move, which takes all annotations away",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}",
        "{metadata: {annotations: {cluster.x-k8s.io/managed-by: null, clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}}",
        None,
    ),
    (
        "an identity",
        "{}",
        "{spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}}",
        None,
    ),
    (
        "another identity",
        "{spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}}",
        "{spec: {identityRef: {kind: AWSClusterStaticIdentity, name: b}}}",
        None,
    ),
    (
        "no identity any more",
        "{spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}}",
        "{spec: {identityRef: null}}",
        Some("spec.identityRef cannot be removed"),
    ),
    (
        "an endpoint",
        "{}",
        "{spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}",
        None,
    ),
    (
        "an endpoint in place of an empty one",
        "{spec: {controlPlaneEndpoint: {host: \"\", port: 0}}}",
        "{spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}",
        None,
    ),
    (
        "the port of an endpoint, later",
        "{spec: {controlPlaneEndpoint: {host: a.example.org}}}",
        "{spec: {controlPlaneEndpoint: {port: 6443}}}",
        None,
    ),
    (
        "another host",
        "{spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}",
        "{spec: {controlPlaneEndpoint: {host: b.example.org}}}",
        Some("spec.controlPlaneEndpoint is immutable once set"),
    ),
    (
        "another port",
        "{spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}",
        "{spec: {controlPlaneEndpoint: {port: 443}}}",
        Some("spec.controlPlaneEndpoint is immutable once set"),
    ),
    (
        "no endpoint any more",
        "{spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}",
        "{spec: {controlPlaneEndpoint: null}}",
        Some("spec.controlPlaneEndpoint is immutable once set"),
    ),
    (
        "tags",
        "{spec: {additionalTags: {a: b}}}",
        "{spec: {additionalTags: {a: null, c: d}}}",
        None,
    ),
    (
        "tags that AWS does not take",
        "{}",
        "{spec: {additionalTags: {\"aws:a\": b}}}",
        Some("choose another key"),
    ),
    (
        "all that is collected",
        "{}",
        "{metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: \"\"}}}",
        None,
    ),
    (
        "what is collected",
        "{}",
        "{metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: \"load-balancer,security-group\"}}}",
        None,
    ),
    (
        "what nobody collects",
        "{}",
        "{metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: \"load-balancer,volume\"}}}",
        Some("lists some of load-balancer, target-group and security-group"),
    ),
    (
        "anything beside what nobody collects",
        "{metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: volume}}}",
        "{metadata: {finalizers: [example.org/kept]}}",
        None,
    ),
];

/// What is refused while the infrastructure is ours to make, and free otherwise.
const MANAGED: &[Change] = &[
    (
        "another region",
        "{}",
        "{spec: {region: eu-west-2}}",
        Some("spec.region of a managed cluster is immutable once set"),
    ),
    (
        "no region any more",
        "{}",
        "{spec: {region: null}}",
        Some("spec.region of a managed cluster"),
    ),
    (
        "a region",
        "{spec: {region: \"\"}}",
        "{spec: {region: eu-west-2}}",
        None,
    ),
    ("a VPC", "{}", "{spec: {network: {vpc: {id: vpc-1}}}}", None),
    (
        "another VPC",
        "{spec: {network: {vpc: {id: vpc-1}}}}",
        "{spec: {network: {vpc: {id: vpc-2}}}}",
        Some("spec.network.vpc.id of a managed cluster is immutable once set"),
    ),
    (
        "no VPC any more",
        "{spec: {network: {vpc: {id: vpc-1}}}}",
        "{spec: {network: null}}",
        Some("spec.network.vpc.id of a managed cluster is immutable once set"),
    ),
    (
        "subnets",
        "{spec: {network: {vpc: {id: vpc-1}, subnets: [{id: subnet-1}]}}}",
        "{spec: {network: {subnets: [{id: subnet-2}]}}}",
        None,
    ),
    (
        "another name",
        "{spec: {controlPlaneLoadBalancer: {name: a}}}",
        "{spec: {controlPlaneLoadBalancer: {name: b}}}",
        Some("the name of a control plane load balancer is immutable"),
    ),
    (
        "a name where there was none",
        "{}",
        "{spec: {controlPlaneLoadBalancer: {name: b}}}",
        Some("the name of a control plane load balancer is immutable"),
    ),
    (
        "no name any more",
        "{spec: {controlPlaneLoadBalancer: {name: a}}}",
        "{spec: {controlPlaneLoadBalancer: null}}",
        Some("the name of a control plane load balancer is immutable"),
    ),
    (
        "another scheme",
        "{spec: {controlPlaneLoadBalancer: {scheme: internal}}}",
        "{spec: {controlPlaneLoadBalancer: {scheme: internet-facing}}}",
        Some("the scheme of a control plane load balancer is immutable"),
    ),
    (
        "another scheme than the default",
        "{}",
        "{spec: {controlPlaneLoadBalancer: {scheme: internal}}}",
        Some("the scheme of a control plane load balancer is immutable"),
    ),
    (
        "the default scheme, said aloud",
        "{}",
        "{spec: {controlPlaneLoadBalancer: {scheme: internet-facing, crossZoneLoadBalancing: true}}}",
        None,
    ),
    (
        "to another type",
        "{spec: {controlPlaneLoadBalancer: {healthCheckProtocol: TCP}}}",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: HTTPS}}}",
        None,
    ),
    (
        "to disabled",
        "{}",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: disabled}}}",
        Some("does not go to or from loadBalancerType disabled"),
    ),
    (
        "from disabled",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: disabled}}}",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}}",
        Some("does not go to or from loadBalancerType disabled"),
    ),
    (
        "another health check",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: TCP}}}",
        "{spec: {controlPlaneLoadBalancer: {healthCheckProtocol: HTTPS}}}",
        Some("can be changed for loadBalancerType classic only"),
    ),
    (
        "a health check where there was none",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}}",
        "{spec: {controlPlaneLoadBalancer: {healthCheckProtocol: HTTPS}}}",
        Some("can be changed for loadBalancerType classic only"),
    ),
    (
        "another health check of a classic one",
        "{}",
        "{spec: {controlPlaneLoadBalancer: {healthCheckProtocol: SSL}}}",
        None,
    ),
    (
        "other targets",
        "{spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}}",
        "{spec: {controlPlaneLoadBalancer: {targetGroupIPType: ipv4}}}",
        Some("targetGroupIPType of a control plane load balancer is immutable"),
    ),
    (
        "the second one's name",
        "{spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}",
        "{spec: {secondaryControlPlaneLoadBalancer: {name: c}}}",
        Some("the name of a control plane load balancer is immutable"),
    ),
    (
        "no second one any more",
        "{spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}",
        "{spec: {secondaryControlPlaneLoadBalancer: null}}",
        Some("spec.secondaryControlPlaneLoadBalancer cannot be removed"),
    ),
    (
        "a second one, as CAPA takes it",
        "{}",
        "{spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb}}}",
        None,
    ),
    (
        "an internal second one",
        "{}",
        "{spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}",
        Some("an internal second load balancer is asked for when the cluster is created"),
    ),
];

#[tokio::test]
async fn a_cluster_does_not_become_what_it_cannot_be() -> anyhow::Result<()> {
    let mut table = Table::new("AWSCluster", "{region: eu-west-1}").await?;
    table.changed(ALWAYS).await?;
    table.changed(MANAGED).await?;
    table.covers("capa-rs-cluster-transitions", 14, 14).await?;
    table.environment.finish().await
}

#[tokio::test]
async fn what_is_wrong_in_an_unmanaged_cluster_can_be_corrected() -> anyhow::Result<()> {
    let mut table = Table::new("AWSCluster", "{region: eu-west-1, unmanaged: true}").await?;
    for (what, before, change, _) in MANAGED {
        table.changed(&[(what, before, change, None)]).await?;
    }
    table.environment.finish().await
}

#[tokio::test]
async fn the_change_that_lets_go_of_everything_may_correct_everything() -> anyhow::Result<()> {
    let mut table = Table::new("AWSCluster", "{region: eu-west-1}").await?;
    for (what, before, change, _) in MANAGED {
        let letting_go = change.replacen("{spec: {", "{spec: {unmanaged: true, ", 1);
        table.change(what, before, &letting_go, None).await?;
    }
    table.environment.finish().await
}
