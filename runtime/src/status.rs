//! Writes the complete status of an object, with the object's resource version as the precondition.
//!
//! A PUT on the status subresource removes the fields that the new status lacks, whichever client wrote them. The
//! server refuses a write that is based on a stale object. The server takes only the status from the body, so the spec
//! is not sent.

use kube::Client;
use kube::api::{PostParams, Request};
use kube::core::request;
use serde_json::{Value, json};
use thiserror::Error;

use crate::condition_log;
use crate::guarded::{Guarded, Malformed};
use crate::kinds::{CachedKind, ObjectName, ReconciledKind};
use crate::writes::WriteTracker;

/// The reasons why a status was not written.
#[derive(Debug, Error)]
pub enum StatusError {
    /// The object has changed since the version that the write was based on. The reconcile is repeated once the cache
    /// shows the change.
    #[error("the status of {object} was not written: the object has changed since resource version {version}")]
    Conflict {
        /// The object.
        object: ObjectName,
        /// The resource version that the write was based on.
        version: String,
    },
    /// The object no longer exists.
    #[error("the status of {object} was not written: the object is gone")]
    Gone {
        /// The object.
        object: ObjectName,
    },
    /// The object did not come from the server.
    #[error("the status of {object} was not written: it has no resource version to base the write on")]
    NoResourceVersion {
        /// The object.
        object: ObjectName,
    },
    /// The status cannot be written as JSON.
    #[error("failed to encode the status of {object}")]
    Encode {
        /// The object.
        object: ObjectName,
        /// The error of the encoder.
        source: serde_json::Error,
    },
    /// The request cannot be built, for example because of the object's name.
    #[error("failed to build the request that writes the status of {object}")]
    Request {
        /// The object.
        object: ObjectName,
        /// The error of the request builder.
        source: request::Error,
    },
    /// The server refused the write or did not answer.
    #[error("failed to write the status of {object}")]
    Write {
        /// The object.
        object: ObjectName,
        /// The error of the client.
        source: kube::Error,
    },
    /// The write took effect, but the object that the server returned cannot be read.
    #[error("wrote the status of {object}, but the answer cannot be read")]
    Answer {
        /// The object.
        object: ObjectName,
        /// The field that cannot be read.
        source: Box<Malformed>,
    },
}

/// Writes statuses and records the written versions. Reconcilers use it for a status that must be stored before they
/// continue.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
    writes: WriteTracker,
}

impl StatusWriter {
    /// A writer that reports to `writes`.
    pub fn new(client: Client, writes: WriteTracker) -> Self {
        Self { client, writes }
    }

    /// Makes `status` the status of `object` and returns the object from the server's answer. A status that equals the
    /// object's status is not sent.
    pub async fn write<K: ReconciledKind>(&self, object: &K, status: &K::Status) -> Result<K, StatusError> {
        let encode = |status| {
            serde_json::to_value(status)
                .map_err(|source| StatusError::Encode { object: ObjectName::of(object), source })
        };
        let wanted = encode(status)?;
        // An absent status and an empty one are equal.
        let current = object.status().map(encode).transpose()?.unwrap_or_else(|| json!({}));
        if current == wanted {
            return Ok(object.clone());
        }
        let answer = self.put(object, &wanted).await?;
        self.writes.written(&answer);
        condition_log::log(&current, &wanted);
        answer.object().map_err(|source| StatusError::Answer { object: ObjectName::of(object), source })
    }

    async fn put<K: CachedKind>(&self, object: &K, status: &Value) -> Result<Guarded<K>, StatusError> {
        let name = ObjectName::of(object);
        let metadata = object.meta();
        let Some(version) = metadata.resource_version.clone() else {
            return Err(StatusError::NoResourceVersion { object: name });
        };
        let body = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"name": metadata.name, "namespace": metadata.namespace, "resourceVersion": version},
            "status": status,
        });
        let body = serde_json::to_vec(&body).map_err(|source| StatusError::Encode { object: name.clone(), source })?;
        let request = Request::new(K::url_path(&(), metadata.namespace.as_deref()))
            .replace_subresource("status", metadata.name.as_deref().unwrap_or_default(), &PostParams::default(), body)
            .map_err(|source| StatusError::Request { object: name.clone(), source })?;
        self.client.request(request).await.map_err(|error| match error {
            kube::Error::Api(status) if status.is_conflict() => {
                self.writes.conflicted(object);
                StatusError::Conflict { object: name, version }
            }
            kube::Error::Api(status) if status.is_not_found() => StatusError::Gone { object: name },
            source => StatusError::Write { object: name, source },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeServer, WIDGETS, Widget, WidgetStatus, widget};
    use crate::writes::Freshness;

    fn phase(phase: &str) -> WidgetStatus {
        WidgetStatus { phase: Some(phase.into()), ..WidgetStatus::default() }
    }

    fn writer(server: &FakeServer) -> (StatusWriter, WriteTracker) {
        let writes = WriteTracker::default();
        (StatusWriter::new(server.client(), writes.clone()), writes)
    }

    #[tokio::test]
    async fn the_status_is_put_with_resource_version_and_without_spec() {
        let server = FakeServer::default();
        let object: Widget = server.put_widget(&widget("a"));
        let (writer, _) = writer(&server);
        let written = writer.write(&object, &phase("New")).await.unwrap();
        assert_eq!(written.status, Some(phase("New")));
        assert_ne!(written.metadata.resource_version, object.metadata.resource_version);
        assert_eq!(written.spec, object.spec, "the answer carries the spec that the server kept");
        let request = server.writes().pop().unwrap();
        assert_eq!((request.method.as_str(), request.path), ("PUT", format!("{WIDGETS}/a/status")));
        assert_eq!(
            request.body,
            json!({
                "apiVersion": "test.example.org/v1", "kind": "Widget",
                "metadata": {"name": "a", "namespace": "team", "resourceVersion": object.metadata.resource_version},
                "status": {"phase": "New"},
            })
        );
    }

    #[tokio::test]
    async fn an_identical_status_is_not_written() {
        let server = FakeServer::default();
        let object: Widget = server.put_widget(&widget("a"));
        let (writer, _) = writer(&server);
        let same = writer.write(&object, &WidgetStatus::default()).await.unwrap();
        assert_eq!(same.metadata.resource_version, object.metadata.resource_version);
        let written = writer.write(&object, &phase("New")).await.unwrap();
        writer.write(&written, &phase("New")).await.unwrap();
        assert_eq!(server.writes().len(), 1);
    }

    #[tokio::test]
    async fn a_stale_write_is_a_conflict_and_waits_for_the_newer_version() {
        let server = FakeServer::default();
        let stale: Widget = server.put_widget(&widget("a"));
        let newer = server.put_widget(&stale);
        let (writer, tracker) = writer(&server);
        let error = writer.write(&stale, &phase("New")).await.unwrap_err();
        assert!(matches!(error, StatusError::Conflict { .. }), "{error}");
        assert!(matches!(tracker.freshness(&stale), Freshness::Stale(_)));
        assert_eq!(tracker.freshness(&newer), Freshness::Fresh);
    }

    #[tokio::test]
    async fn a_write_is_remembered_until_the_cache_shows_it() {
        let server = FakeServer::default();
        let object: Widget = server.put_widget(&widget("a"));
        let (writer, tracker) = writer(&server);
        let written = writer.write(&object, &phase("New")).await.unwrap();
        assert!(matches!(tracker.freshness(&object), Freshness::Stale(_)));
        assert_eq!(tracker.freshness(&written), Freshness::Fresh);
    }

    #[tokio::test]
    async fn a_deleted_object_is_an_error_of_its_own() {
        let server = FakeServer::default();
        let mut object = widget("a");
        object.metadata.resource_version = Some("1".into());
        let (writer, _) = writer(&server);
        let error = writer.write(&object, &phase("New")).await.unwrap_err();
        assert!(matches!(error, StatusError::Gone { .. }), "{error}");
        assert_eq!(error.to_string(), "the status of Widget team/a was not written: the object is gone");
    }

    #[tokio::test]
    async fn a_write_whose_answer_is_malformed_is_remembered_all_the_same() {
        let server = FakeServer::default();
        let object: Widget = server.put_widget(&widget("a"));
        server.edit(&format!("{WIDGETS}/a"), |stored| {
            stored["spec"] = json!({"size": "huge"});
        });
        let mut object = object;
        object.metadata.resource_version = server.version_of(&format!("{WIDGETS}/a"));
        let (writer, tracker) = writer(&server);
        let error = writer.write(&object, &phase("New")).await.unwrap_err();
        assert!(matches!(error, StatusError::Answer { .. }), "{error}");
        assert!(matches!(tracker.freshness(&object), Freshness::Stale(_)));
    }
}
