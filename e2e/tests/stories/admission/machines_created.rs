//! Machines and their templates as they are created.

use super::{RULES_AT_CREATION, table};

const POLICY: &str = "capa-rs-create-only";

/// The cases of AWSMachines and AWSMachineTemplates.
const MACHINES: &str = r#"
the smallest | {} |
a key name | {sshKeyName: "my key-1"} |
no key | {sshKeyName: ""} |
a key name with a tab | {sshKeyName: "key\t"} | sshKeyName is printable ASCII
a key name after a space | {sshKeyName: " key"} | sshKeyName is printable ASCII
a key name beyond ASCII | {sshKeyName: "schlüssel"} | sshKeyName is printable ASCII
a region | {region: us-gov-west-1} |
a path for a region | {region: ../x} | region
a place for a region | {region: US EAST} | region
# Volumes.
io1 with iops | {rootVolume: {size: 8, type: io1, iops: 100}} |
io1 without iops | {rootVolume: {size: 8, type: io1}} | type io1 or io2 needs iops
another volume with io2 and no iops | {nonRootVolumes: [{size: 8, deviceName: /dev/sdb, type: io2}]}
    | type io1 or io2 needs iops
throughput of gp3 | {rootVolume: {size: 8, type: gp3, throughput: 125}} |
throughput of gp2 | {rootVolume: {size: 8, type: gp2, throughput: 125}} | throughput is for volumes of type gp3
throughput of whatever | {rootVolume: {size: 8, throughput: 125}} | throughput is for volumes of type gp3
zero for no value | {rootVolume: {size: 8, type: "", iops: 0, throughput: 0}} |
too little throughput | {rootVolume: {size: 8, type: gp3, throughput: 124}} | between 125 and 2000 MiB/s
too much throughput | {nonRootVolumes: [{size: 8, deviceName: /dev/sdb, type: gp3, throughput: 2001}]}
    | between 125 and 2000 MiB/s
a root volume with a device | {rootVolume: {size: 8, deviceName: /dev/sda1}} |
another volume without a device | {nonRootVolumes: [{size: 8}]} | each of nonRootVolumes needs a deviceName
# Tags and security groups.
tags | {additionalTags: {"a b_.:/=+-@": "c d_.:/=+-@", e: ""}} |
an empty tag key | {additionalTags: {"": a}} | a tag key has 1 to 128 letters
a tag key with a comma | {additionalTags: {"a,b": c}} | a tag key has 1 to 128 letters
a tag value with a comma | {additionalTags: {a: "b,c"}} | a tag value has letters
a tag of AWS | {additionalTags: {"aws:a": b}} | belong to AWS: choose another key
a tag of AWS in capitals | {additionalTags: {"AWS:a": b}} | belong to AWS: choose another key
groups | {additionalSecurityGroups: [{id: sg-1}, {filters: [{name: a, values: [b]}]}]} |
a group by id and filters | {additionalSecurityGroups: [{id: sg-1, filters: [{name: a, values: [b]}]}]}
    | each of additionalSecurityGroups has an id or filters, not both
# Bootstrap data.
tags in the metadata | {instanceMetadataOptions: {instanceMetadataTags: enabled}}
    | instanceMetadataTags: enabled makes EC2 refuse every instance
no metadata at all | {instanceMetadataOptions: {httpEndpoint: disabled}} | can never fetch its bootstrap data
metadata as by default | {instanceMetadataOptions: {httpEndpoint: enabled, instanceMetadataTags: disabled}} |
inline data | {cloudInit: {insecureSkipSecretsManager: true, secretPrefix: "", secretCount: 0}} |
inline data and a backend | {cloudInit: {insecureSkipSecretsManager: true, secureSecretsBackend: secrets-manager}} |
inline data and secrets | {cloudInit: {insecureSkipSecretsManager: true, secretPrefix: p, secretCount: 1}}
    | insecureSkipSecretsManager: true excludes
a prefix without a count | {cloudInit: {secretPrefix: p}} | secretPrefix and secretCount belong together
a count without a prefix | {cloudInit: {secretCount: 1}} | secretPrefix and secretCount belong together
Ignition | {ignition: {}, cloudInit: {}} |
Ignition and inline data | {ignition: {}, cloudInit: {insecureSkipSecretsManager: true}}
    | ignition and cloudInit exclude
Ignition and a backend | {ignition: {}, cloudInit: {secureSecretsBackend: secrets-manager}}
    | ignition and cloudInit exclude
a proxy with 3.1 | {ignition: {version: "3.1", proxy: {httpProxy: "http://10.0.0.10:3128"}}} |
a proxy with 2.3 | {ignition: {version: "2.3", proxy: {}}} | need ignition.version 3.1 or newer
a proxy without a version | {ignition: {proxy: {}}} | without a version it is 2.3
a proxy, the version being in the data | {ignition: {storageType: UnencryptedUserData, proxy: {}}} |
TLS with 3.0 | {ignition: {version: "3.0", tls: {}}} | need ignition.version 3.1 or newer
no URL | {ignition: {version: "3.1", proxy: {httpProxy: "*:80"}}} | httpProxy and httpsProxy are URLs
proxies as CAPA takes them
    | {ignition: {version: "3.1", proxy: {httpProxy: "HTTP://Proxy_1.Example.org:3128", httpsProxy: "//proxy/"}}} |
proxies without a scheme
    | {ignition: {version: "3.1", proxy: {httpProxy: "proxy.example.org:3128", httpsProxy: my_proxy}}} |
an empty proxy | {ignition: {version: "3.1", proxy: {httpProxy: ""}}} |
no URL for HTTPS | {ignition: {version: "3.1", proxy: {httpsProxy: "*:80"}}} | httpProxy and httpsProxy are URLs
hosts without a proxy
    | {ignition: {version: "3.1", proxy: {noProxy: ["*", 10.0.0.1, 10.0.0.0/8, "2001:db8::1", example.org, .example.org,
      "example.org:80", "[::1]:80"]}}} |
hosts with a port, as CAPA takes them
    | {ignition: {version: "3.1", proxy: {noProxy: ["Example.org:80", "a_b:80", "[fe80::1]:80"]}}} |
no host | {ignition: {version: "3.1", proxy: {noProxy: ["a_b"]}}} | noProxy lists IP addresses
no address with a port | {ignition: {version: "3.1", proxy: {noProxy: ["fe80::g:80"]}}} | noProxy lists IP addresses
authorities
    | {ignition: {version: "3.1", tls: {certificateAuthorities: ["https://a", "s3://b/c", "arn:aws:s3:::d",
      "data:text/plain;base64,QUJD"]}}} |
authorities as CAPA takes them
    | {ignition: {version: "3.1", tls: {certificateAuthorities: ["HTTPS://A_b/c", "S3://b/c", "DATA:,QUI=",
      "data:,QQ=="]}}} |
an authority without the padding of base64
    | {ignition: {version: "3.1", tls: {certificateAuthorities: ["data:text/plain;base64,QUI"]}}}
    | certificateAuthorities lists URLs
an authority with too much padding
    | {ignition: {version: "3.1", tls: {certificateAuthorities: ["data:text/plain;base64,QUJD="]}}}
    | certificateAuthorities lists URLs
an authority that is no URL | {ignition: {version: "3.1", tls: {certificateAuthorities: ["https://a b/"]}}}
    | certificateAuthorities lists URLs
an authority by FTP | {ignition: {version: "3.1", tls: {certificateAuthorities: ["ftp://a"]}}}
    | certificateAuthorities lists URLs
an authority that is no base64 | {ignition: {version: "3.1", tls: {certificateAuthorities: ["data:text/plain,a b"]}}}
    | certificateAuthorities lists URLs
# Public addresses.
a pool | {publicIP: true, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}} |
a pool without a public address | {elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1, publicIpv4PoolFallbackOrder: none}}
    | elasticIpPool needs publicIP: true
a pool without a fallback | {publicIP: true, elasticIpPool: {publicIpv4Pool: ipv4pool-ec2-1}}
    | needs both publicIpv4Pool and publicIpv4PoolFallbackOrder
a fallback without a pool | {publicIP: true, elasticIpPool: {publicIpv4PoolFallbackOrder: none}}
    | needs both publicIpv4Pool and publicIpv4PoolFallbackOrder
a pool by name | {publicIP: true, elasticIpPool: {publicIpv4Pool: mine, publicIpv4PoolFallbackOrder: none}}
    | begins with ipv4pool-ec2-
# Markets.
Spot | {marketType: Spot, spotMarketOptions: {}} |
Spot on demand | {marketType: OnDemand, spotMarketOptions: {}} | leave spotMarketOptions out
Spot in a block | {marketType: CapacityBlock, spotMarketOptions: {}} | leave spotMarketOptions out
a block | {marketType: CapacityBlock, capacityReservationId: cr-1} |
no block | {marketType: CapacityBlock} | CapacityBlock needs capacityReservationId
a reservation | {capacityReservationId: cr-1, capacityReservationPreference: CapacityReservationsOnly} |
a reservation or any | {capacityReservationId: cr-1, capacityReservationPreference: Open}
    | with capacityReservationId, capacityReservationPreference is CapacityReservationsOnly
Spot in a reservation | {marketType: Spot, capacityReservationPreference: CapacityReservationsOnly}
    | leave capacityReservationPreference out
a Spot price in a reservation | {spotMarketOptions: {}, capacityReservationPreference: CapacityReservationsOnly}
    | leave capacityReservationPreference out
# Dedicated Hosts.
a host | {tenancy: host, hostID: h-0123456789abcdef0} |
a host to stay on | {tenancy: host, hostID: h-0123456789abcdef0, hostAffinity: host} |
a host of its own | {tenancy: host, hostAffinity: host, dynamicHostAllocation: {}} |
two hosts | {tenancy: host, hostAffinity: host, hostID: h-0123456789abcdef0, dynamicHostAllocation: {}}
    | hostID and dynamicHostAllocation exclude each other
a host for any tenancy | {hostID: h-0123456789abcdef0} | need tenancy host
tied for any tenancy | {hostAffinity: host, tenancy: dedicated} | need tenancy host
allocated for any tenancy | {hostAffinity: host, dynamicHostAllocation: {}} | need tenancy host
allocated and not tied | {tenancy: host, dynamicHostAllocation: {}} | dynamicHostAllocation needs hostAffinity host
"#;

/// A domain name of the given length.
fn host_of(length: usize) -> String {
    let labels = "a".repeat(49) + ".";
    labels.repeat(6).chars().take(length).collect()
}

/// The number of rules in the policy that apply to machines and their templates.
const SHARED: usize = 22;

#[test]
fn an_inconsistent_machine_is_not_created() -> anyhow::Result<()> {
    table("AWSMachine", "{instanceType: t3.large}", async |table| {
        table.created(MACHINES).await?;
        for (length, refused) in [(253, ""), (254, "noProxy lists IP addresses")] {
            for host in [host_of(length), format!(".{}", host_of(length))] {
                let spec = format!("{{ignition: {{version: \"3.1\", proxy: {{noProxy: [\"{host}\"]}}}}}}");
                table.creation(&format!("a host of {length} characters"), &spec, refused).await?;
            }
        }
        table
            .created(
                r#"
tied to any host | {tenancy: host, hostAffinity: host} |
one that is moved, with its instance
    | {providerID: "aws:///eu-west-1a/i-1", instanceID: i-1, cloudInit: {secretPrefix: p, secretCount: 1}} |
"#,
            )
            .await?;
        table.covers(POLICY, SHARED, RULES_AT_CREATION).await
    })
}

#[test]
fn a_template_of_inconsistent_machines_is_not_created() -> anyhow::Result<()> {
    let smallest = "{template: {spec: {instanceType: t3.large}}}";
    table("AWSMachineTemplate", smallest, async |table| {
        table.templates_created(MACHINES).await?;
        let of_one_machine = "belong to one machine: leave them out of the template";
        for (what, spec, refused) in [
            ("tied to no host", "tenancy: host, hostAffinity: host", "hostAffinity host in a template needs hostID"),
            ("a providerID", "providerID: \"aws:///eu-west-1a/i-1\"", of_one_machine),
            ("an instanceID", "instanceID: i-1", of_one_machine),
            ("a machine's secrets", "cloudInit: {secretPrefix: p, secretCount: 1}", of_one_machine),
        ] {
            let spec = format!("{{template: {{spec: {{{spec}}}}}}}");
            table.creation(what, &spec, refused).await?;
        }
        table.covers(POLICY, SHARED + 2, RULES_AT_CREATION).await
    })
}
