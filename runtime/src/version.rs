//! The oldest version of Kubernetes that this manager supports.

use std::fmt::{self, Display};

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use thiserror::Error;

/// The oldest version that this project's CRDs and policies are made for.
pub const MINIMUM: KubernetesVersion = KubernetesVersion { major: 1, minor: 31 };

/// A version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion {
    /// The `1` of 1.31.
    pub major: u32,
    /// The `31` of 1.31.
    pub minor: u32,
}

impl Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

/// The reasons why the manager does not start.
#[derive(Debug, Error)]
pub enum VersionError {
    /// The server is too old.
    #[error("the management cluster runs Kubernetes {server}, but this manager needs {MINIMUM} or newer")]
    TooOld {
        /// The server's version.
        server: KubernetesVersion,
    },
    /// The server's answer is not a version.
    #[error("the management cluster gives its version as {text:?}, which is no Kubernetes version")]
    Malformed {
        /// `major.minor` in the answer.
        text: String,
    },
    /// The server did not answer.
    #[error("failed to ask the management cluster for its version")]
    Request(#[from] kube::Error),
}

/// Returns the server's version, or an error that names both versions when it is older than [`MINIMUM`].
pub async fn ensure_supported(client: &Client) -> Result<KubernetesVersion, VersionError> {
    let server = parse(&client.apiserver_version().await?)?;
    if server < MINIMUM {
        return Err(VersionError::TooOld { server });
    }
    Ok(server)
}

fn parse(info: &Info) -> Result<KubernetesVersion, VersionError> {
    // Vendors add a plus sign: "31+".
    let number = |text: &str| text.trim_end_matches(|character: char| !character.is_ascii_digit()).parse().ok();
    match (number(&info.major), number(&info.minor)) {
        (Some(major), Some(minor)) => Ok(KubernetesVersion { major, minor }),
        _ => Err(VersionError::Malformed { text: format!("{}.{}", info.major, info.minor) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeServer;

    async fn check(major: &str, minor: &str) -> Result<KubernetesVersion, VersionError> {
        let server = FakeServer::default();
        server.set_version(major, minor);
        ensure_supported(&server.client()).await
    }

    #[tokio::test]
    async fn an_old_server_is_refused_with_both_versions_named() {
        assert_eq!(
            check("1", "30").await.unwrap_err().to_string(),
            "the management cluster runs Kubernetes 1.30, but this manager needs 1.31 or newer"
        );
    }

    #[tokio::test]
    async fn the_minimum_newer_ones_and_vendor_suffixes_are_accepted() {
        for minor in ["31", "31+", "35", "100"] {
            check("1", minor).await.unwrap();
        }
        check("2", "0").await.unwrap();
    }

    #[tokio::test]
    async fn an_unreadable_version_is_refused() {
        assert!(matches!(check("one", "").await, Err(VersionError::Malformed { .. })));
    }
}
