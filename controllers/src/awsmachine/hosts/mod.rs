//! The Dedicated Host that is allocated for a machine: recorded before the call, allocated before the launch, released
//! after the instance is gone. Each result is stored before the next call.

pub(super) mod plan;
pub(super) mod release;

use std::num::NonZeroU32;
use std::time::Duration;

use capa_api::common::Tags;
use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{DedicatedHost, HostPhase};
use capa_cloud::{CloudError, ErrorClass, Host, HostPlacement, HostRequest, Instance, is_reserved_tag};
use capa_runtime::reconcile::{EventDraft, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::plan::{HostStep, KnownCall, host_query, host_token, hosts_of, hosts_since, plan_host};
use self::release::{is_gone, may_be_hidden};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::ownership::uid_in;
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::awsmachine::write;
use crate::blocked::Blocked;
use crate::launch_memory::progress::Progress;
use crate::launch_memory::{CapacityLocation, Pool};

pub(super) use plan::zone_of_host;
pub(super) use release::release_all;

/// The host that a launch needs.
pub(super) struct WantedHost<'a> {
    /// The subnet of the launch.
    pub(super) subnet_id: &'a str,
    /// Its zone, where it is known.
    pub(super) zone: Option<&'a str>,
    /// The tags of the instance, which the host gets too.
    pub(super) tags: &'a Tags,
    /// The machines that share shortages of capacity.
    pub(super) pool: Pool,
    /// Number of the first attempt, if no record contains an earlier one.
    pub(super) first_number: NonZeroU32,
}

/// What the steps of an allocation need.
struct Allocation<'a> {
    wanted: &'a WantedHost<'a>,
    location: &'a InstanceLocation,
    context: &'a MachineContext,
}

/// Makes sure that the machine has the host that its spec asks for. `None` for a spec that asks for none.
///
/// # Errors
/// The launch waits for the host.
pub(super) async fn place_on_host(
    scope: &mut MachineScope,
    wanted: &WantedHost<'_>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<Option<HostPlacement>, FlowError> {
    if scope.machine.spec.dynamic_host_allocation.is_none() {
        return Ok(None);
    }
    let allocation = Allocation { wanted, location, context };
    let id = allocation.host(scope).await?;
    Ok(Some(scope.machine.spec.host_placement(&id)))
}

/// Gives the allocated host up if EC2 could not launch on it: the next attempt releases it and allocates another one.
/// The host is kept if its subnet has no free addresses, or if the host is new and EC2 may not show it yet.
pub(super) fn give_up(scope: &mut MachineScope, error: &CloudError, context: &MachineContext) {
    if error.class == ErrorClass::NotFound && may_be_hidden(scope, context) {
        return;
    }
    let is_unusable = error.class == ErrorClass::InsufficientCapacity || error.is_of_host();
    let record = scope.status.dedicated_host.as_mut();
    let used = record.filter(|record| record.usable_id().is_some());
    if let Some(record) = used.filter(|_| is_unusable && !error.is_of_full_subnet()) {
        record.phase = Some(HostPhase::Releasing);
    }
}

impl Allocation<'_> {
    /// The id of the allocated host.
    async fn host(&self, scope: &mut MachineScope) -> Result<String, FlowError> {
        let step = self.plan(scope);
        match step {
            HostStep::Use(id) => Ok(id),
            HostStep::Release(id) => {
                self.release(scope, &id).await?;
                // The placement of this pass was chosen for the host that is now released.
                Err(again(format!("Dedicated Host {id} is released, and another one is allocated")).into())
            }
            HostStep::Record(number) => {
                if let Some(found) = self.look_up(scope).await? {
                    return self.adopt(scope, found).await;
                }
                self.record(scope, number).await?;
                self.call(scope).await
            }
            HostStep::Claim => {
                if let Some(found) = self.look_up(scope).await? {
                    return self.adopt(scope, found).await;
                }
                self.claim(scope).await?;
                self.call(scope).await
            }
            HostStep::Repeat => {
                let asked_at = self.context.now();
                self.context.kubernetes.confirm(&scope.machine).await?;
                let hosts = self.context.memory.hosts();
                hosts.confirmed(scope.uid(), token(scope), asked_at);
                self.call(scope).await
            }
            HostStep::LookOnly => {
                if let Some(found) = self.look_up(scope).await? {
                    return self.adopt(scope, found).await;
                }
                let now = self.context.kubernetes.uptime();
                self.context.memory.hosts().found_nothing(scope.uid(), token(scope), now);
                Err(self.unconfirmed().into())
            }
        }
    }

    fn plan(&self, scope: &MachineScope) -> HostStep {
        let record = scope.status.dedicated_host.as_deref();
        let holder = record.and_then(|record| record.holder.as_deref());
        let calls = self.context.memory.hosts();
        let remembered = calls.recorded_by(scope.uid(), token(scope), holder);
        let known = KnownCall {
            progress: remembered.progress,
            absence: remembered.absence,
            first_number: self.wanted.first_number,
        };
        plan_host(record, self.wanted.zone, &known, self.context.now(), &self.context.timing)
    }

    /// The host of this machine, if there is one.
    async fn look_up(&self, scope: &MachineScope) -> Result<Option<Host>, Blocked> {
        let found = self.location.session.cloud.hosts(&host_query()).await.map_err(|error| {
            let message = format!(
                "the Dedicated Host of the machine cannot be looked up in {}, and none is allocated before: {error}",
                self.location.session.region
            );
            Blocked::by_call(ConditionType::InstanceReady, message, &error)
        })?;
        Ok(hosts_of(scope, found).into_iter().next())
    }

    /// Records a host that exists already.
    async fn adopt(&self, scope: &mut MachineScope, host: Host) -> Result<String, FlowError> {
        let (id, zone) = (host.id.clone(), host.availability_zone.clone());
        scope.status.dedicated_host = Some(Box::new(existing(host, self.location)));
        self.store_host(scope).await?;
        if self.wanted.zone != Some(zone.as_str()) {
            return Err(again(format!("Dedicated Host {id} in {zone} is used, which is there already")).into());
        }
        Ok(id)
    }

    /// Writes the record of a new attempt.
    async fn record(&self, scope: &mut MachineScope, number: NonZeroU32) -> Result<(), FlowError> {
        let Some(zone) = self.wanted.zone else {
            let message = format!(
                "dynamicHostAllocation needs the zone of {}, which is not known: set availabilityZone of the subnet in \
                 its source",
                self.wanted.subnet_id
            );
            let unknown = ConditionType::NetworkReady.is_false(Reason::MissingField, message);
            return Err(Blocked::new(unknown, Next::Retry).into());
        };
        let asked_at = self.context.now();
        let record = DedicatedHost {
            phase: Some(HostPhase::Requested),
            client_token: Some(host_token(scope.uid(), number)),
            holder: Some(self.context.memory.holder().to_owned()),
            availability_zone: Some(zone.to_owned()),
            instance_type: Some(scope.machine.spec.instance_type.clone()),
            tags: self.tags(scope),
            requested_at: Some(Time(asked_at.time)),
            ..located(self.location)
        };
        scope.status.dedicated_host = Some(Box::new(record));
        write::store(scope, self.context).await?;
        let (hosts, account_id) = (self.context.memory.hosts(), &self.location.session.account_id);
        hosts.recorded(scope.uid(), token(scope), account_id, asked_at);
        Ok(())
    }

    async fn claim(&self, scope: &mut MachineScope) -> Result<(), FlowError> {
        let asked_at = self.context.now();
        let holder = self.context.memory.holder().to_owned();
        let is_held =
            scope.status.dedicated_host.as_ref().is_some_and(|record| record.holder.as_ref() == Some(&holder));
        if is_held {
            // The answer to the write of the record was lost. An equal status would not be written again.
            self.context.kubernetes.confirm(&scope.machine).await?;
        } else {
            if let Some(record) = &mut scope.status.dedicated_host {
                record.holder = Some(holder);
            }
            write::store(scope, self.context).await?;
        }
        self.context.memory.hosts().claimed(scope.uid(), token(scope), asked_at);
        Ok(())
    }

    /// Makes the recorded call.
    async fn call(&self, scope: &mut MachineScope) -> Result<String, FlowError> {
        let (hosts, uid) = (self.context.memory.hosts(), scope.uid().to_owned());
        let Some(request) = scope.status.dedicated_host.as_deref().and_then(recorded_request) else {
            return Err(self.unconfirmed().into());
        };
        let token = &request.client_token;
        let now = self.context.now();
        let Some(before) = hosts.begin_call(&uid, token, now, &self.context.timing) else {
            return Err(
                again("EC2 is asked once the API server has confirmed the record of the host".to_owned()).into()
            );
        };
        match self.location.session.cloud.allocate_host(&scope.key(), &request).await {
            Ok(id) => {
                if let Some(record) = &mut scope.status.dedicated_host {
                    record.id = Some(id.clone());
                    record.phase = Some(HostPhase::Allocated);
                    record.requested_at = Some(Time(now.time));
                    record.holder = None;
                    record.tags.clear();
                }
                self.store_host(scope).await?;
                let message = format!("allocated Dedicated Host {id} in {}", request.availability_zone);
                let event = EventDraft::normal("SuccessfulAllocateDedicatedHost", message);
                scope.events.push(event.recorded());
                if self.wanted.zone != Some(request.availability_zone.as_str()) {
                    return Err(again(format!("Dedicated Host {id} lies in another zone than the launch")).into());
                }
                Ok(id)
            }
            Err(error) => {
                let now = self.context.kubernetes.uptime();
                let progress = hosts.call_failed(&uid, token, before, error.class, now);
                if error.class == ErrorClass::InsufficientCapacity {
                    let zone = CapacityLocation::Zone(request.availability_zone.clone());
                    self.context.memory.shortages().refused(&self.wanted.pool, zone, Some(&error), now);
                }
                let record = scope.status.dedicated_host.as_mut();
                if let Some(record) = record.filter(|_| progress == Progress::Refused) {
                    record.phase = Some(HostPhase::Refused);
                    record.tags.clear();
                }
                Err(not_allocated(&request, &error).into())
            }
        }
    }

    /// Releases a host on which nothing was launched.
    async fn release(&self, scope: &mut MachineScope, id: &str) -> Result<(), FlowError> {
        match self.location.session.cloud.release_host(&scope.key(), id).await {
            Ok(()) => {
                let event =
                    EventDraft::normal("SuccessfulReleaseDedicatedHost", format!("released Dedicated Host {id}"));
                scope.events.push(event.recorded());
            }
            Err(error) if is_gone(scope, &error, self.context) => {}
            Err(error) => {
                let message = format!(
                    "the machine cannot be launched on Dedicated Host {id}, and no other host is allocated before it \
                     is released: {error}"
                );
                return Err(Blocked::by_call(ConditionType::InstanceReady, message, &error).into());
            }
        }
        if let Some(record) = &mut scope.status.dedicated_host {
            record.phase = Some(HostPhase::Released);
        }
        write::store(scope, self.context).await?;
        Ok(())
    }

    /// Stores the record with its host. The attempt is over then.
    async fn store_host(&self, scope: &mut MachineScope) -> Result<(), FlowError> {
        write::store(scope, self.context).await?;
        self.context.memory.hosts().forget(scope.uid());
        Ok(())
    }

    /// The tags of the host. Those of the allocation take precedence over the others that users set.
    fn tags(&self, scope: &MachineScope) -> Tags {
        let of_host = scope.machine.spec.dynamic_host_allocation.iter();
        let mut tags = self.wanted.tags.clone();
        let of_host = of_host.flat_map(|allocation| allocation.tags.clone());
        tags.extend(of_host.filter(|(key, _)| !is_reserved_tag(key)));
        tags
    }

    fn unconfirmed(&self) -> Blocked {
        let message = "EC2 was asked for a Dedicated Host and has not answered, and no host shows yet: it is looked \
                       up, and no other one is allocated before its absence is proven";
        let unconfirmed = ConditionType::InstanceReady.is_false(Reason::LaunchUnconfirmed, message);
        let interval = self.context.timing.absence_interval();
        Blocked::new(unconfirmed, Next::Requeue(interval))
    }
}

/// The client token of the record; empty without one.
fn token(scope: &MachineScope) -> &str {
    let record = scope.status.dedicated_host.as_ref();
    record.and_then(|record| record.client_token.as_deref()).unwrap_or_default()
}

/// The call of a record.
fn recorded_request(record: &DedicatedHost) -> Option<HostRequest> {
    Some(HostRequest {
        client_token: record.client_token.clone()?,
        availability_zone: record.availability_zone.clone()?,
        instance_type: record.instance_type.clone()?,
        tags: record.tags.clone(),
    })
}

fn again(message: String) -> Blocked {
    let waiting = ConditionType::InstanceReady.is_false(Reason::Launching, message);
    Blocked::new(waiting, Next::Requeue(Duration::ZERO))
}

fn not_allocated(request: &HostRequest, error: &CloudError) -> Blocked {
    let (kind, zone) = (&request.instance_type, &request.availability_zone);
    let message = format!("no Dedicated Host for instance type {kind} is allocated in {zone}: {error}");
    let reason = match error.class {
        ErrorClass::NoAnswer | ErrorClass::Throttled => Reason::Launching,
        ErrorClass::IdempotentParameterMismatch => Reason::LaunchUnconfirmed,
        class => class.reason(),
    };
    Blocked::by_error(ConditionType::InstanceReady.is_false(reason, message), error)
}

/// A record that contains only the location of the host.
fn located(location: &InstanceLocation) -> DedicatedHost {
    DedicatedHost {
        region: Some(location.session.region.clone()),
        account_id: Some(location.session.account_id.clone()),
        identity_ref: Some(location.session.identity_ref.clone()),
        ..DedicatedHost::default()
    }
}

/// The record of a host that exists already.
pub(super) fn existing(host: Host, location: &InstanceLocation) -> DedicatedHost {
    DedicatedHost {
        id: Some(host.id),
        phase: Some(HostPhase::Allocated),
        client_token: host.client_token,
        availability_zone: Some(host.availability_zone),
        instance_type: Some(host.instance_type),
        ..located(location)
    }
}

/// Records the host of a machine whose launch is not recorded, as after a move. The client token of its instance proves
/// to whom the host belongs, as long as EC2 shows the instance.
///
/// # Errors
/// The hosts cannot be looked up.
pub(super) async fn recover(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
) -> Result<(), Blocked> {
    let has_lost = scope.machine.spec.dynamic_host_allocation.is_some() && scope.status.dedicated_host.is_none();
    let uid = instance.client_token.as_deref().and_then(uid_in);
    // Hosts that were allocated under the present UID are found without a record.
    let Some(uid) = uid.filter(|uid| has_lost && *uid != scope.uid()) else {
        return Ok(());
    };
    let listed = location.session.cloud.hosts(&host_query()).await.map_err(|error| {
        let message = format!(
            "the Dedicated Host of instance {} cannot be looked up in {}: {error}",
            instance.id, location.session.region
        );
        Blocked::by_call(ConditionType::InstanceReady, message, &error)
    })?;
    if let Some(host) = hosts_since(scope, Some(uid), listed).into_iter().next() {
        scope.status.dedicated_host = Some(Box::new(existing(host, location)));
    }
    Ok(())
}
