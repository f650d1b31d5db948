//! The audit log of kube-apiserver: every write of a ServiceAccount.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde::Deserialize;

use crate::changes::Changes;
use crate::directory::Directory;
use crate::growing_log::GrowingLog;

/// The interval between two looks at the log. A look without news is a read from the end of a file.
const LOOK: Duration = Duration::from_millis(20);

/// The size at which kube-apiserver rotates the log: more than any test writes. Its default is 100 MB.
const MEGABYTES: u32 = 100_000;

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

/// Writes the policy, and returns the flags of kube-apiserver. The log is never rotated, because its reader would miss
/// what is written after that.
pub(crate) fn flags(directory: &Directory) -> anyhow::Result<[String; 3]> {
    let policy = directory.write("audit-policy.yaml", POLICY)?;
    Ok([
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", path(directory).display()),
        format!("--audit-log-maxsize={MEGABYTES}"),
    ])
}

fn path(directory: &Directory) -> PathBuf {
    directory.path().join("audit.log")
}

/// The audit log of one world. A thread reads it as long as this value exists, and reports the writes to the tests that
/// they concern: kube-apiserver logs a write before it answers the request.
pub(crate) struct AuditLog(Mutex<Contents>);

/// What has been read of the log.
struct Contents {
    log: GrowingLog,
    writes: Vec<KubernetesWrite>,
    /// The tests by their namespaces.
    tests: BTreeMap<String, Changes>,
}

impl AuditLog {
    /// Starts to read the log of the kube-apiserver in this folder.
    pub(crate) fn follow(directory: &Directory) -> anyhow::Result<Arc<Self>> {
        let log = Arc::new(Self(Mutex::new(Contents {
            log: GrowingLog::new(path(directory)),
            writes: Vec::new(),
            tests: BTreeMap::new(),
        })));
        let followed = Arc::downgrade(&log);
        // The runtimes of tests end with the tests.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name("audit-log".into())
            .spawn(move || runtime.block_on(Self::keep_reading(followed)))
            .context("start the reader of the audit log")?;
        Ok(log)
    }

    async fn keep_reading(followed: Weak<Self>) {
        while let Some(log) = followed.upgrade() {
            if let Err(error) = log.0.lock().read_on() {
                tracing::error!(%error, "the audit log cannot be read");
            }
            drop(log);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Reports writes in this namespace, and of objects without a namespace, to the test on this thread.
    pub(crate) fn report_to_this_test(&self, namespace: &str) {
        let tests = &mut self.0.lock().tests;
        tests.insert(namespace.to_owned(), Changes::of_this_test());
    }

    /// All writes so far, in the order of their answers.
    pub(crate) fn writes(&self) -> anyhow::Result<Vec<KubernetesWrite>> {
        let mut contents = self.0.lock();
        contents.read_on()?;
        Ok(contents.writes.clone())
    }
}

impl Contents {
    /// Reads what is new, and reports it.
    fn read_on(&mut self) -> anyhow::Result<()> {
        for line in self.log.new_lines()?.lines() {
            let write = parse(line)?;
            if write.namespace.is_empty() {
                self.tests.values().for_each(Changes::report);
            } else if let Some(test) = self.tests.get(&write.namespace) {
                test.report();
            }
            self.writes.push(write);
        }
        Ok(())
    }
}

fn parse(line: &str) -> anyhow::Result<KubernetesWrite> {
    let entry: Entry = serde_json::from_str(line).with_context(|| format!("read the audit log's line {line}"))?;
    let ObjectReference { resource, subresource, namespace, name } = entry.object_ref;
    let user = entry.user.username;
    Ok(KubernetesWrite {
        user: user.strip_prefix("system:serviceaccount:").unwrap_or(&user).to_owned(),
        verb: entry.verb,
        resource: if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") },
        namespace,
        name,
        code: entry.response_status.code,
    })
}
