//! Bootstrap data in the form in which it is stored in AWS before a launch. Pure.

use std::collections::BTreeMap;

use capa_api::common::IdentityReference;
use capa_api::machine::AWSMachineSpec;
use capa_api::meta;
use capa_cloud::{StoredSecret, UserData};

use super::presigning::Presigning;
use super::stored_bootstrap_data::StoredBootstrapData;

/// The machine whose bootstrap data is stored.
pub(crate) struct StorageRequest<'a> {
    pub(crate) spec: &'a AWSMachineSpec,
    /// UID of the AWSMachine.
    pub(crate) uid: &'a str,
    /// Name of the AWSMachine.
    pub(crate) name: &'a str,
    pub(crate) region: &'a str,
    /// The account of the credentials.
    pub(crate) account_id: &'a str,
    pub(crate) identity_ref: &'a IdentityReference,
    /// Name of the cluster in tags.
    pub(crate) cluster_tag: &'a str,
    /// The bootstrap data.
    pub(crate) data: &'a [u8],
}

impl StorageRequest<'_> {
    /// The tags of the stored data.
    pub(crate) fn tags(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (meta::NAME_TAG.to_owned(), self.name.to_owned()),
            (meta::kubernetes_cluster_tag(self.cluster_tag), meta::OWNED_TAG_VALUE.to_owned()),
        ])
    }
}

/// The bootstrap data of a launch as AWS keeps it, and the user data that fetches it.
pub(crate) struct LaunchSecrets {
    /// The record in the status of the AWSMachine.
    pub(crate) record: StoredBootstrapData,
    pub(crate) parts: Vec<StoredSecret>,
    /// Equal bootstrap data has equal user data.
    pub(crate) user_data: UserData,
    /// The user data that replaces `user_data` if each attempt has another URL.
    pub(crate) presigning: Option<Presigning>,
}
