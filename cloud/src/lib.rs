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
mod identity;
pub mod informer;
mod keys;
mod known_reads;
pub mod limits;
pub mod lookups;
pub mod managed;
mod query;
mod reads;
mod resource;
mod secret;
pub mod session;
mod tags;
pub mod targets;
mod timing;

pub use api::{
    Account, BootstrapStorage, ClusterCloud, ClusterClouds, DedicatedHosts, ElasticIps, InstanceLifecycle,
    InstanceLookups, InstanceObserver, InstanceUpdates, LoadBalancerTargets, MachineCloud, MachineClouds,
    RememberedAccount, TemplateClouds,
};
pub use ec2::availability::Availability;
pub use ec2::elastic_ip::{ElasticIp, ElasticIpAnswer, ElasticIpCall};
pub use ec2::host::{CapacitySource, Host, HostRequest, HostState};
pub use ec2::image::Image;
pub use ec2::instance::{Instance, Observation, PrimaryInterface, StateReason};
pub use ec2::instance_type::InstanceType;
pub use ec2::launch::{DnsRecords, LaunchRequest, UserData};
pub use ec2::zone::zone_type;
pub use error::{CloudError, ErrorClass, Shortage, classify, withheld_words};
pub use error_text::{Fault, Parameter, Subject};
pub use identity::{CredentialSource, ResolvedIdentity};
pub use keys::{ClusterKey, MachineKey};
pub use known_reads::KnownReads;
pub use query::Query;
pub use reads::{Answers, Found, MAX_TAGGED, Read, Reads};
pub use secret::{PresignRequest, PresignedUrl, SecretActions, SecretStore, StoredSecret};
pub use tags::{additional_tags, identifying_tag, is_reserved_tag, launch_tags};
pub use timing::{Timing, doubled_wait};

// Targets, states, addresses and the options of a launch are the API's own types.
pub use capa_api::common::{ControlPlaneTarget, MachineAddress, MachineAddressType, Volume};
pub use capa_api::machine::{
    CapacityReservation, HostPlacement, InstanceMetadataOptions, InstanceState, LaunchOptions, PlacementGroup,
};
