//! Machines and their templates as they are created.

use super::{Creation, RULES_AT_CREATION, Table};

const POLICY: &str = "capa-rs-create-only";

/// What is said of a machine and of a template of machines alike.
const MACHINES: &[Creation] = &[
    ("the smallest", "{}", None),
    ("a key name", "{sshKeyName: \"my key-1\"}", None),
    ("no key", "{sshKeyName: \"\"}", None),
    (
        "a key name with a tab",
        "{sshKeyName: \"key\\t\"}",
        Some("sshKeyName is printable ASCII"),
    ),
    (
        "a key name after a space",
        "{sshKeyName: \" key\"}",
        Some("sshKeyName is printable ASCII"),
    ),
    (
        "a key name beyond ASCII",
        "{sshKeyName: \"schl\u{fc}ssel\"}",
        Some("sshKeyName is printable ASCII"),
    ),
    // Volumes.
    ("io1 with iops", "{rootVolume: {size: 8, type: io1, iops: 100}}", None),
    (
        "io1 without iops",
        "{rootVolume: {size: 8, type: io1}}",
        Some("type io1 or io2 needs iops"),
    ),
    (
        "another volume with io2 and no iops",
        "{nonRootVolumes: [{size: 8, deviceName: /dev/sdb, type: io2}]}",
        Some("type io1 or io2 needs iops"),
    ),
    (
        "throughput of gp3",
        "{rootVolume: {size: 8, type: gp3, throughput: 125}}",
        None,
    ),
    (
        "throughput of gp2",
        "{rootVolume: {size: 8, type: gp2, throughput: 125}}",
        Some("throughput is for volumes of type gp3"),
    ),
    (
        "throughput of whatever",
        "{rootVolume: {size: 8, throughput: 125}}",
        Some("throughput is for volumes of type gp3"),
    ),
    (
        "too little throughput",
        "{rootVolume: {size: 8, type: gp3, throughput: 124}}",
        Some("between 125 and 2000 MiB/s"),
    ),
    (
        "too much throughput",
        "{nonRootVolumes: [{size: 8, deviceName: /dev/sdb, type: gp3, throughput: 2001}]}",
        Some("between 125 and 2000 MiB/s"),
    ),
    (
        "a root volume with a device",
        "{rootVolume: {size: 8, deviceName: /dev/sda1}}",
        None,
    ),
    (
        "another volume without a device",
        "{nonRootVolumes: [{size: 8}]}",
        Some("each of nonRootVolumes needs a deviceName"),
    ),
    // Tags and security groups.
    (
        "tags",
        "{additionalTags: {\"a b_.:/=+-@\": \"c d_.:/=+-@\", e: \"\"}}",
        None,
    ),
    (
        "an empty tag key",
        "{additionalTags: {\"\": a}}",
        Some("a tag key has 1 to 128 letters"),
    ),
    (
        "a tag key with a comma",
        "{additionalTags: {\"a,b\": c}}",
        Some("a tag key has 1 to 128 letters"),
    ),
    (
        "a tag value with a comma",
        "{additionalTags: {a: \"b,c\"}}",
        Some("a tag value has letters"),
    ),
    (
        "a tag of AWS",
        "{additionalTags: {\"aws:a\": b}}",
        Some("belong to AWS: choose another key"),
    ),
    (
        "a tag of AWS in capitals",
        "{additionalTags: {\"AWS:a\": b}}",
        Some("belong to AWS: choose another key"),
    ),
    (
        "groups",
        "{additionalSecurityGroups: [{id: sg-1}, {filters: [{name: a, values: [b]}]}]}",
        None,
    ),
    (
        "a group by id and filters",
        "{additionalSecurityGroups: [{id: sg-1, filters: [{name: a, values: [b]}]}]}",
        Some("each of additionalSecurityGroups has an id or filters, not both"),
    ),
    // Bootstrap data.
    (
        "inline data",
        "{cloudInit: {insecureSkipSecretsManager: true, secretPrefix: \"\", secretCount: 0}}",
        None,
    ),
    (
        "inline data and a backend",
        "{cloudInit: {insecureSkipSecretsManager: true, secureSecretsBackend: secrets-manager}}",
        Some("insecureSkipSecretsManager: true excludes"),
    ),
    (
        "inline data and secrets",
        "{cloudInit: {insecureSkipSecretsManager: true, secretPrefix: p, secretCount: 1}}",
        Some("insecureSkipSecretsManager: true excludes"),
    ),
    (
        "a prefix without a count",
        "{cloudInit: {secretPrefix: p}}",
        Some("secretPrefix and secretCount belong together"),
    ),
    (
        "a count without a prefix",
        "{cloudInit: {secretCount: 1}}",
        Some("secretPrefix and secretCount belong together"),
    ),
    ("Ignition", "{ignition: {}, cloudInit: {}}", None),
    (
        "Ignition and inline data",
        "{ignition: {}, cloudInit: {insecureSkipSecretsManager: true}}",
        Some("ignition and cloudInit exclude"),
    ),
    (
        "Ignition and a backend",
        "{ignition: {}, cloudInit: {secureSecretsBackend: secrets-manager}}",
        Some("ignition and cloudInit exclude"),
    ),
    (
        "a proxy with 3.1",
        "{ignition: {version: \"3.1\", proxy: {httpProxy: \"http://10.0.0.10:3128\"}}}",
        None,
    ),
    (
        "a proxy with 2.3",
        "{ignition: {version: \"2.3\", proxy: {}}}",
        Some("need ignition.version 3.1 or newer"),
    ),
    (
        "a proxy without a version",
        "{ignition: {proxy: {}}}",
        Some("without a version it is 2.3"),
    ),
    (
        "a proxy, the version being in the data",
        "{ignition: {storageType: UnencryptedUserData, proxy: {}}}",
        None,
    ),
    (
        "TLS with 3.0",
        "{ignition: {version: \"3.0\", tls: {}}}",
        Some("need ignition.version 3.1 or newer"),
    ),
    (
        "no URL",
        "{ignition: {version: \"3.1\", proxy: {httpProxy: \"*:80\"}}}",
        Some("httpProxy and httpsProxy are URLs"),
    ),
    (
        "no URL for HTTPS",
        "{ignition: {version: \"3.1\", proxy: {httpsProxy: \"*:80\"}}}",
        Some("httpProxy and httpsProxy are URLs"),
    ),
    (
        "hosts without a proxy",
        "{ignition: {version: \"3.1\", proxy: {noProxy: [\"*\", 10.0.0.1, 10.0.0.0/8, \"2001:db8::1\", example.org, \
         .example.org, \"example.org:80\", \"[::1]:80\"]}}}",
        None,
    ),
    (
        "no host",
        "{ignition: {version: \"3.1\", proxy: {noProxy: [\"a_b\"]}}}",
        Some("noProxy lists IP addresses"),
    ),
    (
        "authorities",
        "{ignition: {version: \"3.1\", tls: {certificateAuthorities: [\"https://a\", \"s3://b/c\", \"arn:aws:s3:::d\", \
         \"data:text/plain;base64,QUJD\"]}}}",
        None,
    ),
    (
        "an authority by FTP",
        "{ignition: {version: \"3.1\", tls: {certificateAuthorities: [\"ftp://a\"]}}}",
        Some("certificateAuthorities lists URLs"),
    ),
    (
        "an authority that is no base64",
        "{ignition: {version: \"3.1\", tls: {certificateAuthorities: [\"data:text/plain,a b\"]}}}",
        Some("certificateAuthorities lists URLs"),
    ),
    // Public addresses.
    (
        "a pool",
        "{publicIP: true, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}}",
        None,
    ),
    (
        "a pool without a public address",
        "{elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}}",
        Some("elasticIpPool needs publicIP: true"),
    ),
    (
        "a pool without a fallback",
        "{publicIP: true, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1}}",
        Some("needs both publicIpv4Pool and publicIpv4PoolFallbackOrder"),
    ),
    (
        "a fallback without a pool",
        "{publicIP: true, elasticIpPool: {publicIpv4PoolFallbackOrder: none}}",
        Some("needs both publicIpv4Pool and publicIpv4PoolFallbackOrder"),
    ),
    (
        "a pool by name",
        "{publicIP: true, elasticIpPool: {publicIpv4Pool: mine, publicIpv4PoolFallbackOrder: none}}",
        Some("begins with ipv4pool-ec2-"),
    ),
    // Markets.
    ("Spot", "{marketType: Spot, spotMarketOptions: {}}", None),
    (
        "Spot on demand",
        "{marketType: OnDemand, spotMarketOptions: {}}",
        Some("spotMarketOptions is for marketType Spot"),
    ),
    (
        "Spot in a block",
        "{marketType: CapacityBlock, spotMarketOptions: {}}",
        Some("spotMarketOptions is for marketType Spot"),
    ),
    (
        "a block",
        "{marketType: CapacityBlock, capacityReservationId: cr-1}",
        None,
    ),
    (
        "no block",
        "{marketType: CapacityBlock}",
        Some("CapacityBlock needs capacityReservationId"),
    ),
    (
        "a reservation",
        "{capacityReservationId: cr-1, capacityReservationPreference: CapacityReservationsOnly}",
        None,
    ),
    (
        "a reservation or any",
        "{capacityReservationId: cr-1, capacityReservationPreference: Open}",
        Some("with capacityReservationId, capacityReservationPreference is CapacityReservationsOnly"),
    ),
    (
        "Spot in a reservation",
        "{marketType: Spot, capacityReservationPreference: CapacityReservationsOnly}",
        Some("leave capacityReservationPreference out"),
    ),
    (
        "a Spot price in a reservation",
        "{spotMarketOptions: {}, capacityReservationPreference: CapacityReservationsOnly}",
        Some("leave capacityReservationPreference out"),
    ),
    // Dedicated Hosts.
    ("a host", "{tenancy: host, hostID: h-0123456789abcdef0}", None),
    (
        "a host to stay on",
        "{tenancy: host, hostID: h-0123456789abcdef0, hostAffinity: host}",
        None,
    ),
    (
        "a host of its own",
        "{tenancy: host, hostAffinity: host, dynamicHostAllocation: {}}",
        None,
    ),
    (
        "two hosts",
        "{tenancy: host, hostAffinity: host, hostID: h-0123456789abcdef0, dynamicHostAllocation: {}}",
        Some("hostID and dynamicHostAllocation exclude each other"),
    ),
    (
        "a host for any tenancy",
        "{hostID: h-0123456789abcdef0}",
        Some("need tenancy host"),
    ),
    (
        "tied for any tenancy",
        "{hostAffinity: host, tenancy: dedicated}",
        Some("need tenancy host"),
    ),
    (
        "allocated for any tenancy",
        "{hostAffinity: host, dynamicHostAllocation: {}}",
        Some("need tenancy host"),
    ),
    (
        "allocated and not tied",
        "{tenancy: host, dynamicHostAllocation: {}}",
        Some("dynamicHostAllocation needs hostAffinity host"),
    ),
];

/// The rules of the policy that machines share with their templates.
const SHARED: usize = 20;

#[tokio::test]
async fn a_machine_that_makes_no_sense_is_not_created() -> anyhow::Result<()> {
    let mut table = Table::new("AWSMachine", "{instanceType: t3.large}").await?;
    table.created(MACHINES).await?;
    table
        .created(&[
            ("tied to any host", "{tenancy: host, hostAffinity: host}", None),
            (
                "one that is moved, with its instance",
                "{providerID: \"aws:///eu-west-1a/i-1\", instanceID: i-1, cloudInit: {secretPrefix: p, secretCount: 1}}",
                None,
            ),
        ])
        .await?;
    table.covers(POLICY, SHARED, RULES_AT_CREATION).await?;
    table.environment.finish().await
}

#[tokio::test]
async fn a_template_of_machines_that_make_no_sense_is_not_created() -> anyhow::Result<()> {
    let mut table = Table::new("AWSMachineTemplate", "{template: {spec: {instanceType: t3.large}}}").await?;
    let texts: Vec<String> = MACHINES
        .iter()
        .map(|(_, spec, _)| format!("{{template: {{spec: {spec}}}}}"))
        .collect();
    for ((what, _, refused), text) in MACHINES.iter().zip(&texts) {
        table.creation(what, text, *refused).await?;
    }
    let tied = "{template: {spec: {tenancy: host, hostAffinity: host}}}";
    table
        .creation(
            "tied to no host",
            tied,
            Some("hostAffinity host in a template needs hostID"),
        )
        .await?;
    for one in [
        "providerID: \"aws:///eu-west-1a/i-1\"",
        "instanceID: i-1",
        "cloudInit: {secretPrefix: p, secretCount: 1}",
    ] {
        let spec = format!("{{template: {{spec: {{{one}}}}}}}");
        table
            .creation(
                "what one machine has",
                &spec,
                Some("belong to one machine: leave them out of the template"),
            )
            .await?;
    }
    table.covers(POLICY, SHARED + 2, RULES_AT_CREATION).await?;
    table.environment.finish().await
}
