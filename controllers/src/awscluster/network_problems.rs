//! The problems of a declared network, collected so that the condition `NetworkReady` names all of them. Pure.

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::forms::IdKind;

/// Problems in the order found; the first gives the condition its reason.
#[derive(Default)]
pub(super) struct NetworkProblems(Vec<(Reason, String)>);

impl NetworkProblems {
    pub(super) fn add(&mut self, reason: Reason, message: String) {
        self.0.push((reason, message));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text can be an id of this kind; a problem with `path` where it cannot. One wrong id in
    /// `status.network` would have the API server refuse the whole status.
    pub(super) fn accepts_id(&mut self, path: &str, kind: IdKind, text: &str) -> bool {
        let accepted = kind.is_id(text);
        if !accepted {
            self.add(
                Reason::InvalidSpec,
                format!("{path}: {text} is no id of this kind: set it to {}", kind.form()),
            );
        }
        accepted
    }

    /// Problems with `path` for names that are no role of a security group: no machine gets the group.
    pub(super) fn refuse_unknown_roles<'a>(&mut self, path: &str, names: impl IntoIterator<Item = &'a String>) {
        let roles = SecurityGroupRole::ALL.map(SecurityGroupRole::as_str).join(", ");
        let is_unknown = |name: &&String| SecurityGroupRole::named(name).is_none();
        for name in names.into_iter().filter(is_unknown) {
            self.add(
                Reason::InvalidSpec,
                format!("{path}: {name} is no role: use one of {roles}"),
            );
        }
    }

    /// `NetworkReady` that names all of them; `None` where there is none.
    pub(super) fn condition(&self) -> Option<ConditionUpdate> {
        let (reason, _) = self.0.first()?;
        let messages: Vec<&str> = self.0.iter().map(|(_, message)| message.as_str()).collect();
        Some(ConditionType::NetworkReady.is_false(*reason, messages.join("; ")))
    }
}
