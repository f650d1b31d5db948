//! A session as one pass over a machine uses it.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::targets::{Access, Desired, RegistrationState, TargetInstance, TargetRequest};
use crate::{
    CloudError, Image, Instance, LaunchRequest, MachineCloud, MachineKey, Observation, Query, SecurityGroup, Subnet,
};

use super::account::{AccountQuery, AccountStep};
use super::moment::Moment;
use super::rates::RateLimiter;
use super::state::SessionState;

/// What a session needs of the program that drives it: its state behind a lock, the time, and calls. Calls keep the
/// request rate: one whose turn has not come fails with [`CloudError::deferred`].
#[async_trait]
pub trait SessionDriver: Send + Sync {
    /// Acts on the state now. Afterwards the driver sees to calls that have become due and to machines to wake.
    fn act<T>(&self, act: impl FnOnce(&mut SessionState, Moment) -> T) -> T
    where
        Self: Sized;

    /// Notes in the [`Owners`](super::Owners) that this session follows the machine.
    fn claim(&self, machine: &MachineKey);

    /// The request rates that the session keeps.
    fn rates(&self) -> &RateLimiter;

    /// GetCallerIdentity.
    async fn ask_account(&self) -> Result<String, CloudError>;

    /// DescribeSubnets; equal queries at about the same time may share one answer.
    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError>;

    /// DescribeSecurityGroups; shared like subnets.
    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError>;

    /// DescribeImages; shared like subnets.
    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError>;

    /// DescribeInstances for a machine that is to be launched or deleted, never shared.
    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError>;

    /// Reserves the turn that [`SessionDriver::run_instance`] uses.
    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError>;

    /// RunInstances for one instance, never repeated.
    async fn run_instance(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError>;
}

/// The account of the credentials of a session, and how often these had been replaced when AWS was asked for it. From
/// here on the session keeps the request rates of that account.
///
/// # Errors
/// What AWS said, or [`CloudError::credentials_replaced`] where the credentials are replaced faster than AWS answers.
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

/// The one implementation of [`MachineCloud`], made anew for each pass.
pub struct MachineSession<D> {
    driver: D,
    /// How often the credentials had been replaced when the pass was told their account.
    confirmed_at: Mutex<Option<u64>>,
}

impl<D: SessionDriver> MachineSession<D> {
    /// A session for one pass.
    pub fn new(driver: D) -> Self {
        Self {
            driver,
            confirmed_at: Mutex::new(None),
        }
    }

    /// Fails once the credentials are others than those whose account the pass was told.
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
impl<D: SessionDriver> MachineCloud for MachineSession<D> {
    async fn account_id(&self) -> Result<String, CloudError> {
        let (account, replacements) = confirmed_account(&self.driver).await?;
        *self.confirmed_at.lock() = Some(replacements);
        self.driver.act(|state, _| state.belongs_to(&account));
        Ok(account)
    }

    async fn subnets(&self, query: &Query) -> Result<Vec<Subnet>, CloudError> {
        self.driver.subnets(query).await
    }

    async fn security_groups(&self, query: &Query) -> Result<Vec<SecurityGroup>, CloudError> {
        self.driver.security_groups(query).await
    }

    async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        self.driver.images(query).await
    }

    async fn find_instances(&self, query: &Query) -> Result<Vec<Instance>, CloudError> {
        let began = self.driver.act(|state, _| state.lookup_began());
        let found = self.driver.find_instances(query).await?;
        // After the call: the call itself may have fetched new credentials.
        self.check_credentials("DescribeInstances")?;
        self.driver.act(|state, _| state.lookup_ended(began, &found));
        Ok(found)
    }

    fn observe_instance(&self, machine: &MachineKey, id: &str) -> Observation {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.observe(machine, id, at))
    }

    fn absence_age(&self, id: &str) -> Duration {
        self.driver.act(|state, at| state.informer().absence_age(id, at.now))
    }

    fn reading_failure(&self) -> Option<CloudError> {
        self.driver.act(|state, _| state.informer().reading_failure().cloned())
    }

    fn reserve_launch(&self, machine: &MachineKey) -> Result<(), CloudError> {
        self.driver.reserve_launch(machine)
    }

    async fn launch(&self, machine: &MachineKey, request: &LaunchRequest) -> Result<Instance, CloudError> {
        self.check_credentials("RunInstances")?;
        let instance = self.driver.run_instance(machine, request).await?;
        self.driver.claim(machine);
        self.driver.act(|state, at| state.launched(machine, &instance, at));
        Ok(instance)
    }

    async fn terminate(&self, machine: &MachineKey, id: &str) -> Result<(), CloudError> {
        self.driver.claim(machine);
        self.driver.act(|state, at| state.terminate(machine, id, at))
    }

    fn ask_for_targets(&self, machine: &MachineKey, targets: &[TargetRequest]) -> Vec<Access> {
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

    /// The claim makes a session that the machine has left end its interest too. Without it that session would go on
    /// to register the instance again whenever its target is lost.
    fn forget_targets(&self, machine: &MachineKey) {
        self.driver.claim(machine);
        self.driver.act(|state, _| state.forget_targets(machine));
    }
}
