//! Fields without effect: the policy refuses to introduce such a field, and a stored one blocks no other change.
//! `every_field` tests the fields one by one.

use super::table_of_users;

const CLUSTER: &str = "{region: eu-west-1, unmanaged: true}";
const MACHINE: &str = "{instanceType: t3.large, ami: {id: ami-1}}";

#[test]
fn a_machine_with_a_field_without_effect_is_not_created() -> anyhow::Result<()> {
    table_of_users("AWSMachine", MACHINE, async |table| {
        table
            .created(
                r#"
nothing of the kind | {publicIP: true, additionalTags: {a: b}} |
defaults of the schema | {hostAffinity: default} |
what has its effect | {marketType: Spot, tenancy: dedicated, networkInterfaceType: efa} |
what says nothing | {networkInterfaces: [], placementGroupName: "", controlPlaneTargets: []} |
a field | {publicIP: true, elasticIpPool: {}}
    | fields that have no effect yet cannot be set or changed: spec.elasticIpPool (leave it out)
several fields | {publicIP: true, elasticIpPool: {}, tenancy: host, hostAffinity: host, dynamicHostAllocation: {}}
    | spec.elasticIpPool (leave it out); spec.dynamicHostAllocation (leave it out)
a field below | {ami: {eksLookupType: AmazonLinux2023}} | spec.ami.eksLookupType (set ami.id)
bootstrap data in Parameter Store | {cloudInit: {secureSecretsBackend: ssm-parameter-store}} |
user data inline | {cloudInit: {insecureSkipSecretsManager: true}} |
"#,
            )
            .await?;
        Ok(())
    })
}

#[test]
fn the_refusal_of_a_template_names_the_whole_path() -> anyhow::Result<()> {
    for (kind, smallest, spec, refused) in [
        (
            "AWSMachineTemplate",
            "{template: {spec: {instanceType: t3.large}}}",
            "{template: {spec: {publicIP: true, elasticIpPool: {}}}}",
            "spec.template.spec.elasticIpPool (leave it out)",
        ),
        (
            "AWSClusterTemplate",
            "{template: {spec: {region: eu-west-1}}}",
            "{template: {spec: {s3Bucket: {name: boot, presignedURLDuration: 1h}}}}",
            "spec.template.spec.s3Bucket (use cloud-init with data in the user data)",
        ),
    ] {
        table_of_users(kind, smallest, async |table| {
            table.creation("a field", spec, refused).await
        })?;
    }
    Ok(())
}

#[test]
fn a_field_that_counts_at_launch_only_is_not_changed_later() -> anyhow::Result<()> {
    table_of_users("AWSMachine", MACHINE, async |table| {
        table
            .changed(
                r"
the same | {spec: {additionalTags: {a: b}, additionalSecurityGroups: [{id: sg-1}]}}
    | {spec: {additionalTags: {a: b}}, metadata: {labels: {c: d}}} |
other tags | {spec: {additionalTags: {a: b}, additionalSecurityGroups: [{id: sg-1}]}} | {spec: {additionalTags: {a: c}}}
    | spec.additionalTags (replace the Machine)
no groups | {spec: {additionalTags: {a: b}, additionalSecurityGroups: [{id: sg-1}]}}
    | {spec: {additionalSecurityGroups: null}} | spec.additionalSecurityGroups (replace the Machine)
a field that was not there | {} | {spec: {cloudInit: {secretPrefix: p, secretCount: 2}}}
    | spec.cloudInit.secretCount (leave it out)
a field that never changes, in the words of the other policy | {spec: {publicIP: true}} | {spec: {elasticIpPool: {}}}
    | would change elasticIpPool:
",
            )
            .await?;
        Ok(())
    })
}

#[test]
fn a_cluster_introduces_no_field_without_effect_but_keeps_old() -> anyhow::Result<()> {
    table_of_users("AWSCluster", CLUSTER, async |table| {
        table
            .created(
                r"
checks | {preflight: {mode: Require, cni: Cilium, skipRules: [S7]}} |
a bucket | {s3Bucket: {name: boot, presignedURLDuration: 1h}} | spec.s3Bucket (use cloud-init with data in the user data)
a lookup of images | {imageLookupOrg: '123456789012'} |
what belongs to the managed mode
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb}, network: {vpc: {cidrBlock: 10.0.0.0/16}}} |
",
            )
            .await?;
        // The policy accepts an object that a backup restores, because the object was stored before the policy.
        let stored = "{metadata: {labels: {velero.io/restore-name: r}}, spec: {s3Bucket: {name: boot, presignedURLDuration: 1h}}}";
        for (what, change, refused) in [
            ("as it is", "additionalTags: {a: b}", ""),
            (
                "with another value",
                "s3Bucket: {name: other, presignedURLDuration: 1h}",
                "",
            ),
            ("without it", "s3Bucket: null", ""),
        ] {
            let change = format!("{{spec: {{{change}}}}}");
            table.change(what, stored, &change, refused).await?;
        }
        let refused = "changed: spec.s3Bucket (use cloud-init with data in the user data)";
        let change = "{spec: {s3Bucket: {name: boot, presignedURLDuration: 1h}}}";
        table.change("with one more", "{}", change, refused).await?;
        Ok(())
    })
}
