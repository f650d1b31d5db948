//! The client tokens of this provider's calls: the UID of the AWSMachine and the number of the attempt. Pure.

use std::num::NonZeroU32;

use capa_api::machine::AWSMachine;

/// The client token of an attempt to launch.
pub(super) fn launch_token(uid: &str, number: NonZeroU32) -> String {
    format!("{uid}-{number}")
}

/// The key of the search for the instance of a machine without a readable attempt: no attempt has the number 0.
pub(super) fn search_token(machine: &AWSMachine) -> String {
    format!("{}-0", machine.metadata.uid.as_deref().unwrap_or_default())
}

/// The number of the attempt in a client token of the AWSMachine with this UID. `None` for any other token.
pub(super) fn attempt_number(client_token: &str, uid: &str) -> Option<u32> {
    let number = client_token.strip_prefix(uid).filter(|_| !uid.is_empty())?;
    let number: i32 = number.strip_prefix('-')?.parse().ok()?;
    u32::try_from(number).ok()
}

/// The UID in the client token of an instance.
pub(super) fn uid_in(client_token: &str) -> Option<&str> {
    client_token.rsplit_once('-').map(|(uid, _)| uid)
}

/// Between the UID and the number in the client token of a host.
const HOST: &str = "-host-";

/// The client token of an allocation.
pub(super) fn host_token(uid: &str, number: NonZeroU32) -> String {
    format!("{uid}{HOST}{number}")
}

/// The number of the allocation with this client token, if an AWSMachine with that UID has made it.
pub(super) fn host_number(token: &str, uid: &str) -> Option<u32> {
    let number = token.strip_prefix(uid)?.strip_prefix(HOST)?;
    number.parse().ok().filter(|_| !uid.is_empty())
}

/// The number in the client token of a host.
pub(super) fn number_in(token: &str) -> Option<u32> {
    token.rsplit_once(HOST)?.1.parse().ok()
}
