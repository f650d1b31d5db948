//! The reconcilers' view of AWS: a model of its resources, one narrow trait per use, error classes, and the logic of
//! sessions, instance informers, load balancer targets and request rates. The crate does no I/O and uses no SDK.
//!
//! The `aws` crate implements these traits over the wire; tests and the simulation implement them in memory, over the
//! EC2 of the crate `fake-aws`.

mod api;
mod details;
pub mod ec2;
pub mod elb;
mod error;
mod error_text;
pub mod informer;
pub mod limits;
pub mod lookups;
pub mod managed;
mod model;
mod reads;
mod resource;
pub mod session;
pub mod targets;
mod timing;

pub use api::{
    Account, BootstrapStorage, ClusterCloud, ClusterClouds, DedicatedHosts, ElasticIps, InstanceLifecycle,
    InstanceLookups, InstanceObserver, InstanceUpdates, LoadBalancerTargets, MachineCloud, MachineClouds,
    RememberedAccount, TemplateClouds,
};
pub use ec2::instance::{Instance, Observation, PrimaryInterface, StateReason};
pub use elb::load_balancer::ApiLoadBalancer;
pub use error::{CloudError, ErrorClass, classify, withheld_words};
pub use error_text::{Fault, Parameter, Subject};
pub use model::{
    CapacitySource, ClusterKey, CredentialSource, DnsRecords, ElasticIp, ElasticIpAnswer, ElasticIpCall, Host,
    HostRequest, Image, InstanceType, LaunchRequest, LaunchVolume, MachineKey, MetadataOptions, PresignRequest,
    PresignedUrl, Query, ResolvedIdentity, SecretActions, SecretStore, StoredSecret, UserData, additional_tags,
    identifying_tag, is_reserved_tag, zone_type,
};
pub use reads::{Answers, Found, MAX_TAGGED, Read, Reads};
pub use timing::{Timing, doubled_wait};

// Targets, states, addresses and the options of a launch are the API's own types.
pub use capa_api::common::{ControlPlaneTarget, MachineAddress, MachineAddressType};
pub use capa_api::machine::{CapacityReservation, HostPlacement, InstanceState, LaunchOptions, PlacementGroup};
