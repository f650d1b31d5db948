//! Collects the problems of a declared network, so that the condition `NetworkReady` names all of them. Pure.

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::forms::IdKind;

/// The machines that cannot be launched until a problem is fixed, whatever their own specs name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Blocked {
    /// Control plane machines.
    ControlPlane,
    /// All machines.
    All,
}

/// Problems in the order of their discovery. The first problem determines the reason of the condition.
#[derive(Default)]
pub(super) struct NetworkProblems {
    found: Vec<(Reason, String)>,
    blocked: Option<Blocked>,
}

impl NetworkProblems {
    /// Adds a problem with a part of the network. Machines can be launched if another part takes its place.
    pub(super) fn add(&mut self, reason: Reason, message: String) {
        self.found.push((reason, message));
    }

    /// Adds a problem that keeps machines from being launched.
    pub(super) fn add_blocking(&mut self, blocked: Blocked, reason: Reason, message: String) {
        self.add_for(Some(blocked), reason, message);
    }

    /// Adds a problem that keeps these machines from being launched, if any.
    pub(super) fn add_for(&mut self, blocked: Option<Blocked>, reason: Reason, message: String) {
        self.add(reason, message);
        self.blocked = self.blocked.max(blocked);
    }

    /// The machines that the problems keep from being launched.
    pub(super) fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// Whether the text can be an id of this kind. If not, the function adds a problem with `path`: the API server
    /// would refuse the whole status because of one invalid id in `status.network`.
    pub(super) fn accepts_id(&mut self, path: &str, kind: IdKind, text: &str) -> bool {
        let accepted = kind.is_id(text);
        if !accepted {
            self.add(Reason::InvalidSpec, format!("{path}: {text} is no id of this kind: set it to {}", kind.form()));
        }
        accepted
    }

    /// Adds problems with `path` for names that are not roles of security groups, because no machine gets these groups.
    /// Roles that no machine has are accepted, because CAPA's objects contain them, but messages do not suggest them.
    pub(super) fn refuse_unknown_roles<'a>(&mut self, path: &str, names: impl IntoIterator<Item = &'a String>) {
        let of_machines = SecurityGroupRole::ALL.into_iter().filter(|role| role.concerns_machines());
        let roles: Vec<&str> = of_machines.map(SecurityGroupRole::as_str).collect();
        let is_unknown = |name: &&String| SecurityGroupRole::named(name).is_none();
        for name in names.into_iter().filter(is_unknown) {
            self.add(Reason::InvalidSpec, format!("{path}: {name} is no role: use one of {}", roles.join(", ")));
        }
    }

    /// `NetworkReady` with all problems; `None` without problems.
    pub(super) fn condition(&self) -> Option<ConditionUpdate> {
        let (reason, _) = self.found.first()?;
        let messages: Vec<&str> = self.found.iter().map(|(_, message)| message.as_str()).collect();
        Some(ConditionType::NetworkReady.is_false(*reason, messages.join("; ")))
    }
}
