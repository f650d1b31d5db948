//! The journal of all AWS calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::request::Request;

/// One call, recorded when its answer is known: before a fault holds the answer back.
#[derive(Clone, Debug)]
pub struct Call {
    /// The time at which the request had been read.
    pub at: Timestamp,
    /// The time until the answer was known.
    pub took: Duration,
    /// The service of the credential scope: `ec2`, `sts`…
    pub service: String,
    /// The region of the credential scope.
    pub region: String,
    /// The account of the key; `None` for a key of no account.
    pub account: Option<String>,
    /// The key that signed the call.
    pub access_key_id: String,
    /// The role and the session of a key from AssumeRole.
    pub role: Option<AssumedRole>,
    /// Whether a check of infrastructure made the call, by the user agent.
    pub is_check: bool,
    /// Whether somebody used a URL that the key had signed.
    pub by_url: bool,
    /// The action, e.g. `RunInstances`; empty where the request could not be read.
    pub action: String,
    /// The decoded form without `Action` and `Version`; user data and secrets are replaced by their size and hash (see
    /// [`digest`]).
    pub parameters: BTreeMap<String, String>,
    /// The HTTP status of the answer, even if the answer was lost; 0 where the request was lost.
    pub status: u16,
    /// AWS's error code, where the call failed.
    pub error: Option<String>,
    /// The instances in the answer of RunInstances, TerminateInstances, StopInstances and StartInstances.
    pub instance_ids: Vec<String>,
    /// Whether the answer is an earlier one, repeated for its ClientToken, so that nothing was launched.
    pub replayed: bool,
    /// Whether the request reached AWS, and the answer the caller.
    pub fate: Fate,
}

/// How far a call and its answer were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request and the answer were delivered.
    Answered,
    /// The request never reached AWS and had no effect.
    RequestLost,
    /// The request had its effect, and the answer did not reach the caller.
    AnswerLost,
}

/// An unredacted RunInstances request, user data included, for tests that search other places for its content.
#[derive(Clone)]
pub struct RawLaunch {
    /// The body of the request.
    pub body: Vec<u8>,
    /// The user data of the request, decoded from base64.
    pub user_data: Vec<u8>,
}

impl RawLaunch {
    pub(super) fn new(request: &Request, body: &[u8]) -> Self {
        let user_data = request.parameter("UserData").unwrap_or_default();
        Self { body: body.to_vec(), user_data: BASE64_STANDARD.decode(user_data).unwrap_or_default() }
    }
}

impl fmt::Debug for RawLaunch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RawLaunch").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// The role that a temporary key stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedRole {
    /// ARN of the role.
    pub arn: String,
    /// The requested session name.
    pub session_name: String,
}

/// A position in the journal, for a later query of the calls after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub(super) usize);

impl Call {
    /// Whether the action may change something: every action but `Describe*`, `Get*`, `Head*`, `List*` and
    /// `AssumeRole*`.
    pub fn is_mutating(&self) -> bool {
        !["Describe", "Get", "Head", "List", "AssumeRole"].iter().any(|prefix| self.action.starts_with(prefix))
    }

    /// A parameter of the call; `None` where the call does not have it.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The values of a numbered list, e.g. `values("InstanceId")` for `InstanceId.1`, `InstanceId.2`…
    pub fn values(&self, list: &str) -> Vec<&str> {
        (1..).map_while(|number| self.parameter(&format!("{list}.{number}"))).collect()
    }

    /// The tags of `TagSpecification`s for one resource type.
    pub fn tags(&self, resource_type: &str) -> BTreeMap<&str, &str> {
        let mut tags = BTreeMap::new();
        for specification in (1..).map(|number| format!("TagSpecification.{number}")) {
            let Some(found) = self.parameter(&format!("{specification}.ResourceType")) else {
                break;
            };
            if found != resource_type {
                continue;
            }
            for tag in (1..).map(|number| format!("{specification}.Tag.{number}")) {
                let Some(key) = self.parameter(&format!("{tag}.Key")) else {
                    break;
                };
                tags.insert(key, self.parameter(&format!("{tag}.Value")).unwrap_or_default());
            }
        }
        tags
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, service, region, action, status, .. } = self;
        write!(formatter, "{at} {service} {region} {} {action} -> {status}", self.access_key_id)?;
        if let Some(error) = &self.error {
            write!(formatter, " {error}")?;
        }
        if self.replayed {
            write!(formatter, " (replayed)")?;
        }
        match self.fate {
            Fate::Answered => {}
            Fate::RequestLost => write!(formatter, " (request lost)")?,
            Fate::AnswerLost => write!(formatter, " (answer lost)")?,
        }
        for (key, value) in &self.parameters {
            write!(formatter, " {key}={value}")?;
        }
        if !self.instance_ids.is_empty() {
            write!(formatter, " => {}", self.instance_ids.join(","))?;
        }
        Ok(())
    }
}

/// A selection of calls in the order of their answers. `Display` prints one line for each call.
#[derive(Clone, Debug, Default)]
pub struct Journal(Vec<Call>);

impl Journal {
    pub(super) fn new(calls: Vec<Call>) -> Self {
        Self(calls)
    }

    /// The calls.
    pub fn calls(&self) -> &[Call] {
        &self.0
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The calls for which `keep` returns true.
    #[must_use]
    pub fn matching(&self, keep: impl Fn(&Call) -> bool) -> Self {
        Self(self.0.iter().filter(|call| keep(call)).cloned().collect())
    }

    /// The calls signed with this key.
    #[must_use]
    pub fn by(&self, access_key_id: &str) -> Self {
        self.matching(|call| call.access_key_id == access_key_id)
    }

    /// The calls not signed with this key.
    #[must_use]
    pub fn except(&self, access_key_id: &str) -> Self {
        self.matching(|call| call.access_key_id != access_key_id)
    }

    /// The calls of one action.
    #[must_use]
    pub fn of(&self, action: &str) -> Self {
        self.matching(|call| call.action == action)
    }

    /// The calls of actions that may change something.
    #[must_use]
    pub fn mutating(&self) -> Self {
        self.matching(Call::is_mutating)
    }

    /// The calls without repetitions: of calls that are alike in everything but key and answer, the last one.
    #[must_use]
    pub fn distinct(&self) -> Self {
        let mut seen = BTreeSet::new();
        let mut distinct = Vec::new();
        for call in self.0.iter().rev() {
            if seen.insert((&call.service, &call.region, &call.action, &call.parameters)) {
                distinct.push(call.clone());
            }
        }
        distinct.reverse();
        Self(distinct)
    }

    /// The number of calls by action.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let actions: BTreeSet<&str> = self.0.iter().map(|call| call.action.as_str()).collect();
        let count = |action: &str| self.0.iter().filter(|call| call.action == action).count();
        actions.into_iter().map(|action| (action.to_owned(), count(action))).collect()
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|call| writeln!(formatter, "{call}"))
    }
}

/// The parameters in the form of the journal, with user data and secrets replaced by their digests.
pub(super) fn redacted(request: &Request) -> BTreeMap<String, String> {
    let kept = request.parameters.iter().filter(|(key, _)| !matches!(key.as_str(), "Action" | "Version"));
    kept.map(|(key, value)| {
        let value = if is_secret(&request.scope.service, key) {
            digest(&BASE64_STANDARD.decode(value).unwrap_or_else(|_| value.clone().into_bytes()))
        } else {
            value.clone()
        };
        (key.clone(), value)
    })
    .collect()
}

/// Whether a parameter of a service holds user data or a secret.
fn is_secret(service: &str, parameter: &str) -> bool {
    match service {
        "secretsmanager" => ["SecretBinary", "SecretString"].contains(&parameter),
        "ssm" => parameter == "Value",
        _ => parameter.contains("UserData"),
    }
}

/// The journal's replacement for user data and secrets (decoded from base64): `<12 bytes, sha256 64 hex digits>`.
pub fn digest(user_data: &[u8]) -> String {
    use fmt::Write as _;
    let hash = Sha256::digest(user_data).iter().fold(String::new(), |mut hex, byte| {
        // Writing into a String does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    format!("<{} bytes, sha256 {hash}>", user_data.len())
}

#[cfg(test)]
mod tests {
    use super::super::protocol::Protocol;
    use super::super::request::CredentialScope;
    use super::*;

    fn call(action: &str, key: &str) -> Call {
        Call {
            at: Timestamp::UNIX_EPOCH,
            took: Duration::ZERO,
            service: "ec2".into(),
            region: "eu-west-1".into(),
            account: None,
            access_key_id: key.into(),
            role: None,
            is_check: false,
            by_url: false,
            action: action.into(),
            parameters: BTreeMap::new(),
            status: 200,
            error: None,
            instance_ids: Vec::new(),
            replayed: false,
            fate: Fate::Answered,
        }
    }

    #[test]
    fn reads_and_role_changes_are_not_mutating() {
        for action in [
            "DescribeInstances",
            "GetCallerIdentity",
            "ListRoles",
            "HeadBucket",
            "GetBucketLocation",
            "AssumeRole",
            "AssumeRoleWithWebIdentity",
        ] {
            assert!(!call(action, "k").is_mutating(), "{action}");
        }
        for action in ["RunInstances", "CreateTags", "DeregisterTargets", "PutBucket", "DeleteObject", ""] {
            assert!(call(action, "k").is_mutating(), "{action}");
        }
    }

    #[test]
    fn calls_are_selected_by_key_and_counted_by_action() {
        let journal =
            Journal::new(vec![call("RunInstances", "us"), call("CreateVpc", "them"), call("RunInstances", "us")]);
        assert_eq!(journal.by("us").counts(), BTreeMap::from([("RunInstances".to_owned(), 2)]));
        assert_eq!(journal.except("us").counts(), BTreeMap::from([("CreateVpc".to_owned(), 1)]));
        assert_eq!(journal.of("CreateVpc").len(), 1);
    }

    #[test]
    fn of_repeated_calls_the_last_one_is_distinct() {
        let launch = |token: &str, status: u16| {
            let mut launch = call("RunInstances", "us");
            launch.parameters.insert("ClientToken".into(), token.into());
            launch.status = status;
            launch
        };
        let journal = Journal::new(vec![launch("a-1", 503), launch("b-1", 200), launch("a-1", 200)]);
        let distinct = journal.distinct();
        let told = distinct.calls().iter().map(|call| (call.parameter("ClientToken"), call.status));
        assert_eq!(told.collect::<Vec<_>>(), [(Some("b-1"), 200), (Some("a-1"), 200)]);
    }

    #[test]
    fn user_data_and_secrets_are_kept_as_their_size_and_hash() {
        for (service, action, secret) in [
            ("ec2", "RunInstances", "UserData"),
            ("secretsmanager", "CreateSecret", "SecretBinary"),
            ("ssm", "PutParameter", "Value"),
        ] {
            let parameters = [("Action", action), (secret, "aGVsbG8="), ("ClientToken", "uid-1")];
            let kept = redacted(&Request {
                scope: CredentialScope { service: service.to_owned(), ..CredentialScope::default() },
                action: action.to_owned(),
                parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                protocol: Protocol::Query,
            });
            assert_eq!(
                kept[secret],
                "<5 bytes, sha256 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824>"
            );
            assert_eq!((kept["ClientToken"].as_str(), kept.len()), ("uid-1", 2));
        }
    }

    #[test]
    fn tags_are_read_from_the_specification_of_their_type() {
        let mut launch = call("RunInstances", "us");
        for (key, value) in [
            ("TagSpecification.1.ResourceType", "volume"),
            ("TagSpecification.1.Tag.1.Key", "a"),
            ("TagSpecification.2.ResourceType", "instance"),
            ("TagSpecification.2.Tag.1.Key", "b"),
            ("TagSpecification.2.Tag.1.Value", "2"),
            ("SecurityGroupId.1", "sg-1"),
            ("SecurityGroupId.2", "sg-2"),
        ] {
            launch.parameters.insert(key.into(), value.into());
        }
        assert_eq!(launch.tags("instance"), BTreeMap::from([("b", "2")]));
        assert_eq!(launch.values("SecurityGroupId"), ["sg-1", "sg-2"]);
    }
}
