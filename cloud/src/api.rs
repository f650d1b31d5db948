//! The AWS calls that a reconciler may make: one narrow trait for each subject, and for the reconciler of each kind the
//! sum of those that it uses. The reconciler of unmanaged clusters gets no trait that can write.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::Tags;

use crate::lookups::{InstanceLookup, LookupAnswer};
use crate::reads::Reads;
use crate::targets::{Desired, RegistrationState, TargetAccess, TargetInstance, TargetRequest};
use crate::{
    CloudError, DnsRecords, ElasticIpAnswer, ElasticIpCall, HostRequest, Instance, InstanceMetadataOptions,
    LaunchRequest, MachineKey, Observation, PresignRequest, PresignedUrl, PrimaryInterface, Query, ResolvedIdentity,
    SecretStore, StoredSecret,
};

/// The account of a session.
#[async_trait]
pub trait Account: Send + Sync {
    /// The account that the credentials belong to. All callers of a session share an answer for ten minutes
    /// (`Timing::launch_lookup_age`); then the session asks AWS again.
    async fn account_id(&self) -> Result<String, CloudError>;
}

/// The account of a session, for callers that continue while AWS does not answer.
pub trait RememberedAccount: Account {
    /// The account that AWS last reported for the current credentials, regardless of the age of the answer, because AWS
    /// may not answer for a while. Makes no call. `None` if AWS was never asked or has refused the credentials since.
    /// The pass uses this account from then on.
    fn last_account_id(&self) -> Option<String>;
}

/// Lookups of instances that the instance informer does not make.
#[async_trait]
pub trait InstanceLookups: Send + Sync {
    /// Instances by query, straight from AWS: for the lookup of an unconfirmed launch, and before a deletion.
    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;
    /// Announces that the machine will call [`InstanceLookups::look_up`] after `turn_in`, when its turn to launch
    /// comes. The lookups of machines whose turns come soon share a call. Makes no call.
    fn announce_lookup(&self, machine: &MachineKey, wanted: &InstanceLookup, turn_in: Duration);
    /// Looks for the instances of a machine whose turn to launch has come. The call to AWS begins after the machine has
    /// asked, is shared with other machines, and is not made within this function. The answer wakes the machine, which
    /// gets the answer once: another launch needs another lookup.
    ///
    /// # Errors
    /// The credentials have been replaced since the pass obtained their account.
    fn look_up(&self, machine: &MachineKey, wanted: &InstanceLookup) -> Result<LookupAnswer, CloudError>;
}

/// What the instance informer shows of instances, and whether it still sees their changes.
pub trait InstanceObserver: Send + Sync {
    /// The informer's state of an instance. From the first call on, the informer follows the instance for `machine`,
    /// and wakes the machine whenever the answer changes, until [`MachineClouds::forget`].
    fn observe_instance(&self, machine: &MachineKey, id: &str) -> Observation;
    /// Time since the beginning of the reads that prove to the informer that an instance is absent. The value has no
    /// meaning if the informer does not show the instance as absent.
    fn absence_age(&self, id: &str) -> Duration;
    /// The error of the informer's listings, or of its lookups of instances in transition, while they fail and the
    /// informer does not see changes of instances.
    fn reading_failure(&self) -> Option<CloudError>;
    /// Whether the informer has not completed a listing for five intervals and `Timing::visibility_age`, so that its
    /// data may be old.
    fn listing_overdue(&self) -> bool;
}

/// The launch of a machine's instance at the machine's turn, and the termination of the instance.
#[async_trait]
pub trait InstanceLifecycle: Send + Sync {
    /// Requests the machine's turn to launch, before the launch is recorded: a machine that waits for its turn has no
    /// open attempt. Makes no call. The turn is reserved for the machine for some seconds, in which
    /// [`InstanceLifecycle::launch`] uses it.
    ///
    /// # Errors
    /// [`CloudError::deferred`], which says when the turn comes.
    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError>;
    /// Gives up the machine's turn to launch, or its place in the queue, so that other machines launch earlier.
    fn release_launch(&self, machine: &MachineKey);
    /// Launches one instance. The informer then shows the instance.
    async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError>;
    /// Submits an instance for termination. The call to AWS follows soon and names other instances, too; it is not made
    /// within this function. The informer then shows the new state and wakes the machine. A failure also wakes the
    /// machine; the next submission returns the failure.
    ///
    /// # Errors
    /// The answer of AWS to the last call for this instance. After the first such answer the caller waits before it
    /// submits the instance again.
    async fn terminate(&self, machine: &MachineKey, id: &str) -> Result<(), CloudError>;
}

/// The bootstrap data of machines in Secrets Manager, Parameter Store and S3.
#[async_trait]
pub trait BootstrapStorage: Send + Sync {
    /// Stores a part of a machine's bootstrap data. The part replaces an existing secret of the same name: the name
    /// contains the UID of the AWSMachine, so that the existing secret belongs to the same machine.
    async fn store_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError>;
    /// Deletes parts of a machine's bootstrap data immediately and permanently. A name that does not exist counts as
    /// deleted.
    async fn delete_secrets(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError>;
    /// A presigned URL of an object. Makes no call to S3. Equal requests have equal URLs as long as the credentials are
    /// the same.
    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError>;
}

/// Changes of a machine's instance after the launch.
#[async_trait]
pub trait InstanceUpdates: Send + Sync {
    /// Sets tags of a machine's instance and of the resources that belong to it. Tags with other keys stay.
    async fn set_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError>;
    /// Removes the tags that have these values from a machine's instance and from the resources that belong to it.
    async fn remove_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError>;
    /// Replaces the security groups of the primary network interface of a machine's instance with the groups of
    /// `interface`. The informer then shows `interface`.
    async fn set_security_groups(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        interface: &PrimaryInterface,
    ) -> Result<(), CloudError>;
    /// Replaces the options of the metadata service of a machine's instance. The informer then shows these options.
    async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError>;
    /// Sets which records the resource-based name of a machine's instance has. A record without a value stays as it is.
    async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError>;
}

/// Dedicated Hosts of machines.
#[async_trait]
pub trait DedicatedHosts: Send + Sync {
    /// Allocates one Dedicated Host for a machine, and returns its id. A call with the same request allocates no second
    /// host.
    async fn allocate_host(&self, machine: &MachineKey, request: &HostRequest) -> Result<String, CloudError>;
    /// Releases a Dedicated Host that was allocated for a machine.
    ///
    /// # Errors
    /// Of class `Invalid`, with AWS's reason, if AWS does not release this host yet.
    async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError>;
}

/// Elastic IPs of machines.
#[async_trait]
pub trait ElasticIps: Send + Sync {
    /// Allocates, associates or releases an Elastic IP of a machine.
    async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError>;
}

/// Instances of machines as targets of load balancers.
pub trait LoadBalancerTargets: Send + Sync {
    /// Asks whether the control plane of a machine that has no instance yet may use load balancer targets, and returns
    /// the answers in the order of `targets`. Answers that are not known are read soon, but not within this function.
    /// The machine is woken when an answer that did not grant access changes, until
    /// [`LoadBalancerTargets::reconcile_targets`], [`MachineClouds::forget`] or
    /// [`LoadBalancerTargets::forget_targets`].
    fn ask_for_targets(&self, machine: &MachineKey, targets: &[TargetRequest]) -> Vec<TargetAccess>;
    /// Sets the desired state of an instance in load balancer targets, and returns the state of each, in the order of
    /// `targets`. Missing registrations are submitted soon, together with others, but not within this function. From
    /// the first call on, the machine is woken whenever the answer changes, until [`MachineClouds::forget`] or
    /// [`LoadBalancerTargets::forget_targets`].
    fn reconcile_targets(
        &self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
    ) -> Vec<RegistrationState>;
    /// Ends a machine's interest in targets. Existing registrations stay.
    fn forget_targets(&self, machine: &MachineKey);
}

/// One account and region as clusters use it: reads only.
pub trait ClusterCloud: Reads + Account {}

impl<T: Reads + Account> ClusterCloud for T {}

/// Provides the sessions with which clusters are reconciled.
#[async_trait]
pub trait ClusterClouds: Send + Sync {
    /// The session of an identity in a region. Makes no call.
    fn cluster(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn ClusterCloud>;
}

/// One account and region as machines use it: lookups shared between machines, the instance informer, and the writes.
/// Every type with these traits implements it.
pub trait MachineCloud:
    Reads
    + RememberedAccount
    + InstanceLookups
    + InstanceObserver
    + InstanceLifecycle
    + BootstrapStorage
    + InstanceUpdates
    + DedicatedHosts
    + ElasticIps
    + LoadBalancerTargets
{
}

impl<T> MachineCloud for T where
    T: Reads
        + RememberedAccount
        + InstanceLookups
        + InstanceObserver
        + InstanceLifecycle
        + BootstrapStorage
        + InstanceUpdates
        + DedicatedHosts
        + ElasticIps
        + LoadBalancerTargets
{
}

/// Provides the sessions with which machines are reconciled.
#[async_trait]
pub trait MachineClouds: Send + Sync {
    /// The session of an identity in a region for one pass over a machine of `cluster`, the name of the machine's
    /// cluster in tags: the informer lists the instances of the clusters of its machines. Makes no call.
    fn machines(&self, identity: &ResolvedIdentity, region: &str, cluster: &str) -> Arc<dyn MachineCloud>;
    /// Ends every session's interest in a machine.
    fn forget(&self, machine: &MachineKey);
}

/// Provides the sessions with which machine templates are reconciled.
pub trait TemplateClouds: Send + Sync {
    /// The session of an identity in a region, which shares its answers with the machines of the identity. Makes no
    /// call.
    fn templates(&self, identity: &ResolvedIdentity, region: &str) -> Arc<dyn Reads>;
}
