//! The use of a session by one pass of a machine's reconcile.

use std::time::Duration;

use async_trait::async_trait;
use capa_api::common::Tags;
use parking_lot::Mutex;

use crate::limits::{CallRequest, Flow};
use crate::lookups::{InstanceLookup, LookupAnswer};
use crate::targets::{Desired, RegistrationState, TargetAccess, TargetInstance, TargetRequest};
use crate::{
    Account, BootstrapStorage, CloudError, DedicatedHosts, DnsRecords, ElasticIpAnswer, ElasticIpCall, ElasticIps,
    ErrorClass, Found, HostRequest, Instance, InstanceLifecycle, InstanceLookups, InstanceMetadataOptions,
    InstanceObserver, InstanceUpdates, LaunchRequest, LoadBalancerTargets, MachineKey, Observation, PresignRequest,
    PresignedUrl, PrimaryInterface, Query, Read, Reads, RememberedAccount, SecretActions, SecretStore, StoredSecret,
};

use super::account::{AccountQuery, AccountStep};
use super::moment::Moment;
use super::rates::RateLimiter;
use super::state::SessionState;

/// The services that a session needs from its program: access to its state under a lock, the time, and AWS calls. Calls
/// observe the request rate: a call before its turn fails with [`CloudError::deferred`]. Equal reads at about the same
/// time may share one answer.
#[async_trait]
pub trait SessionDriver: Reads {
    /// Runs `act` on the state at the current moment. Afterwards the driver makes the calls that have become due, and
    /// wakes machines.
    fn act<T>(&self, act: impl FnOnce(&mut SessionState, Moment) -> T) -> T
    where
        Self: Sized;

    /// Records in the [`SessionAssignments`](super::SessionAssignments) that this session follows the machine.
    fn claim(&self, machine: &MachineKey);

    /// The request rates of the session.
    fn rates(&self) -> &RateLimiter;

    /// The flow of the session's calls.
    fn flow(&self) -> &Flow;

    /// GetCallerIdentity.
    async fn ask_account(&self) -> Result<String, CloudError>;

    /// DescribeInstances for a machine that is to be launched or deleted, never shared.
    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;

    /// CreateSecret, PutParameter without overwriting, or PutObject.
    async fn create_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError>;

    /// PutSecretValue, or PutParameter with overwriting.
    async fn replace_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError>;

    /// DeleteSecret or DeleteObject of each name, or DeleteParameters. A name that does not exist is no error.
    async fn delete_secrets(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError>;

    /// Signs a URL of an object with the current credentials.
    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError>;

    /// CreateTags of resources of one instance.
    async fn create_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError>;

    /// DeleteTags of resources of one instance, for tags with these values.
    async fn delete_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError>;

    /// ModifyNetworkInterfaceAttribute.
    async fn set_interface_groups(
        &self,
        machine: &MachineKey,
        interface_id: &str,
        group_ids: &[String],
    ) -> Result<(), CloudError>;

    /// ModifyInstanceMetadataOptions.
    async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError>;

    /// ModifyPrivateDnsNameOptions. A record without a value stays as it is.
    async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError>;

    /// AllocateHosts for one host, never repeated. Returns the id of the host.
    async fn allocate_host(&self, machine: &MachineKey, request: &HostRequest) -> Result<String, CloudError>;

    /// ReleaseHosts of one host.
    async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError>;

    /// Makes the call, and never repeats it.
    async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError>;

    /// Reserves the turn that [`SessionDriver::run_instance`] uses.
    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError>;

    /// RunInstances for one instance, never repeated.
    async fn run_instance(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError>;
}

/// The account of a session's credentials, and the number of times that the credentials had been replaced before the
/// call. After this function the session uses the request rates of the account.
///
/// # Errors
/// The error of AWS, or [`CloudError::credentials_replaced`] if the credentials are replaced faster than AWS
/// answers.
pub async fn confirmed_account(driver: &impl SessionDriver) -> Result<(String, u64), CloudError> {
    let mut query = AccountQuery::default();
    let mut step = driver.act(|state, at| query.begin(&state.account, at));
    loop {
        match step {
            AccountStep::Ask => {
                let answer = driver.ask_account().await;
                step = driver.act(|state, at| query.answered(answer, &mut state.account, at));
            }
            AccountStep::Done(confirmed) => {
                let (account, replacements) = confirmed?;
                driver.rates().belongs_to(&account);
                return Ok((account, replacements));
            }
        }
    }
}

/// The only implementation of [`MachineCloud`](crate::MachineCloud). Each pass creates a new value.
pub struct MachineSession<D> {
    driver: D,
    /// Name of the machine's cluster in tags.
    cluster: String,
    /// Number of times that the credentials had been replaced when the pass obtained their account.
    confirmed_at: Mutex<Option<u64>>,
}

impl<D: SessionDriver> MachineSession<D> {
    /// The session of one pass over a machine of the cluster with this name in tags.
    pub fn new(driver: D, cluster: &str) -> Self {
        Self { driver, cluster: cluster.to_owned(), confirmed_at: Mutex::new(None) }
    }

    /// Fails if the credentials have been replaced since the pass obtained their account.
    fn check_credentials(&self, operation: &'static str) -> Result<(), CloudError> {
        let confirmed_at = *self.confirmed_at.lock();
        let current = self.driver.act(|_, at| at.replacements);
        match confirmed_at {
            Some(replacements) if replacements != current => Err(CloudError::credentials_replaced(operation)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl<D: SessionDriver> Reads for MachineSession<D> {
    async fn read(&self, read: &Read) -> Result<Found, CloudError> {
        let found = self.driver.read(read).await?;
        if read.precedes_a_write() {
            // The check comes after the call, because the call itself may have fetched new credentials.
            self.check_credentials(read.action())?;
        }
        Ok(found)
    }
}

#[async_trait]
impl<D: SessionDriver> Account for MachineSession<D> {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, replacements) = confirmed_account(&self.driver).await?;
        *self.confirmed_at.lock() = Some(replacements);
        self.driver.act(|state, _| state.belongs_to(&account));
        Ok(account)
    }
}

impl<D: SessionDriver> RememberedAccount for MachineSession<D> {
    fn last_account_id(&self) -> Option<String> {
        let (account, replacements) = self.driver.act(|state, at| {
            let account = state.account.last_reported(at)?;
            Some((account.to_owned(), at.replacements))
        })?;
        *self.confirmed_at.lock() = Some(replacements);
        Some(account)
    }
}

#[async_trait]
impl<D: SessionDriver> InstanceLookups for MachineSession<D> {
    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let began = self.driver.act(|state, _| state.lookup_began());
        let found = self.driver.find_instances(query).await?;
        // The check comes after the call, because the call itself may have fetched new credentials.
        self.check_credentials("DescribeInstances")?;
        self.driver.act(|state, _| state.lookup_ended(began, &found));
        Ok(found)
    }

    fn announce_lookup(&self, machine: &MachineKey, wanted: &InstanceLookup, turn_in: Duration) {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.announce_lookup(machine, wanted, turn_in, at));
    }

    fn look_up(&self, machine: &MachineKey, wanted: &InstanceLookup) -> Result<LookupAnswer, CloudError> {
        self.driver.claim(machine);
        let confirmed_at = *self.confirmed_at.lock();
        self.driver.act(|state, at| match confirmed_at {
            Some(replacements) if replacements != at.replacements => {
                Err(CloudError::credentials_replaced("DescribeInstances"))
            }
            _ => Ok(state.look_up(machine, wanted, at)),
        })
    }
}

impl<D: SessionDriver> InstanceObserver for MachineSession<D> {
    fn observe_instance(&self, machine: &MachineKey, id: &str) -> Observation {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.observe(machine, &self.cluster, id, at))
    }

    fn absence_age(&self, id: &str) -> Duration {
        self.driver.act(|state, at| state.informer().absence_age(id, at.now))
    }

    fn reading_failure(&self) -> Option<CloudError> {
        self.driver.act(|state, _| state.informer().reading_failure().cloned())
    }

    fn listing_overdue(&self) -> bool {
        self.driver.act(|state, _| state.informer().is_overdue())
    }
}

#[async_trait]
impl<D: SessionDriver> InstanceLifecycle for MachineSession<D> {
    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError> {
        self.driver.reserve_launch(machine)
    }

    fn release_launch(&self, machine: &MachineKey) {
        self.driver.rates().release(&CallRequest::launch(self.driver.flow(), machine));
    }

    async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.check_credentials("RunInstances")?;
        self.driver.act(|state, _| state.launches(machine));
        let instance = self.driver.run_instance(machine, request).await?;
        self.driver.claim(machine);
        self.driver.act(|state, at| state.launched(machine, &self.cluster, &instance, at));
        Ok(instance)
    }

    async fn terminate(&self, machine: &MachineKey, id: &str) -> Result<(), CloudError> {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.terminate(machine, &self.cluster, id, at))
    }
}

#[async_trait]
impl<D: SessionDriver> BootstrapStorage for MachineSession<D> {
    async fn store_secret(&self, machine: &MachineKey, secret: &StoredSecret) -> Result<(), CloudError> {
        self.check_credentials(SecretActions::of(&secret.store).create)?;
        if !self.driver.act(|state, _| state.is_taken(machine, secret)) {
            match self.driver.create_secret(machine, secret).await {
                Err(error) if error.class == ErrorClass::AlreadyExists => {}
                answer => return answer,
            }
        }
        let answer = self.driver.replace_secret(machine, secret).await;
        // If the replacement waits for its turn, the next pass uses the turn for the replacement, and does not try to
        // create the secret again.
        let is_deferred = answer.as_ref().is_err_and(|error| error.retry_after.is_some());
        self.driver.act(|state, _| state.set_taken(machine, secret, is_deferred));
        answer
    }

    /// A secret that does not exist counts as deleted, and so does every object in a bucket that does not exist.
    async fn delete_secrets(
        &self,
        machine: &MachineKey,
        store: &SecretStore,
        names: &[String],
    ) -> Result<(), CloudError> {
        self.check_credentials(SecretActions::of(store).delete)?;
        match self.driver.delete_secrets(machine, store, names).await {
            Err(error) if error.class == ErrorClass::NotFound => Ok(()),
            answer => answer,
        }
    }

    async fn presign(&self, request: &PresignRequest) -> Result<PresignedUrl, CloudError> {
        self.check_credentials("GetObject")?;
        self.driver.presign(request).await
    }
}

#[async_trait]
impl<D: SessionDriver> InstanceUpdates for MachineSession<D> {
    async fn set_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        self.check_credentials("CreateTags")?;
        self.driver.create_tags(machine, resources, tags).await
    }

    async fn remove_tags(&self, machine: &MachineKey, resources: &[String], tags: &Tags) -> Result<(), CloudError> {
        self.check_credentials("DeleteTags")?;
        self.driver.delete_tags(machine, resources, tags).await
    }

    async fn set_security_groups(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        interface: &PrimaryInterface,
    ) -> Result<(), CloudError> {
        self.check_credentials("ModifyNetworkInterfaceAttribute")?;
        let PrimaryInterface { id, security_group_ids } = interface;
        self.driver.set_interface_groups(machine, id, security_group_ids).await?;
        let changed = Some(interface.clone());
        self.driver.act(|state, _| state.changed(instance_id, |instance| instance.primary_interface = changed));
        Ok(())
    }

    async fn set_metadata_options(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        options: &InstanceMetadataOptions,
    ) -> Result<(), CloudError> {
        self.check_credentials("ModifyInstanceMetadataOptions")?;
        self.driver.set_metadata_options(machine, instance_id, options).await?;
        let changed = Some(options.clone());
        self.driver.act(|state, _| state.changed(instance_id, |instance| instance.metadata_options = changed));
        Ok(())
    }

    async fn set_dns_records(
        &self,
        machine: &MachineKey,
        instance_id: &str,
        records: DnsRecords,
    ) -> Result<(), CloudError> {
        self.check_credentials("ModifyPrivateDnsNameOptions")?;
        self.driver.set_dns_records(machine, instance_id, records).await
    }
}

#[async_trait]
impl<D: SessionDriver> DedicatedHosts for MachineSession<D> {
    async fn allocate_host(&self, machine: &MachineKey, request: &HostRequest) -> Result<String, CloudError> {
        self.check_credentials("AllocateHosts")?;
        self.driver.allocate_host(machine, request).await
    }

    async fn release_host(&self, machine: &MachineKey, host_id: &str) -> Result<(), CloudError> {
        self.check_credentials("ReleaseHosts")?;
        self.driver.release_host(machine, host_id).await
    }
}

#[async_trait]
impl<D: SessionDriver> ElasticIps for MachineSession<D> {
    async fn change_elastic_ip(
        &self,
        machine: &MachineKey,
        call: &ElasticIpCall,
    ) -> Result<ElasticIpAnswer, CloudError> {
        self.check_credentials(call.action())?;
        self.driver.change_elastic_ip(machine, call).await
    }
}

impl<D: SessionDriver> LoadBalancerTargets for MachineSession<D> {
    fn ask_for_targets(&self, machine: &MachineKey, targets: &[TargetRequest]) -> Vec<TargetAccess> {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.ask_for_targets(machine, targets, at))
    }

    fn reconcile_targets(
        &self,
        machine: &MachineKey,
        instance: &TargetInstance,
        targets: &[TargetRequest],
        desired: Desired,
    ) -> Vec<RegistrationState> {
        self.driver.claim(machine);
        let want = |state: &mut SessionState, at| state.want_targets(machine, instance, targets, desired, at);
        self.driver.act(want)
    }

    /// The claim also ends the interest of the session that followed the machine before. Without the claim, the former
    /// session would register the instance again whenever the target loses it.
    fn forget_targets(&self, machine: &MachineKey) {
        self.driver.claim(machine);
        self.driver.act(|state, _| state.forget_targets(machine));
    }
}
