//! AWSMachine: one EC2 instance that becomes a node.

mod bootstrap;
mod defaults;
mod elastic_ip;
mod host;
mod launch;
mod launch_options;
mod names;
mod options;
mod spec;
mod status;
pub mod template;

pub use bootstrap::{
    CloudInit, Ignition, IgnitionProxy, IgnitionStorageType, IgnitionTls, IgnitionVersion, SecretsBackend,
};
pub use defaults::{BootstrapDelivery, BuiltInImageLookup};
pub use elastic_ip::{ElasticIp, ElasticIpPhase};
pub use host::{DedicatedHost, HostPhase};
pub use launch::{LaunchAttempt, LaunchRecord, RecordedRequest, UnreadableRecord};
pub use launch_options::{CapacityReservation, HostPlacement, LaunchOptions, PlacementGroup};
pub use options::{
    AmiReference, CapacityReservationPreference, ConfidentialCompute, CpuOptions, DynamicHostAllocation, EksLookupType,
    HostAffinity, HttpTokens, InstanceMetadataOptions, MarketType, NetworkInterfaceType, PrivateDnsName,
    SpotMarketOptions, Switch, Tenancy,
};
pub use spec::{AWSMachine, AWSMachineSpec};
pub use status::{
    AWSMachineStatus, AppliedSecurityGroups, BootstrapObject, BootstrapSecrets, InstanceState, MachineNetworkInUse,
    MachineTargetState, MachineTargetStatus,
};
