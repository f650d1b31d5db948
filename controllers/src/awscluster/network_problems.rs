//! Collects the problems of a declared network, so that the condition `NetworkReady` names all of them. Pure.

use capa_api::cluster::security_group::SecurityGroupRole;
use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};

/// Problems in the order of their discovery. The first problem determines the reason of the condition.
#[derive(Default)]
pub(super) struct NetworkProblems(Vec<(Reason, String)>);

impl NetworkProblems {
    pub(super) fn add(&mut self, reason: Reason, message: String) {
        self.0.push((reason, message));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text can be published as an id of this kind. If not, the function adds a problem with `path`.
    pub(super) fn accepts_id(&mut self, path: &str, prefix: &str, text: &str) -> bool {
        let accepted = is_aws_id(prefix, text);
        if !accepted {
            self.add(
                Reason::InvalidSpec,
                format!("{path}: {text} is no id of this kind: set it to {prefix} and at least 8 digits of 0-9a-f"),
            );
        }
        accepted
    }

    /// Adds problems with `path` for names that are not roles of security groups, because no machine gets these groups.
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

    /// `NetworkReady` with all problems; `None` without problems.
    pub(super) fn condition(&self) -> Option<ConditionUpdate> {
        let (reason, _) = self.0.first()?;
        let messages: Vec<&str> = self.0.iter().map(|(_, message)| message.as_str()).collect();
        Some(ConditionType::NetworkReady.is_false(*reason, messages.join("; ")))
    }
}

/// Whether the schema of `status.network` accepts the text. The API server would refuse the whole status because of one
/// invalid id.
fn is_aws_id(prefix: &str, text: &str) -> bool {
    text.len() <= 64
        && text.strip_prefix(prefix).is_some_and(|digits| {
            digits.len() >= 8
                && digits
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_prefix_and_lower_case_hexadecimal_digits() {
        for id in ["subnet-0000000a", "subnet-0123456789abcdef0"] {
            assert!(is_aws_id("subnet-", id), "{id}");
        }
        let too_long = format!("subnet-{}", "a".repeat(64));
        for text in [
            "",
            "subnet-",
            "subnet-foo",
            "subnet-0000000",
            "subnet-0000000A",
            "vpc-0000000a",
            &too_long,
        ] {
            assert!(!is_aws_id("subnet-", text), "{text}");
        }
    }
}
