//! The Elastic IP of a machine with `spec.elasticIpPool`: recorded before the call, allocated once the instance runs,
//! associated with it, released after the instance is gone. Each result is stored before the next call.

pub(super) mod plan;
pub(super) mod release;

use std::time::Duration;

use capa_api::common::{ElasticIpPool, MachineAddressType, Tags};
use capa_api::conditions::{ConditionType, Reason};
use capa_api::machine::{ElasticIp, ElasticIpPhase, InstanceState};
use capa_api::meta;
use capa_api::network::MachineNetwork;
use capa_cloud::{CloudError, ElasticIp as Address, ElasticIpAnswer, ElasticIpCall, Instance, Query, additional_tags};
use capa_runtime::reconcile::{EventDraft, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use self::plan::{AddressStep, KnownAddress, address_query, address_tags, addresses_of, plan_address};
use crate::awsmachine::context::MachineContext;
use crate::awsmachine::inputs::location::InstanceLocation;
use crate::awsmachine::scope::{FlowError, MachineScope};
use crate::awsmachine::write;
use crate::blocked::{Blocked, earlier};
use crate::launch_memory::progress::Progress;
use crate::public_ipv4_pool;

pub(super) use release::release_all;

const READY: ConditionType = ConditionType::ElasticIPReady;

/// What the steps for an address need.
struct Association<'a> {
    pool: &'a ElasticIpPool,
    instance: &'a Instance,
    tags: Tags,
    location: &'a InstanceLocation,
    context: &'a MachineContext,
}

/// Makes sure that the instance has the Elastic IP that the spec asks for. A failure does not block the other flows:
/// `ElasticIPReady` shows it, and the next pass tries again.
pub(super) async fn ensure_associated(
    scope: &mut MachineScope,
    instance: &Instance,
    network: Option<&MachineNetwork>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let pool = scope.machine.spec.elastic_ip_pool.clone();
    let Some(pool) = pool.filter(|_| !instance.state.has_ended()) else {
        return Ok(());
    };
    let tag = meta::machine_name_tag_value(scope.namespace(), scope.machine.machine_name());
    let others = network.map_or_else(Tags::new, |network| additional_tags(&scope.machine.spec, network));
    let association = Association {
        pool: &pool,
        instance,
        tags: address_tags(&instance.id, &location.session.cluster_tag, tag, others),
        location,
        context,
    };
    match association.drive(scope).await {
        Ok(()) => scope.set_condition(READY.is_true(Reason::Ready)),
        Err(FlowError::Blocked(blocked)) => {
            let blocked = context.remember_refusal(scope, blocked);
            scope.set_condition(blocked.condition);
            scope.next = earlier(scope.next, blocked.next);
        }
        Err(failed) => return Err(failed),
    }
    Ok(())
}

/// Records, for a machine whose status was lost, that an address may be allocated, so that a lookup precedes the next
/// call.
pub(super) fn recover(scope: &mut MachineScope, context: &MachineContext) {
    if scope.machine.spec.elastic_ip_pool.is_some() && scope.status.elastic_ip.is_none() {
        scope.status.elastic_ip = Some(Box::new(in_doubt(context)));
    }
}

/// The record of an address that may be allocated. The provider looks for it, and allocates no other one meanwhile.
fn in_doubt(context: &MachineContext) -> ElasticIp {
    ElasticIp {
        phase: Some(ElasticIpPhase::Requested),
        requested_at: Some(Time(context.now().time)),
        ..ElasticIp::default()
    }
}

impl Association<'_> {
    async fn drive(&self, scope: &mut MachineScope) -> Result<(), FlowError> {
        let step = self.plan(scope);
        if !matches!(step, AddressStep::Keep | AddressStep::AwaitRunning) {
            let pool = serde_json::to_vec(self.pool).unwrap_or_default();
            self.context.await_change(scope, self.location.fingerprint(&"Elastic IP", &pool))?;
        }
        match step {
            AddressStep::Keep => return Ok(()),
            AddressStep::AwaitRunning => return Err(self.await_running().into()),
            AddressStep::Verify(id) => return self.verify(scope, &id).await,
            AddressStep::Associate(_) => {}
            AddressStep::LookOnly => {
                if !self.adopt(scope).await? {
                    let now = self.context.kubernetes.uptime();
                    let calls = self.context.memory.elastic_ips();
                    calls.found_nothing(scope.uid(), &token(scope), now);
                    return Err(self.unconfirmed().into());
                }
            }
            AddressStep::Allocate => {
                if !self.adopt(scope).await? {
                    let pool = self.pool().await?;
                    self.record(scope).await?;
                    self.allocate(scope, pool).await?;
                }
            }
            AddressStep::Repeat => {
                let pool = self.pool().await?;
                let asked_at = self.context.now();
                self.context.kubernetes.confirm(&scope.machine).await?;
                let calls = self.context.memory.elastic_ips();
                calls.confirmed(scope.uid(), &token(scope), asked_at);
                self.allocate(scope, pool).await?;
            }
        }
        Ok(self.associate(scope).await?)
    }

    fn plan(&self, scope: &MachineScope) -> AddressStep {
        let record = scope.status.elastic_ip.as_deref();
        let holder = record.and_then(|record| record.holder.as_deref());
        let calls = self.context.memory.elastic_ips();
        let remembered = calls.recorded_by(scope.uid(), &token(scope), holder);
        let public_ip = record.and_then(|record| record.public_ip.as_deref());
        let mut shown = self.instance.addresses.iter();
        let known = KnownAddress {
            progress: remembered.progress,
            absence: remembered.absence,
            runs: self.instance.state == InstanceState::Running,
            is_shown: shown.any(|shown| {
                shown.address_type == MachineAddressType::ExternalIP && Some(shown.address.as_str()) == public_ip
            }),
        };
        plan_address(record, &known, self.context.now(), &self.context.timing)
    }

    /// Records an address of the instance that exists already. Returns whether there is one.
    async fn adopt(&self, scope: &mut MachineScope) -> Result<bool, FlowError> {
        let found = self.look_up(&address_query(&self.instance.id)).await?;
        let found = addresses_of(&self.instance.id, &self.location.session.cluster_tag, found);
        let Some(found) = found.into_iter().next() else {
            return Ok(false);
        };
        self.store_address(scope, found.allocation_id, found.public_ip).await?;
        Ok(true)
    }

    async fn look_up(&self, query: &Query) -> Result<Vec<Address>, Blocked> {
        self.location.session.cloud.elastic_ips(query).await.map_err(|error| {
            let message = format!(
                "the Elastic IP of instance {} cannot be looked up in {}: {error}",
                self.instance.id, self.location.session.region
            );
            Blocked::by_call(READY, message, &error)
        })
    }

    /// The pool to allocate from.
    async fn pool(&self) -> Result<Option<String>, Blocked> {
        let Some(pool) = public_ipv4_pool::named(self.pool) else {
            return Ok(None);
        };
        let free = self.location.session.cloud.free_addresses(pool).await.map_err(|error| {
            let message = format!("the free addresses of public IPv4 pool {pool} cannot be looked up: {error}");
            Blocked::by_call(READY, message, &error)
        })?;
        match public_ipv4_pool::to_allocate_from(self.pool, free) {
            Ok(pool) => Ok(pool.map(str::to_owned)),
            Err(problem) => {
                let exhausted = READY.is_false(problem.reason, problem.message);
                Err(Blocked::new(exhausted, Next::Requeue(self.context.timing.refusal_retry_cap)))
            }
        }
    }

    /// Writes the record of a call. Until the call is answered, `clusterctl move` waits.
    async fn record(&self, scope: &mut MachineScope) -> Result<(), FlowError> {
        write::block_move(scope, &self.location.session.account_id, self.context).await?;
        let asked_at = self.context.now();
        scope.status.elastic_ip = Some(Box::new(ElasticIp {
            phase: Some(ElasticIpPhase::Requested),
            holder: Some(self.context.memory.holder().to_owned()),
            requested_at: Some(Time(asked_at.time)),
            ..ElasticIp::default()
        }));
        write::store(scope, self.context).await?;
        let (calls, account_id) = (self.context.memory.elastic_ips(), &self.location.session.account_id);
        calls.recorded(scope.uid(), &token(scope), account_id, asked_at);
        Ok(())
    }

    /// Makes the recorded call, once.
    async fn allocate(&self, scope: &mut MachineScope, pool: Option<String>) -> Result<(), FlowError> {
        let (calls, uid, token) = (self.context.memory.elastic_ips(), scope.uid().to_owned(), token(scope));
        let Some(before) = calls.begin_call(&uid, &token, self.context.now(), &self.context.timing) else {
            let message = "EC2 is asked once the API server has confirmed the record of the Elastic IP";
            let waiting = READY.is_false(Reason::Creating, message);
            return Err(Blocked::new(waiting, Next::Requeue(Duration::ZERO)).into());
        };
        let call = ElasticIpCall::Allocate { pool, tags: self.tags.clone() };
        match self.location.session.cloud.change_elastic_ip(&scope.key(), &call).await {
            Ok(ElasticIpAnswer::Allocated { allocation_id, public_ip }) => {
                let message = format!("allocated Elastic IP {public_ip} ({allocation_id})");
                self.store_address(scope, allocation_id, public_ip).await?;
                let event = EventDraft::normal("SuccessfulAllocateAddress", message);
                scope.events.push(event.recorded());
                Ok(())
            }
            Ok(ElasticIpAnswer::Done) => Err(self.unconfirmed().into()),
            Err(error) => {
                let now = self.context.kubernetes.uptime();
                let progress = calls.call_failed(&uid, &token, before, error.class, now);
                let record = scope.status.elastic_ip.as_mut();
                if let Some(record) = record.filter(|_| progress == Progress::Refused) {
                    record.phase = Some(ElasticIpPhase::Refused);
                }
                let message = format!("no Elastic IP is allocated for instance {}: {error}", self.instance.id);
                Err(Blocked::by_call(READY, message, &error).into())
            }
        }
    }

    async fn store_address(&self, scope: &mut MachineScope, id: String, public_ip: String) -> Result<(), FlowError> {
        scope.status.elastic_ip = Some(Box::new(ElasticIp {
            allocation_id: Some(id),
            public_ip: Some(public_ip),
            phase: Some(ElasticIpPhase::Allocated),
            requested_at: Some(Time(self.context.now().time)),
            ..ElasticIp::default()
        }));
        write::store(scope, self.context).await?;
        self.context.memory.elastic_ips().forget(scope.uid());
        Ok(())
    }

    /// Gives the instance the recorded address.
    async fn associate(&self, scope: &mut MachineScope) -> Result<(), Blocked> {
        let Some(record) = scope.status.elastic_ip.clone() else {
            return Ok(());
        };
        let (Some(id), Some(public_ip)) = (&record.allocation_id, &record.public_ip) else {
            return Ok(());
        };
        let Some(interface) = &self.instance.primary_interface else {
            return Err(self.await_running());
        };
        self.refuse_to_displace(public_ip, &interface.id).await?;
        let call = ElasticIpCall::Associate { allocation_id: id.clone(), interface_id: interface.id.clone() };
        if let Err(error) = self.location.session.cloud.change_elastic_ip(&scope.key(), &call).await {
            let is_young = self.context.may_be_hidden(record.requested_at.as_ref());
            if error.is_of_missing_address() && !is_young {
                return Err(self.released_by_hand(scope, id));
            }
            return Err(self.not_associated(id, public_ip, &error));
        }
        let message = format!("associated Elastic IP {public_ip} ({id}) with instance {}", self.instance.id);
        scope.events.push(EventDraft::normal("SuccessfulAssociateAddress", message));
        self.associated(scope);
        Ok(())
    }

    /// Refuses to replace an Elastic IP that somebody else has associated, because EC2 would disassociate it from the
    /// interface: <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AssociateAddress.html>. The public
    /// address that a subnet assigns to its instances is not an Elastic IP, and is replaced. The last listing of the
    /// instance may be older than the association, so AWS is asked.
    async fn refuse_to_displace(&self, public_ip: &str, interface_id: &str) -> Result<(), Blocked> {
        let found = self.look_up(&Query::filter("network-interface-id", [interface_id])).await?;
        let Some(other) =
            found.into_iter().find(|found| found.association_id.is_some() && found.public_ip != public_ip)
        else {
            return Ok(());
        };
        let message = format!(
            "instance {} has Elastic IP {} ({}) of somebody else, which {public_ip} would take the place of; \
             disassociate it, or remove spec.elasticIpPool from the template and replace the Machine",
            self.instance.id, other.public_ip, other.allocation_id
        );
        let displaced = READY.is_false(Reason::Conflict, message);
        Err(Blocked::new(displaced, Next::Requeue(self.context.timing.refusal_retry_cap)))
    }

    fn associated(&self, scope: &mut MachineScope) {
        if let Some(record) = &mut scope.status.elastic_ip {
            record.phase = Some(ElasticIpPhase::Associated);
            record.associated_at = Some(Time(self.context.now().time));
        }
    }

    /// Looks up an address that the instance no longer shows, and associates it again if it is free.
    async fn verify(&self, scope: &mut MachineScope, id: &str) -> Result<(), FlowError> {
        let found = self.look_up(&Query::filter("allocation-id", [id])).await?;
        match found.into_iter().find(|address| address.allocation_id == id) {
            None => Err(self.released_by_hand(scope, id).into()),
            Some(address) if address.instance_id.as_deref() == Some(&self.instance.id) => {
                self.associated(scope);
                Ok(())
            }
            Some(address) if address.association_id.is_none() => Ok(self.associate(scope).await?),
            Some(address) => {
                let message = format!(
                    "Elastic IP {} ({id}) is that of another {}: it is not taken from there; disassociate it, or \
                     replace the Machine",
                    address.public_ip,
                    address
                        .instance_id
                        .map_or_else(|| "network interface".to_owned(), |holder| format!("instance, {holder}")),
                );
                let taken = READY.is_false(Reason::Conflict, message);
                Err(Blocked::new(taken, Next::Requeue(self.context.timing.refusal_retry_cap)).into())
            }
        }
    }

    fn not_associated(&self, id: &str, public_ip: &str, error: &CloudError) -> Blocked {
        let instance = &self.instance.id;
        let message = format!("Elastic IP {public_ip} ({id}) cannot be associated with instance {instance}: {error}");
        if error.is_of_existing_part() {
            return Blocked::by_error(READY.is_false(Reason::Conflict, message), error);
        }
        Blocked::by_call(READY, message, error)
    }

    /// EC2 may show an address again that it does not show now, so another one is allocated only once the absence is
    /// proven.
    fn released_by_hand(&self, scope: &mut MachineScope, id: &str) -> Blocked {
        scope.status.elastic_ip = Some(Box::new(in_doubt(self.context)));
        let message = format!("Elastic IP {id} no longer shows: another one is allocated once its absence is proven");
        let interval = self.context.timing.absence_interval();
        Blocked::new(READY.is_false(Reason::NotFound, message), Next::Requeue(interval))
    }

    fn await_running(&self) -> Blocked {
        let message = format!("instance {} gets its Elastic IP once it runs", self.instance.id);
        Blocked::new(READY.is_false(Reason::WaitingForRunning, message), Next::AwaitChange)
    }

    fn unconfirmed(&self) -> Blocked {
        let message = "EC2 did not answer a request for an Elastic IP, or the status that recorded it was lost, and no \
                       address shows: it is looked up, and no other one is allocated before its absence is proven";
        let unconfirmed = READY.is_false(Reason::LaunchUnconfirmed, message);
        let interval = self.context.timing.absence_interval();
        Blocked::new(unconfirmed, Next::Requeue(interval))
    }
}

/// The key of the recorded call in the memory of this process; empty without a record.
pub(super) fn token(scope: &MachineScope) -> String {
    let record = scope.status.elastic_ip.as_ref();
    let requested_at = record.and_then(|record| record.requested_at.as_ref());
    // The API server stores whole seconds.
    requested_at.map(|at| at.0.as_second().to_string()).unwrap_or_default()
}
