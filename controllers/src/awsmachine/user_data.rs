//! The bootstrap data of a machine, and the user data of the attempts of one launch. Each attempt has another presigned
//! URL, and a repeated call must have the URL of the first call.

use capa_api::conditions::{ConditionType, Reason};
use capa_api::contract::Machine;
use capa_cloud::{CloudError, UserData};
use capa_runtime::reconcile::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::MachineContext;
use super::inputs::location::InstanceLocation;
use super::scope::{Blocked, FlowError, MachineScope};
use crate::launching::bootstrap::{self, BootstrapData, Format};
use crate::launching::presigning::Presigning;
use crate::launching::storage::LaunchSecrets;
use crate::launching::{bootstrap_secret, objects};

/// The bootstrap data of the machine, from its bootstrap Secret, with its format.
pub(super) async fn bootstrap_data(
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
pub(super) async fn bootstrap_format(scope: &MachineScope, context: &MachineContext) -> Option<Format> {
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
        let of_recorded = match recorded(scope).filter(|from| presigning.is_valid(*from, now)) {
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
fn recorded(scope: &MachineScope) -> Option<Timestamp> {
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
    let signed = location.cloud.presign(&request).await;
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
