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
a family of images | {ami: {eksLookupType: AmazonLinux2023}} |
a number of secrets | {cloudInit: {secretPrefix: team-a, secretCount: 2}} |
what says nothing | {networkInterfaces: [], placementGroupName: "", controlPlaneTargets: []} |
a field | {publicIP: true, elasticIpPool: {}}
    | fields that have no effect yet cannot be set or changed: spec.elasticIpPool (leave it out)
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
    let spec = "{template: {spec: {publicIP: true, elasticIpPool: {}}}}";
    let refused = "spec.template.spec.elasticIpPool (leave it out)";
    table_of_users(
        "AWSMachineTemplate",
        "{template: {spec: {instanceType: t3.large}}}",
        async |table| table.creation("a field", spec, refused).await,
    )
}

#[test]
fn a_cluster_has_the_fields_of_the_managed_mode_too() -> anyhow::Result<()> {
    table_of_users("AWSCluster", CLUSTER, async |table| {
        table
            .created(
                r"
checks | {preflight: {mode: Require, cni: Cilium, skipRules: [S7]}} |
a bucket | {s3Bucket: {name: boot, presignedURLDuration: 1h}} |
a bucket as in the template for Flatcar
    | {unmanaged: false, s3Bucket: {name: boot, controlPlaneIAMInstanceProfile: cp, nodesIAMInstanceProfiles: [nodes]}} |
a lookup of images | {imageLookupOrg: '123456789012'} |
what belongs to the managed mode
    | {controlPlaneLoadBalancer: {loadBalancerType: nlb}, network: {vpc: {cidrBlock: 10.0.0.0/16}}} |
",
            )
            .await?;
        Ok(())
    })
}

#[test]
fn a_stored_field_without_effect_blocks_no_other_change() -> anyhow::Result<()> {
    table_of_users("AWSMachine", MACHINE, async |table| {
        // The policy accepts an object that a backup restores, because the object was stored before the policy.
        let stored = "{metadata: {labels: {velero.io/restore-name: r}}, spec: {publicIP: true, elasticIpPool: {}}}";
        let change = "{spec: {additionalTags: {a: b}}}";
        table.change("as it is", stored, change, "").await
    })
}

#[test]
fn a_change_of_a_machine_is_refused_by_one_policy() -> anyhow::Result<()> {
    table_of_users("AWSMachine", MACHINE, async |table| {
        let (before, change) = ("{spec: {publicIP: true}}", "{spec: {elasticIpPool: {}}}");
        let refused = "would change elasticIpPool:";
        table
            .change("a field that never changes", before, change, refused)
            .await
    })
}
