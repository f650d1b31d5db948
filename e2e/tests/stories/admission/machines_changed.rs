//! Changes of AWSMachines: a machine is replaced, not changed.

use super::table;

#[test]
fn a_machine_keeps_its_spec() -> anyhow::Result<()> {
    table("AWSMachine", "{instanceType: t3.large}", async |table| {
        table
            .changed(
                r#"
labels, annotations, owners | {} | {metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [example.org/kept]}} |
a field | {} | {spec: {instanceType: t3.small}}
    | this would change instanceType: machines are replaced, not changed. Let the MachineDeployment
several fields | {spec: {publicIP: true}} | {spec: {publicIP: null, sshKeyName: ops, ami: {id: ami-1}}} | would change
an added one | {} | {spec: {ami: {id: ami-1}}} | would change ami:
a removed one | {spec: {publicIP: true}} | {spec: {publicIP: null}} | would change publicIP:
a schema default, said aloud | {} | {spec: {hostAffinity: default}} |
cloud-init's secrets | {spec: {cloudInit: {secureSecretsBackend: secrets-manager}}}
    | {spec: {cloudInit: {secureSecretsBackend: ssm-parameter-store, secretPrefix: p, secretCount: 2}}} |
an empty block of cloud-init | {} | {spec: {cloudInit: {}}} |
the way of bootstrap data | {} | {spec: {cloudInit: {insecureSkipSecretsManager: true}}}
    | would change cloudInit.insecureSkipSecretsManager:
the way of bootstrap data, by leaving the block out | {spec: {cloudInit: {insecureSkipSecretsManager: true}}}
    | {spec: {cloudInit: null}} | would change cloudInit.insecureSkipSecretsManager:
records of an added block of the host name | {} | {spec: {privateDnsName: {enableResourceNameDnsARecord: true}}}
    | would change privateDnsName:
an added empty block of the host name | {} | {spec: {privateDnsName: {}}} | would change privateDnsName:
a removed block of the host name | {spec: {privateDnsName: {enableResourceNameDnsARecord: true}}}
    | {spec: {privateDnsName: null}} | would change privateDnsName:
the host name | {spec: {privateDnsName: {hostnameType: ip-name}}}
    | {spec: {privateDnsName: {enableResourceNameDnsARecord: true, enableResourceNameDnsAAAARecord: false}}} |
the host name | {spec: {privateDnsName: {hostnameType: ip-name}}}
    | {spec: {privateDnsName: {hostnameType: resource-name}}} | would change privateDnsName.hostnameType:
ids, for the first time | {} | {spec: {providerID: "aws:///eu-west-1a/i-1", instanceID: i-1}} |
ids, said again | {spec: {providerID: "aws:///eu-west-1a/i-1", instanceID: i-1}}
    | {spec: {providerID: "aws:///eu-west-1a/i-1", instanceID: i-1}} |
another providerID | {spec: {providerID: "aws:///eu-west-1a/i-1"}} | {spec: {providerID: "aws:///eu-west-1a/i-2"}}
    | spec.providerID is immutable once set
no providerID any more | {spec: {providerID: "aws:///eu-west-1a/i-1"}} | {spec: {providerID: null}}
    | spec.providerID is immutable once set
another instanceID | {spec: {instanceID: i-1}} | {spec: {instanceID: i-2}} | spec.instanceID is immutable once set
no instanceID any more | {spec: {instanceID: i-1}} | {spec: {instanceID: null}} | spec.instanceID is immutable once set
tags and security groups | {spec: {additionalTags: {a: b}}}
    | {spec: {additionalTags: {a: null, c: d}, additionalSecurityGroups: [{id: sg-1}]}} |
tags that AWS does not take | {} | {spec: {additionalTags: {"aws:a": b}}} | choose another key
a group by id and filters | {} | {spec: {additionalSecurityGroups: [{id: sg-1, filters: [{name: a, values: [b]}]}]}}
    | has an id or filters, not both
marked for a move | {spec: {instanceID: i-1}}
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}} |
marked for a move and changed | {spec: {instanceID: i-1}}
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}, spec: {instanceID: i-2}}
    | spec.instanceID is immutable once set
marked for a move first and changed then
    | {metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: ""}}}
    | {spec: {instanceType: t3.small}} | would change instanceType:
"#,
            )
            .await?;
        table.covers("capa-rs-machine-immutable", 3, 3).await
    })
}
