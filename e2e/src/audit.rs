//! The audit log of kube-apiserver: every write of a ServiceAccount.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::directory::Directory;

/// What kube-apiserver records: who wrote to what, without the content. Users of the tests have certificates, and are
/// not recorded.
const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ['system:serviceaccounts'], verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
";

/// A request of a ServiceAccount that may have written something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesWrite {
    /// The ServiceAccount, as `namespace:name`.
    pub user: String,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The resource, with its subresource after a slash: `awsmachines/status`.
    pub resource: String,
    /// The namespace of the object; empty for one without a namespace.
    pub namespace: String,
    /// The name of the object; empty where the request does not give it.
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectReference,
    #[serde(default)]
    response_status: Answer,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectReference {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    code: u16,
}

/// Writes the policy, and returns the flags of kube-apiserver.
pub(crate) fn flags(directory: &Directory) -> anyhow::Result<[String; 2]> {
    let policy = directory.write("audit-policy.yaml", POLICY)?;
    Ok([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log(directory.path()).display()),
    ])
}

fn log(folder: &Path) -> PathBuf {
    folder.join("audit.log")
}

/// All writes so far, in the order of their answers.
pub(crate) fn writes(directory: &Directory) -> anyhow::Result<Vec<KubernetesWrite>> {
    let log = log(directory.path());
    let text = std::fs::read_to_string(&log).with_context(|| format!("read {}", log.display()))?;
    // The last line may still be written.
    let complete = text.rsplit_once('\n').map(|(complete, _)| complete).unwrap_or_default();
    complete.lines().map(parse).collect()
}

fn parse(line: &str) -> anyhow::Result<KubernetesWrite> {
    let entry: Entry = serde_json::from_str(line).with_context(|| format!("read the audit log's line {line}"))?;
    let ObjectReference {
        resource,
        subresource,
        namespace,
        name,
    } = entry.object_ref;
    let user = entry.user.username;
    Ok(KubernetesWrite {
        user: user.strip_prefix("system:serviceaccount:").unwrap_or(&user).to_owned(),
        verb: entry.verb,
        resource: if subresource.is_empty() {
            resource
        } else {
            format!("{resource}/{subresource}")
        },
        namespace,
        name,
        code: entry.response_status.code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_names_its_user_its_object_and_its_answer() {
        let line = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete",
            "verb":"update","user":{"username":"system:serviceaccount:capa-rs-system:capa-controller-manager"},
            "objectRef":{"resource":"awsmachines","namespace":"n","name":"m","apiGroup":"g","subresource":"status"},
            "responseStatus":{"metadata":{},"code":409}}"#;
        let write = KubernetesWrite {
            user: "capa-rs-system:capa-controller-manager".into(),
            verb: "update".into(),
            resource: "awsmachines/status".into(),
            namespace: "n".into(),
            name: "m".into(),
            code: 409,
        };
        assert_eq!(parse(line).unwrap(), write);
    }

    #[test]
    fn a_write_may_have_neither_object_nor_answer() {
        let line = r#"{"verb":"create","user":{"username":"somebody"}}"#;
        let write = parse(line).unwrap();
        assert_eq!((write.user.as_str(), write.code), ("somebody", 0));
        assert_eq!((write.resource.as_str(), write.name.as_str()), ("", ""));
    }
}
