//! A machine is replaced, not changed.

use super::Table;

#[tokio::test]
async fn a_machine_keeps_its_spec() -> anyhow::Result<()> {
    let mut table = Table::new("AWSMachine", "{instanceType: t3.large}").await?;
    table
        .changed(&[
            (
                "labels, annotations, owners",
                "{}",
                "{metadata: {labels: {a: b}, annotations: {c: d}, finalizers: [example.org/kept]}}",
                None,
            ),
            (
                "a field",
                "{}",
                "{spec: {instanceType: t3.small}}",
                Some("this would change instanceType: machines are replaced, not changed. Let the MachineDeployment"),
            ),
            (
                "several fields",
                "{spec: {publicIP: true}}",
                "{spec: {publicIP: null, sshKeyName: ops, ami: {id: ami-1}}}",
                Some("would change"),
            ),
            ("an added one", "{}", "{spec: {ami: {id: ami-1}}}", Some("would change ami:")),
            (
                "a removed one",
                "{spec: {publicIP: true}}",
                "{spec: {publicIP: null}}",
                Some("would change publicIP:"),
            ),
            ("a schema default, said aloud", "{}", "{spec: {hostAffinity: default}}", None),
            (
                "cloud-init's secrets",
                "{spec: {cloudInit: {secureSecretsBackend: secrets-manager}}}",
                "{spec: {cloudInit: {secureSecretsBackend: ssm-parameter-store, secretPrefix: p, secretCount: 2}}}",
                None,
            ),
            ("an empty block of cloud-init", "{}", "{spec: {cloudInit: {}}}", None),
            (
                "the way of bootstrap data",
                "{}",
                "{spec: {cloudInit: {insecureSkipSecretsManager: true}}}",
                Some("would change cloudInit.insecureSkipSecretsManager:"),
            ),
            (
                "the way of bootstrap data, by leaving the block out",
                "{spec: {cloudInit: {insecureSkipSecretsManager: true}}}",
                "{spec: {cloudInit: null}}",
                Some("would change cloudInit.insecureSkipSecretsManager:"),
            ),
            (
                "records of the host name",
                "{spec: {privateDnsName: {hostnameType: ip-name}}}",
                "{spec: {privateDnsName: {enableResourceNameDnsARecord: true, enableResourceNameDnsAAAARecord: false}}}",
                None,
            ),
            (
                "the host name",
                "{spec: {privateDnsName: {hostnameType: ip-name}}}",
                "{spec: {privateDnsName: {hostnameType: resource-name}}}",
                Some("would change privateDnsName.hostnameType:"),
            ),
            (
                "ids, for the first time",
                "{}",
                "{spec: {providerID: \"aws:///eu-west-1a/i-1\", instanceID: i-1}}",
                None,
            ),
            (
                "ids, said again",
                "{spec: {providerID: \"aws:///eu-west-1a/i-1\", instanceID: i-1}}",
                "{spec: {providerID: \"aws:///eu-west-1a/i-1\", instanceID: i-1}}",
                None,
            ),
            (
                "another providerID",
                "{spec: {providerID: \"aws:///eu-west-1a/i-1\"}}",
                "{spec: {providerID: \"aws:///eu-west-1a/i-2\"}}",
                Some("spec.providerID is immutable once set"),
            ),
            (
                "no providerID any more",
                "{spec: {providerID: \"aws:///eu-west-1a/i-1\"}}",
                "{spec: {providerID: null}}",
                Some("spec.providerID is immutable once set"),
            ),
            (
                "another instanceID",
                "{spec: {instanceID: i-1}}",
                "{spec: {instanceID: i-2}}",
                Some("spec.instanceID is immutable once set"),
            ),
            (
                "no instanceID any more",
                "{spec: {instanceID: i-1}}",
                "{spec: {instanceID: null}}",
                Some("spec.instanceID is immutable once set"),
            ),
            (
                "tags and security groups",
                "{spec: {additionalTags: {a: b}}}",
                "{spec: {additionalTags: {a: null, c: d}, additionalSecurityGroups: [{id: sg-1}]}}",
                None,
            ),
            (
                "tags that AWS does not take",
                "{}",
                "{spec: {additionalTags: {\"aws:a\": b}}}",
                Some("choose another key"),
            ),
            (
                "a group by id and filters",
                "{}",
                "{spec: {additionalSecurityGroups: [{id: sg-1, filters: [{name: a, values: [b]}]}]}}",
                Some("has an id or filters, not both"),
            ),
            (
                "deleted for a move",
                "{spec: {instanceID: i-1}}",
                "{metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}, spec: {instanceID: i-2}}",
                None,
            ),
        ])
        .await?;
    table.covers("capa-rs-machine-immutable", 3, 3).await?;
    table.environment.finish().await
}
