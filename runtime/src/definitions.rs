//! Checks that the CRDs and policies of the management cluster belong to this manager's release.
//!
//! Each of them has [`meta::DEFINITION_ANNOTATION`] with a hash. A different hash means a different release, whose CRDs
//! may drop fields that the manager writes, and whose policies may admit objects that the manager does not expect.

use std::fmt::{self, Debug, Display};
use std::time::Duration;

use capa_api::meta;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::repeated_failure::RepeatedFailure;

/// Interval between two checks while an installation may be in progress.
const GLANCE: Duration = Duration::from_secs(1);

/// A CRD or policy of this release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its kind.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// The value of [`meta::DEFINITION_ANNOTATION`].
    pub hash: String,
}

/// The kinds of definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionKind {
    /// CustomResourceDefinition.
    Crd,
    /// ValidatingAdmissionPolicy.
    Policy,
}

impl Display for Definition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DefinitionKind::Crd => "CustomResourceDefinition",
            DefinitionKind::Policy => "ValidatingAdmissionPolicy",
        };
        write!(formatter, "{kind} {}", self.name)
    }
}

/// The reasons why the manager does not start.
#[derive(Debug, Error)]
pub enum DefinitionsError {
    /// Definitions of another release are installed.
    #[error(
        "the management cluster has definitions of another release than this manager ({}): {}. Install the components \
         of the manager's release, with clusterctl upgrade apply or with kubectl apply, or run the manager of the \
         installed release",
        env!("CARGO_PKG_VERSION"),
        .definitions.join(", ")
    )]
    OtherRelease {
        /// The kinds and names of the definitions.
        definitions: Vec<String>,
    },
    /// The server did not answer.
    #[error("failed to read {definition}")]
    Request {
        /// The kind and the name of the definition.
        definition: String,
        /// The error of the client.
        source: kube::Error,
    },
}

/// Confirms that the installed definitions are these definitions. An installation in progress has `timeout` to
/// complete.
///
/// A definition that is not installed is not an error, because the caches wait for its kind. A definition that the
/// manager may not read is not an error either; the log has one line about the first one.
pub async fn ensure_of_this_release(
    client: &Client,
    definitions: &[Definition],
    timeout: Duration,
) -> Result<(), DefinitionsError> {
    let deadline = Instant::now() + timeout;
    let mut failure = RepeatedFailure::new("read which release the CRDs and admission policies are of");
    loop {
        let others = others(client, definitions, &mut failure).await?;
        if others.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(DefinitionsError::OtherRelease { definitions: others });
        }
        sleep(GLANCE).await;
    }
}

/// The installed definitions that are not of this release.
///
/// The API server's error names the definition that the manager may not read, so each definition would be a different
/// `failure`. Therefore, only the first one is reported. The others are still read, because the role of an earlier
/// release allows some of them.
async fn others(
    client: &Client,
    definitions: &[Definition],
    failure: &mut RepeatedFailure,
) -> Result<Vec<String>, DefinitionsError> {
    let mut others = Vec::new();
    let mut forbidden = None;
    for definition in definitions {
        let is_other = match definition.kind {
            DefinitionKind::Crd => is_other::<CustomResourceDefinition>(client, definition).await,
            DefinitionKind::Policy => is_other::<ValidatingAdmissionPolicy>(client, definition).await,
        };
        match is_other {
            Ok(true) => others.push(definition.to_string()),
            Ok(false) => {}
            Err(kube::Error::Api(status)) if status.code == 403 => {
                forbidden.get_or_insert(kube::Error::Api(status));
            }
            Err(source) => {
                return Err(DefinitionsError::Request { definition: definition.to_string(), source });
            }
        }
    }
    if let Some(error) = forbidden {
        failure.failed(&error);
    }
    Ok(others)
}

/// Whether the definition is installed in the version of another release.
async fn is_other<K>(client: &Client, definition: &Definition) -> kube::Result<bool>
where
    K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let installed = api.get_metadata_opt(&definition.name).await?;
    Ok(installed.is_some_and(|object| {
        let annotations = object.metadata.annotations.unwrap_or_default();
        annotations.get(meta::DEFINITION_ANNOTATION) != Some(&definition.hash)
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logging::LogFormat;
    use crate::testing::{FakeServer, Fault, Log};

    const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

    fn expected() -> [Definition; 2] {
        [(DefinitionKind::Crd, "widgets.test.example.org"), (DefinitionKind::Policy, "widgets-immutable")]
            .map(|(kind, name)| Definition { kind, name: name.to_owned(), hash: "this".to_owned() })
    }

    /// A server whose CRD and policy have these hashes; `None`: no annotation.
    fn server(crd: Option<&str>, policy: Option<&str>) -> FakeServer {
        let server = FakeServer::default();
        for (definition, folder, hash) in [(&expected()[0], CRDS, crd), (&expected()[1], POLICIES, policy)] {
            let annotations = hash.map(|hash| json!({meta::DEFINITION_ANNOTATION: hash}));
            let object = json!({"metadata": {"name": definition.name, "annotations": annotations}});
            server.put(&format!("{folder}/{}", definition.name), object);
        }
        server
    }

    async fn checked(server: &FakeServer) -> Result<(), DefinitionsError> {
        ensure_of_this_release(&server.client(), &expected(), Duration::ZERO).await
    }

    #[tokio::test]
    async fn definitions_of_this_release_are_accepted() {
        checked(&server(Some("this"), Some("this"))).await.unwrap();
    }

    #[tokio::test]
    async fn definitions_of_another_release_are_refused_by_name() {
        for hash in [Some("other"), None] {
            let refused = checked(&server(hash, Some("this"))).await.unwrap_err().to_string();
            assert!(refused.contains("CustomResourceDefinition widgets.test.example.org"), "{refused}");
            assert!(!refused.contains("widgets-immutable"), "{refused}");
            assert!(refused.contains(env!("CARGO_PKG_VERSION")), "{refused}");
            let refused = checked(&server(Some("this"), hash)).await.unwrap_err().to_string();
            assert!(refused.contains("ValidatingAdmissionPolicy widgets-immutable"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_definition_that_is_not_installed_is_left_to_others() {
        checked(&FakeServer::default()).await.unwrap();
    }

    #[tokio::test]
    async fn a_definition_that_may_not_be_read_stops_no_manager() {
        let server = server(Some("other"), Some("other"));
        server.set_fault("GET", Some(Fault::Refuse(403)));
        checked(&server).await.unwrap();
        server.set_fault("GET", Some(Fault::Refuse(500)));
        let failed = checked(&server).await.unwrap_err();
        assert!(failed.to_string().contains("widgets.test.example.org"), "{failed}");
    }

    #[tokio::test]
    async fn definitions_that_may_not_be_read_have_one_line_with_what_to_apply() {
        let log = Log::start(LogFormat::Json, 0);
        let server = server(Some("this"), Some("this"));
        server.set_fault("GET", Some(Fault::Refuse(403)));
        checked(&server).await.unwrap();
        let lines = log.objects();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let hint = lines[0]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("RBAC manifests"), "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_may_not_be_read_hides_no_other_one() {
        let log = Log::start(LogFormat::Json, 0);
        let server = server(Some("this"), Some("other"));
        let request = format!("GET {CRDS}/widgets.test.example.org");
        server.set_fault(&request, Some(Fault::Refuse(403)));
        let started = ensure_of_this_release(&server.client(), &expected(), Duration::from_secs(10)).await;
        let refused = started.unwrap_err().to_string();
        assert!(refused.contains("ValidatingAdmissionPolicy widgets-immutable"), "{refused}");
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_installation_that_is_going_on_is_waited_for() {
        let server = server(Some("this"), Some("other"));
        let (client, definitions) = (server.client(), expected());
        let started = ensure_of_this_release(&client, &definitions, Duration::from_secs(10));
        let installed = async {
            sleep(Duration::from_secs(5)).await;
            let path = format!("{POLICIES}/widgets-immutable");
            server.edit(&path, |policy| {
                policy["metadata"]["annotations"][meta::DEFINITION_ANNOTATION] = "this".into();
            });
        };
        let (started, ()) = tokio::join!(started, installed);
        started.unwrap();
    }
}
