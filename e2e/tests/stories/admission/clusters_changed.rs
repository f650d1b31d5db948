//! Refused changes of AWSClusters.

use super::{rows, table};

/// The cases of managed and unmanaged clusters.
const ALWAYS: &str = r#"
to unmanaged | {} | {spec: {unmanaged: true}} |
from unmanaged | {spec: {unmanaged: true}} | {spec: {unmanaged: false}} | spec.unmanaged cannot be turned off
from unmanaged by leaving it out | {spec: {unmanaged: true}} | {spec: {unmanaged: null}}
    | spec.unmanaged cannot be turned off
given to another controller | {} | {metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}} |
given to a third one | {metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: third}}} |
taken back | {metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: null}}}
    | the annotation cluster.x-k8s.io/managed-by cannot be removed
marked for a move, which takes all annotations away | {metadata: {annotations: {cluster.x-k8s.io/managed-by: another}}}
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: null, clusterctl.cluster.x-k8s.io/delete-for-move: ""}}} |
taken back beside the mark of a move | {metadata: {annotations: {cluster.x-k8s.io/managed-by: another, a: b}}}
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: null, clusterctl.cluster.x-k8s.io/delete-for-move: ""}}}
    | the annotation cluster.x-k8s.io/managed-by cannot be removed
the mark of a move away, nothing else known
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}}
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: null}}}
    | the move of this AWSCluster was interrupted
the mark of a move away, given back | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}}
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: null, cluster.x-k8s.io/managed-by: a}}} |
the mark of a move away from an unmanaged one
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}, spec: {unmanaged: true}}
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: null}}} |
from unmanaged under the mark of a move
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}, spec: {unmanaged: true}}
    | {spec: {unmanaged: null}} | spec.unmanaged cannot be turned off
an identity | {} | {spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}} |
another identity | {spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}}
    | {spec: {identityRef: {kind: AWSClusterStaticIdentity, name: b}}} |
no identity any more | {spec: {identityRef: {kind: AWSClusterRoleIdentity, name: a}}} | {spec: {identityRef: null}}
    | spec.identityRef cannot be removed
an endpoint | {} | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}} |
an endpoint in place of an empty one | {spec: {controlPlaneEndpoint: {host: "", port: 0}}}
    | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}} |
the port of an endpoint, later | {spec: {controlPlaneEndpoint: {host: a.example.org}}}
    | {spec: {controlPlaneEndpoint: {port: 6443}}} |
another host | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}
    | {spec: {controlPlaneEndpoint: {host: b.example.org}}} | spec.controlPlaneEndpoint is immutable once set
another host under another controller
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: a}},
      spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}
    | {spec: {controlPlaneEndpoint: {host: b.example.org}}} |
another host together with another controller | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}
    | {metadata: {annotations: {cluster.x-k8s.io/managed-by: a}}, spec: {controlPlaneEndpoint: {host: b.example.org}}}
    | spec.controlPlaneEndpoint is immutable once set
another port | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}
    | {spec: {controlPlaneEndpoint: {port: 443}}} | spec.controlPlaneEndpoint is immutable once set
no endpoint any more | {spec: {controlPlaneEndpoint: {host: a.example.org, port: 6443}}}
    | {spec: {controlPlaneEndpoint: null}} | spec.controlPlaneEndpoint is immutable once set
tags | {spec: {additionalTags: {a: b}}} | {spec: {additionalTags: {a: null, c: d}}} |
tags that AWS does not take | {} | {spec: {additionalTags: {"aws:a": b}}} | choose another key
all that is collected | {} | {metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: ""}}} |
what is collected | {}
    | {metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: "load-balancer,security-group"}}} |
what nobody collects | {}
    | {metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: "load-balancer,volume"}}}
    | lists some of load-balancer, target-group and security-group
anything beside what nobody collects
    | {metadata: {annotations: {aws.cluster.x-k8s.io/external-resource-tasks-gc: volume}}}
    | {metadata: {finalizers: [example.org/kept]}} |
"#;

/// The cases of managed clusters only. Unmanaged clusters may change these fields.
const MANAGED: &str = r#"
another region | {} | {spec: {region: eu-west-2}} | spec.region of a managed cluster is immutable once set
no region any more | {} | {spec: {region: null}} | spec.region of a managed cluster
a region | {spec: {region: ""}} | {spec: {region: eu-west-2}} |
a VPC | {} | {spec: {network: {vpc: {id: vpc-1}}}} |
another VPC | {spec: {network: {vpc: {id: vpc-1}}}} | {spec: {network: {vpc: {id: vpc-2}}}}
    | spec.network.vpc.id of a managed cluster is immutable once set
no VPC any more | {spec: {network: {vpc: {id: vpc-1}}}} | {spec: {network: null}}
    | spec.network.vpc.id of a managed cluster is immutable once set
subnets | {spec: {network: {vpc: {id: vpc-1}, subnets: [{id: subnet-1}]}}}
    | {spec: {network: {subnets: [{id: subnet-2}]}}} |
another name | {spec: {controlPlaneLoadBalancer: {name: a}}} | {spec: {controlPlaneLoadBalancer: {name: b}}}
    | the name of a control plane load balancer is immutable
a name where there was none | {} | {spec: {controlPlaneLoadBalancer: {name: b}}}
    | the name of a control plane load balancer is immutable
no name any more | {spec: {controlPlaneLoadBalancer: {name: a}}} | {spec: {controlPlaneLoadBalancer: null}}
    | the name of a control plane load balancer is immutable
another scheme | {spec: {controlPlaneLoadBalancer: {scheme: internal}}}
    | {spec: {controlPlaneLoadBalancer: {scheme: internet-facing}}}
    | the scheme of a control plane load balancer is immutable
another scheme than the default | {} | {spec: {controlPlaneLoadBalancer: {scheme: internal}}}
    | the scheme of a control plane load balancer is immutable
the default scheme, said aloud | {}
    | {spec: {controlPlaneLoadBalancer: {scheme: internet-facing, crossZoneLoadBalancing: true}}} |
to another type | {spec: {controlPlaneLoadBalancer: {healthCheckProtocol: TCP}}}
    | {spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: HTTPS}}} |
to disabled | {} | {spec: {controlPlaneLoadBalancer: {loadBalancerType: disabled}}}
    | does not go to or from loadBalancerType disabled
from disabled | {spec: {controlPlaneLoadBalancer: {loadBalancerType: disabled}}}
    | {spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}} | does not go to or from loadBalancerType disabled
another health check | {spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb, healthCheckProtocol: TCP}}}
    | {spec: {controlPlaneLoadBalancer: {healthCheckProtocol: HTTPS}}}
    | can be changed for loadBalancerType classic only
a health check where there was none | {spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}}
    | {spec: {controlPlaneLoadBalancer: {healthCheckProtocol: HTTPS}}}
    | can be changed for loadBalancerType classic only
another health check of a classic one | {} | {spec: {controlPlaneLoadBalancer: {healthCheckProtocol: SSL}}} |
other targets | {spec: {controlPlaneLoadBalancer: {loadBalancerType: nlb}}}
    | {spec: {controlPlaneLoadBalancer: {targetGroupIPType: ipv4}}}
    | targetGroupIPType of a control plane load balancer is immutable
the second one's name | {spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}
    | {spec: {secondaryControlPlaneLoadBalancer: {name: c}}} | the name of a control plane load balancer is immutable
no second one any more | {spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}
    | {spec: {secondaryControlPlaneLoadBalancer: null}} | spec.secondaryControlPlaneLoadBalancer cannot be removed
a second one, as CAPA takes it | {} | {spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb}}} |
an internal second one | {}
    | {spec: {secondaryControlPlaneLoadBalancer: {name: b, loadBalancerType: nlb, scheme: internal}}}
    | an internal second load balancer is asked for when the cluster is created
"#;

#[test]
fn a_cluster_cannot_change_to_an_invalid_state() -> anyhow::Result<()> {
    table("AWSCluster", "{region: eu-west-1}", async |table| {
        table.changed(ALWAYS).await?;
        table.changed(MANAGED).await?;
        table.covers("capa-rs-cluster-transitions", 15, 15).await
    })
}

#[test]
fn wrong_fields_of_an_unmanaged_cluster_can_be_corrected() -> anyhow::Result<()> {
    table("AWSCluster", "{region: eu-west-1, unmanaged: true}", async |table| {
        for [what, before, change, _] in rows(MANAGED)? {
            table.change(&what, &before, &change, "").await?;
        }
        Ok(())
    })
}

#[test]
fn the_change_to_unmanaged_may_correct_every_field() -> anyhow::Result<()> {
    table("AWSCluster", "{region: eu-west-1}", async |table| {
        for [what, before, change, _] in rows(MANAGED)? {
            let letting_go = change.replacen("{spec: {", "{spec: {unmanaged: true, ", 1);
            table.change(&what, &before, &letting_go, "").await?;
        }
        Ok(())
    })
}
