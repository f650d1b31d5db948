//! The bootstrap data of a machine: read from its Secret, and sent as user data. Each attempt of a launch has its own
//! presigned URL, but a repeated call must have the URL of the first call. Data that AWS keeps, in a
//! service for secrets or in the cluster's bucket, is recorded and stored before the launch, and deleted as soon as
//! nobody needs it any longer.

use std::time::Duration;

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::contract::Machine;
use capa_api::network::NetworkBootstrapBucket;
use capa_cloud::{CloudError, ErrorClass, Instance, StoredSecret, UserData};
use capa_runtime::reconcile::{EventDraft, Next};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::MachineContext;
use super::deletion::plan::DependentResource;
use super::inputs::location::{self, InstanceLocation};
use super::ownership::uid_in;
use super::scope::{FlowError, MachineScope};
use crate::blocked::{Blocked, earlier};
use crate::call_fingerprint::CallFingerprint;
use crate::launching::bootstrap::{self, BootstrapData, Format};
use crate::launching::lost::{self, LostMachine};
use crate::launching::presigning::Presigning;
use crate::launching::storage::LaunchSecrets;
use crate::launching::stored_bootstrap_data::StoredBootstrapData;
use crate::launching::{bootstrap_secret, objects};
use crate::retry;
use crate::time::remaining;

/// The bootstrap data of the machine, from its bootstrap Secret, with its format.
pub(super) async fn read(
    scope: &MachineScope,
    owner: &Machine,
    context: &MachineContext,
) -> Result<(BootstrapData, Option<Format>), FlowError> {
    let Some(name) = owner.bootstrap_secret_name() else {
        let message = "the Machine names no bootstrap Secret yet (spec.bootstrap.dataSecretName)";
        let waiting = ConditionType::BootstrapDataReady.is_false(Reason::WaitingForBootstrapData, message);
        return Err(Blocked::new(waiting, Next::AwaitChange).into());
    };
    bootstrap_secret::validate_name(name).map_err(|update| Blocked::new(update, Next::AwaitChange))?;
    // The controller watches the Machine, but not its Secret.
    let unusable = |update| Blocked::new(update, Next::Retry);
    let secret = context.kubernetes.secret(scope.namespace(), name).await;
    let secret = secret.map_err(|error| {
        let message = format!("Secret {}/{name} cannot be read: {}", scope.namespace(), error.answer());
        unusable(ConditionType::BootstrapDataReady.is_false(Reason::Failed, message))
    })?;
    if let Some(secret) = &secret {
        bootstrap_secret::validate(secret, owner.spec.bootstrap.config_ref.as_ref()).map_err(unusable)?;
    }
    let spec = &scope.machine.spec;
    let data = bootstrap::bootstrap_data(spec, secret.as_ref(), name).map_err(unusable)?;
    Ok((data, secret.and_then(|secret| bootstrap::format_of(spec, &secret))))
}

/// The format of the machine's bootstrap data; `None` if its Secret is gone, or cannot be read.
pub(super) async fn format(scope: &MachineScope, context: &MachineContext) -> Option<Format> {
    let owner = scope.owners.machine.as_ref().ok()?;
    let name = owner.bootstrap_secret_name()?;
    bootstrap_secret::validate_name(name).ok()?;
    let secret = context.kubernetes.secret(scope.namespace(), name).await.ok()??;
    bootstrap_secret::validate(&secret, owner.spec.bootstrap.config_ref.as_ref()).ok()?;
    bootstrap::format_of(&scope.machine.spec, &secret)
}

/// The user data of the attempts of one launch.
pub(super) struct LaunchUserData {
    of_new: UserData,
    /// The user data of the recorded attempt, if that has a URL of its own.
    of_recorded: Option<UserData>,
    valid_from: Option<Time>,
}

impl LaunchUserData {
    /// Signs the URLs that the attempts need. `user_data` has none.
    pub(super) async fn new(
        scope: &MachineScope,
        user_data: UserData,
        secrets: Option<&LaunchSecrets>,
        location: &InstanceLocation,
        context: &MachineContext,
    ) -> Result<Self, Blocked> {
        let presigning = secrets.and_then(|secrets| secrets.presigning.as_ref());
        let Some(presigning) = presigning else {
            return Ok(Self { of_new: user_data, of_recorded: None, valid_from: None });
        };
        let now = whole_seconds(context.kubernetes.now());
        let of_recorded = match presigned_at(scope).filter(|from| presigning.is_valid(*from, now)) {
            Some(valid_from) => Some(sign(presigning, valid_from, location).await?),
            None => None,
        };
        Ok(Self { of_new: sign(presigning, now, location).await?, of_recorded, valid_from: Some(Time(now)) })
    }

    /// The user data of another attempt.
    pub(super) fn of_new(&self) -> &UserData {
        &self.of_new
    }

    /// The user data of the recorded attempt, as it would be sent now. A URL that is no longer valid is not sent again:
    /// the provider looks up the instance of the attempt, as if the parameters had changed.
    pub(super) fn of_recorded(&self) -> &UserData {
        self.of_recorded.as_ref().unwrap_or(&self.of_new)
    }

    /// The time from which the URL of another attempt is valid, for its record. Absent without a URL.
    pub(super) fn valid_from(&self) -> Option<Time> {
        self.valid_from.clone()
    }
}

/// The time from which the URL of the recorded attempt is valid.
fn presigned_at(scope: &MachineScope) -> Option<Timestamp> {
    let object = scope.status.bootstrap_object.as_ref();
    let object = object.filter(|_| scope.status.has_open_attempt())?;
    object.presigned_at.as_ref().map(|time| time.0)
}

async fn sign(
    presigning: &Presigning,
    valid_from: Timestamp,
    location: &InstanceLocation,
) -> Result<UserData, Blocked> {
    let request = presigning.request(valid_from);
    let signed = location.session.cloud.presign(&request).await;
    let url = signed.map_err(|error| not_signed(&error))?;
    let user_data = presigning.user_data(&url);
    objects::check_size(&user_data).map_err(|refused| Blocked::new(refused, Next::AwaitChange))?;
    Ok(user_data)
}

fn not_signed(error: &CloudError) -> Blocked {
    let message = format!("the URL of the bootstrap data cannot be signed: {error}");
    Blocked::by_call(ConditionType::BootstrapDataReady, message, error)
}

/// The time in whole seconds, as in signatures and records.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What is deleted here.
const DATA: DependentResource = DependentResource { removal: "bootstrap data is deleted", left: "the data" };

/// The reason why data is not deleted at once.
const UNANSWERED: &str = "a call to store it got no answer, and may store it up to five minutes later";

/// Why data that AWS keeps is left there.
#[derive(Clone, Copy)]
enum Left {
    /// The credentials belong to another account by now.
    Elsewhere,
    /// AWS does not allow the deletion, and the network says that the deletion need not succeed.
    NotAllowed,
    /// AWS does not allow the deletion, and the network names another place by now.
    Replaced,
    /// The data cannot be deleted, and was never stored.
    NeverStored,
}

/// Stores the bootstrap data of a launch, unless this process has stored it already. The status records the data
/// before.
pub(super) async fn store(
    scope: &MachineScope,
    launch_secrets: &LaunchSecrets,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), Blocked> {
    let data = inputs_of(launch_secrets, location);
    // If a part waits for its turn, the next pass continues with that part.
    let known = context.memory.stored_parts(scope.uid(), data);
    for (part, secret) in launch_secrets.parts.iter().enumerate().skip(known.unwrap_or_default()) {
        // The pass may be cancelled while the call is under way.
        context.memory.forget_stored(scope.uid());
        if let Err(error) = location.session.cloud.store_secret(&scope.key(), secret).await {
            let had_no_effect = error.is_denial() || error.retry_after.is_some();
            if had_no_effect && (part > 0 || known.is_some()) {
                context.memory.stored(scope.uid(), data, part);
            }
            return Err(not_stored(scope, secret, &error, context));
        }
        context.memory.stored(scope.uid(), data, part + 1);
    }
    Ok(())
}

/// Whether the status records data in the store of this launch.
pub(super) fn is_recorded(scope: &MachineScope, launch_secrets: &LaunchSecrets) -> bool {
    launch_secrets.record.recorded_like(&scope.status).is_some()
}

/// Remembers that no part of the bootstrap data is stored, because its record is new.
pub(super) fn nothing_is_stored(
    scope: &MachineScope,
    launch_secrets: &LaunchSecrets,
    location: &InstanceLocation,
    context: &MachineContext,
) {
    context.memory.stored(scope.uid(), inputs_of(launch_secrets, location), 0);
}

/// The fingerprint of the bootstrap data of a launch. The user data contains the digest and the location of the data.
fn inputs_of(launch_secrets: &LaunchSecrets, location: &InstanceLocation) -> CallFingerprint {
    CallFingerprint::of(&"bootstrap data", &(&location.session.account_id, launch_secrets.user_data.expose()))
}

fn not_stored(scope: &MachineScope, secret: &StoredSecret, error: &CloudError, context: &MachineContext) -> Blocked {
    if error.class == ErrorClass::NoAnswer {
        let now = context.kubernetes.uptime();
        context.memory.store_unanswered(scope.uid(), now);
    }
    let message = format!(
        "the bootstrap data cannot be stored as {} in {}, and nothing is launched without it: {error}",
        secret.name, secret.store
    );
    Blocked::by_call(ConditionType::BootstrapDataReady, message, error)
}

/// The time for which a call without an answer may still store data. Data that is deleted earlier could be stored
/// again, and no record would name it.
fn may_be_stored_for(scope: &MachineScope, context: &MachineContext) -> Duration {
    let unanswered = context.memory.unanswered_store(scope.uid());
    unanswered
        .map_or(Duration::ZERO, |at| (at + context.timing.visibility_age).saturating_sub(context.kubernetes.uptime()))
}

/// Waits until no call without an answer can store data any longer.
fn await_stored(scope: &MachineScope, waiting: ConditionUpdate, context: &MachineContext) -> Result<(), Blocked> {
    let left = may_be_stored_for(scope, context);
    if left.is_zero() {
        return Ok(());
    }
    Err(Blocked::new(waiting, Next::Requeue(left)))
}

/// Deletes the data of a machine that has become a node, whose instance has ended, or whose instance is so old that it
/// will not fetch the data any longer. Nothing waits for the deletion: a condition shows a failure, and the next pass
/// tries again. `instance` is absent if AWS does not show the instance any longer.
pub(super) async fn delete_unneeded(
    scope: &mut MachineScope,
    instance: Option<&Instance>,
    location: &InstanceLocation,
    context: &MachineContext,
) {
    let all = StoredBootstrapData::all(&scope.status);
    if all.is_empty() {
        return;
    }
    let left = needed_for(scope, instance, context).max(may_be_stored_for(scope, context));
    if !left.is_zero() {
        scope.next = earlier(scope.next, Next::Requeue(left));
        return;
    }
    for kept in all {
        let Err(error) = delete(scope, &kept, location, context).await else { continue };
        scope.next = earlier(scope.next, retry::after(&error));
        // Nobody needs to see that the call waits for its turn in the request rates.
        if error.retry_after.is_none() {
            let mut shown = ConditionType::BootstrapDataReady.is_true(Reason::Ready);
            shown.message = not_deleted(&kept, &error);
            scope.set_condition(shown);
        }
    }
}

/// The time for which the data may still be needed.
fn needed_for(scope: &MachineScope, instance: Option<&Instance>, context: &MachineContext) -> Duration {
    let has_joined = scope.owners.machine.as_ref().is_ok_and(|owner| owner.has_joined());
    let living = instance.filter(|instance| !instance.state.has_ended() && !has_joined);
    let launched = living.and_then(|instance| instance.launch_time);
    match (living, launched) {
        (None, _) => Duration::ZERO,
        (Some(_), Some(launched)) => remaining(context.timing.bootstrap_data_age, launched, context.kubernetes.now()),
        (Some(_), None) => context.timing.bootstrap_data_age,
    }
}

/// Deletes the data of a machine that is being deleted, and whose instance is gone. The status may have been lost, and
/// with it the record.
pub(super) async fn delete_all(scope: &mut MachineScope, context: &MachineContext) -> Result<(), FlowError> {
    let all = recorded_or_assumed(scope, context).await;
    for kept in all.map_err(|error| DATA.awaits_location(scope, error))? {
        let message =
            format!("the AWSMachine is released once its bootstrap data {} is deleted: {UNANSWERED}", kept.shown());
        let waiting = ConditionType::InstanceReady.is_false(Reason::DeletionBlocked, message);
        await_stored(scope, waiting, context)?;
        let location = match location::of_kept(scope, &kept, context).await {
            Err(FlowError::Blocked(_)) if context.memory.has_stored_nothing(scope.uid()) => {
                report_left(scope, &kept, Left::NeverStored);
                kept.forget(&mut scope.status);
                continue;
            }
            location => location.map_err(|error| DATA.awaits_location(scope, error))?,
        };
        delete(scope, &kept, &location, context).await.map_err(|error| {
            let message = DATA.awaited(scope, &not_deleted(&kept, &error));
            Blocked::by_call(ConditionType::InstanceReady, message, &error)
        })?;
    }
    Ok(())
}

/// The format of the bootstrap data of a machine whose record of the data is lost, and the bucket that may contain the
/// data.
pub(super) async fn format_and_bucket(
    scope: &MachineScope,
    context: &MachineContext,
) -> Result<(Option<Format>, Option<NetworkBootstrapBucket>), FlowError> {
    let format = format(scope, context).await;
    let bucket = if lost::may_be_in_bucket(&scope.machine.spec, format) {
        location::bootstrap_bucket(scope, context).await?
    } else {
        None
    };
    Ok((format, bucket))
}

/// The recorded data, or what a machine without a readable launch record may have.
async fn recorded_or_assumed(
    scope: &MachineScope,
    context: &MachineContext,
) -> Result<Vec<StoredBootstrapData>, FlowError> {
    let recorded = StoredBootstrapData::all(&scope.status);
    if !recorded.is_empty() || !scope.has_lost_record() {
        return Ok(recorded);
    }
    let (format, bucket) = format_and_bucket(scope, context).await?;
    Ok(assumed(scope, scope.uid(), format, bucket.as_ref()))
}

/// The data that a machine may have under this UID.
fn assumed(
    scope: &MachineScope,
    uid: &str,
    format: Option<Format>,
    bucket: Option<&NetworkBootstrapBucket>,
) -> Vec<StoredBootstrapData> {
    lost::assumed(&LostMachine {
        spec: &scope.machine.spec,
        uid,
        role: scope.owners.role(&scope.machine),
        format,
        bucket,
    })
}

/// Records the data that a machine may have if its status was lost and its instance was launched with this token. The
/// token contains the UID that the AWSMachine had at that time. The existence of a node proves nothing, because the
/// status may have been lost after the instance became a node and before the data was deleted.
pub(super) fn recover(
    scope: &mut MachineScope,
    client_token: &str,
    format: Option<Format>,
    bucket: Option<&NetworkBootstrapBucket>,
) {
    let Some(uid) = uid_in(client_token).filter(|_| StoredBootstrapData::all(&scope.status).is_empty()) else {
        return;
    };
    for kept in assumed(scope, uid, format, bucket) {
        kept.record(&mut scope.status);
    }
}

async fn delete(
    scope: &mut MachineScope,
    kept: &StoredBootstrapData,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), CloudError> {
    if is_elsewhere(kept, &location.session.account_id) {
        report_left(scope, kept, Left::Elsewhere);
        kept.forget(&mut scope.status);
        return Ok(());
    }
    let cloud = location.session.cloud.clone();
    match cloud.delete_secrets(&scope.key(), &kept.store(), &kept.names()).await {
        Ok(()) => {}
        Err(error) if error.is_denial() && need_not_succeed(scope, kept, context).await => {
            report_left(scope, kept, Left::NotAllowed);
            kept.forget(&mut scope.status);
            return Ok(());
        }
        Err(error) if error.is_denial() && context.memory.has_stored_nothing(scope.uid()) => {
            report_left(scope, kept, Left::NeverStored);
            kept.forget(&mut scope.status);
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    context.memory.forget_stored(scope.uid());
    if kept.forget(&mut scope.status) {
        let message = format!("deleted the bootstrap data {}", kept.shown());
        scope.events.push(EventDraft::normal(kept.deleted(), message));
    }
    Ok(())
}

/// Whether a machine gives up data whose deletion AWS does not allow: the bucket allowed that at the launch, or allows
/// it now.
async fn need_not_succeed(scope: &MachineScope, kept: &StoredBootstrapData, context: &MachineContext) -> bool {
    let StoredBootstrapData::Object(object) = kept else {
        return false;
    };
    if object.best_effort_delete {
        return true;
    }
    let bucket = location::bootstrap_bucket(scope, context).await.ok().flatten();
    bucket.is_some_and(|bucket| bucket.bucket == object.bucket && bucket.best_effort_delete_objects)
}

/// Records the data of a launch whose user data has a URL that is valid from `valid_from` on. The record also covers
/// data that earlier attempts have stored at the same location. Data that they have stored elsewhere is deleted.
pub(super) async fn record(
    scope: &mut MachineScope,
    launch_secrets: &LaunchSecrets,
    valid_from: Option<Time>,
    location: &InstanceLocation,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let mut record = launch_secrets.record.clone();
    match record.recorded_like(&scope.status) {
        Some(earlier) if is_elsewhere(&earlier, &location.session.account_id) => {
            report_left(scope, &earlier, Left::Elsewhere);
        }
        Some(earlier) if !record.takes_in(&earlier) => delete_earlier(scope, &earlier, context).await?,
        _ => {}
    }
    if let StoredBootstrapData::Object(object) = &mut record {
        object.presigned_at = valid_from;
    }
    record.record(&mut scope.status);
    Ok(())
}

/// Deletes data that an earlier attempt has stored at another location than the network names now. The user may have
/// changed the location because the identity has no permissions there.
async fn delete_earlier(
    scope: &mut MachineScope,
    kept: &StoredBootstrapData,
    context: &MachineContext,
) -> Result<(), FlowError> {
    let message = format!("the bootstrap data {} has to be deleted first: {UNANSWERED}", kept.shown());
    let waiting = ConditionType::BootstrapDataReady.is_false(Reason::Failed, message);
    await_stored(scope, waiting, context)?;
    let location = location::of_kept(scope, kept, context).await?;
    let cloud = location.session.cloud.clone();
    match cloud.delete_secrets(&scope.key(), &kept.store(), &kept.names()).await {
        Ok(()) => {}
        Err(error) if error.is_denial() => report_left(scope, kept, Left::Replaced),
        Err(error) => {
            let message = not_deleted(kept, &error);
            return Err(Blocked::by_call(ConditionType::BootstrapDataReady, message, &error).into());
        }
    }
    context.memory.forget_stored(scope.uid());
    Ok(())
}

/// Whether the data is in another account than that of the credentials.
fn is_elsewhere(kept: &StoredBootstrapData, account_id: &str) -> bool {
    kept.account_id().is_some_and(|recorded| recorded != account_id)
}

/// Publishes an event about data that is left. The machine does not wait for credentials of another account or for a
/// permission, because they may never come.
fn report_left(scope: &mut MachineScope, kept: &StoredBootstrapData, why: Left) {
    let (shown, account) = (kept.shown(), kept.account_id().unwrap_or_default());
    let message = match why {
        Left::Elsewhere => format!(
            "the bootstrap data {shown} of account {account} is left, because the credentials of the identity now \
             belong to another account: delete it there"
        ),
        Left::NotAllowed => format!(
            "the bootstrap data {shown} is left, because AWS does not allow its deletion and bestEffortDeleteObjects \
             is true: delete it, for example by a lifecycle rule"
        ),
        Left::Replaced => format!(
            "the bootstrap data {shown} is left, because AWS does not allow its deletion and the network names another \
             place by now: delete it if it is there"
        ),
        Left::NeverStored => format!(
            "the bootstrap data {shown} is not deleted, because its deletion is not possible; nothing was stored"
        ),
    };
    scope.events.push(EventDraft::warning("BootstrapDataAbandoned", message));
}

fn not_deleted(kept: &StoredBootstrapData, error: &CloudError) -> String {
    format!("the bootstrap data {} cannot be deleted: {error}", kept.shown())
}
