//! Fields without effect: none is introduced, and none that is there stands in the way. `every_field` tries them one by
//! one.

use super::Table;

const CLUSTER: &str = "{region: eu-west-1, unmanaged: true}";
const MACHINE: &str = "{instanceType: t3.large, ami: {id: ami-1}}";

#[tokio::test]
async fn a_machine_with_a_field_without_effect_is_not_created() -> anyhow::Result<()> {
    let mut table = Table::of_users("AWSMachine", MACHINE).await?;
    table
        .created(&[
            ("nothing of the kind", "{publicIP: true, additionalTags: {a: b}}", None),
            ("defaults of the schema", "{hostAffinity: default}", None),
            (
                "what happens anyway",
                "{marketType: OnDemand, tenancy: default, networkInterfaceType: interface}",
                None,
            ),
            (
                "what says nothing",
                "{networkInterfaces: [], placementGroupName: \"\", controlPlaneTargets: []}",
                None,
            ),
            (
                "a field",
                "{placementGroupName: near}",
                Some("what has no effect yet cannot be introduced: spec.placementGroupName (leave it out)"),
            ),
            (
                "several fields",
                "{spotMarketOptions: {}, tenancy: dedicated}",
                Some("spec.spotMarketOptions (leave it out); spec.tenancy (leave it out)"),
            ),
            (
                "a field below",
                "{ami: {eksLookupType: AmazonLinux2023}}",
                Some("spec.ami.eksLookupType (set ami.id)"),
            ),
            (
                "a false where only true has its effect",
                "{cloudInit: {insecureSkipSecretsManager: false}}",
                Some("spec.cloudInit.insecureSkipSecretsManager (set cloudInit.insecureSkipSecretsManager: true)"),
            ),
            (
                "user data inline",
                "{cloudInit: {insecureSkipSecretsManager: true}}",
                None,
            ),
        ])
        .await?;
    table.environment.finish().await
}

#[tokio::test]
async fn a_template_is_told_where_in_it_the_field_is() -> anyhow::Result<()> {
    let mut machines = Table::of_users("AWSMachineTemplate", "{template: {spec: {instanceType: t3.large}}}").await?;
    let spot = "{template: {spec: {marketType: Spot}}}";
    machines
        .creation("Spot", spot, Some("spec.template.spec.marketType (leave it out)"))
        .await?;
    machines.environment.finish().await?;
    let mut clusters = Table::of_users("AWSClusterTemplate", "{template: {spec: {region: eu-west-1}}}").await?;
    let lookup = "{template: {spec: {imageLookupOrg: \"1\"}}}";
    clusters
        .creation(
            "a lookup",
            lookup,
            Some("spec.template.spec.imageLookupOrg (set ami.id on the machines)"),
        )
        .await?;
    clusters.environment.finish().await
}

#[tokio::test]
async fn what_a_machine_says_at_its_launch_is_not_changed_to_no_effect() -> anyhow::Result<()> {
    let mut table = Table::of_users("AWSMachine", MACHINE).await?;
    let before = "{spec: {additionalTags: {a: b}, additionalSecurityGroups: [{id: sg-1}]}}";
    table
        .changed(&[
            (
                "the same",
                before,
                "{spec: {additionalTags: {a: b}}, metadata: {labels: {c: d}}}",
                None,
            ),
            (
                "other tags",
                before,
                "{spec: {additionalTags: {a: c}}}",
                Some("spec.additionalTags (replace the Machine)"),
            ),
            (
                "no groups",
                before,
                "{spec: {additionalSecurityGroups: null}}",
                Some("spec.additionalSecurityGroups (replace the Machine)"),
            ),
            (
                "a field that was not there",
                "{}",
                "{spec: {privateDnsName: {enableResourceNameDnsARecord: true}}}",
                Some("spec.privateDnsName (leave it out)"),
            ),
        ])
        .await?;
    table.environment.finish().await
}

#[tokio::test]
async fn a_cluster_introduces_no_field_without_effect_and_keeps_those_it_has() -> anyhow::Result<()> {
    let mut table = Table::of_users("AWSCluster", CLUSTER).await?;
    table
        .created(&[
            (
                "the mode",
                "{preflight: {mode: Report, cni: None, skipRules: []}}",
                None,
            ),
            ("no looks at all", "{preflight: {mode: Disabled}}", None),
            (
                "checks",
                "{preflight: {mode: Require}}",
                Some("spec.preflight.mode (use Report)"),
            ),
            (
                "what belongs to the managed mode",
                "{controlPlaneLoadBalancer: {loadBalancerType: nlb}, network: {vpc: {cidrBlock: 10.0.0.0/16}}}",
                None,
            ),
        ])
        .await?;
    // The only way to store such a field under the policy: an object that is said to be on the move is not looked at.
    let stored = "{metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: \"\"}}, \
                  spec: {preflight: {cni: Calico}}}";
    let moved = "metadata: {annotations: {clusterctl.cluster.x-k8s.io/delete-for-move: null}}";
    for (what, change, refused) in [
        ("as it is", "additionalTags: {a: b}", None),
        ("with another value", "preflight: {cni: Cilium}", None),
        ("without it", "preflight: null", None),
        (
            "with one more",
            "preflight: {skipRules: [S7]}",
            Some("introduced: spec.preflight.skipRules (leave it out)"),
        ),
    ] {
        let change = format!("{{{moved}, spec: {{{change}}}}}");
        table.change(what, stored, &change, refused).await?;
    }
    table.environment.finish().await
}
