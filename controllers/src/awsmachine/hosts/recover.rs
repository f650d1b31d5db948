//! Recovers the record of a Dedicated Host whose record was lost, from the instance on it.

use capa_api::conditions::ConditionType;
use capa_cloud::Instance;

use super::ownership::{host_query, hosts_since, uid_in};
use super::record::existing;
use crate::awsmachine::blocked::Blocked;
use crate::awsmachine::locate::InstanceLocation;
use crate::awsmachine::scope::MachineScope;

/// Records the host of a machine whose launch is not recorded, as after a move. The client token of its instance proves
/// whose the host is, as long as EC2 shows the instance.
///
/// # Errors
/// The hosts cannot be looked up.
pub(in crate::awsmachine) async fn recover(
    scope: &mut MachineScope,
    instance: &Instance,
    location: &InstanceLocation,
) -> Result<(), Blocked> {
    let has_lost = scope.machine.spec.dynamic_host_allocation.is_some() && scope.status.dedicated_host.is_none();
    let uid = instance.client_token.as_deref().and_then(uid_in);
    // Those of the present UID need no record.
    let Some(uid) = uid.filter(|uid| has_lost && *uid != scope.uid()) else {
        return Ok(());
    };
    let listed = location.cloud.hosts(&host_query()).await.map_err(|error| {
        let message = format!(
            "the Dedicated Host of instance {} cannot be looked up in {}: {error}",
            instance.id, location.region
        );
        Blocked::by_call(ConditionType::InstanceReady, message, &error)
    })?;
    if let Some(host) = hosts_since(scope, Some(uid), listed).into_iter().next() {
        scope.status.dedicated_host = Some(Box::new(existing(host, location)));
    }
    Ok(())
}
