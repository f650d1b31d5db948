//! The configuration of the client for the management cluster.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use capa_runtime::proxy;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// The longest time without a byte from the API server, after which a request counts as lost. Watches get bookmarks
/// about once a minute, and end after 290 s. Without this limit, a request whose answer is lost together with its
/// connection would wait for ever.
const MAX_SILENCE: Duration = Duration::from_secs(300);

/// The configuration of this kubeconfig, or else of the default kubeconfig (`KUBECONFIG`, or ~/.kube/config), or else
/// of the service account of the pod. A kubeconfig that `KUBECONFIG` names, or that can be read, is not replaced if it
/// cannot be used, because the pod may be in another cluster than the one that is meant.
///
/// # Errors
/// No configuration is there, or the kubeconfig cannot be used.
pub(crate) async fn load(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(file) => {
            let unusable = || format!("cannot use the kubeconfig {}", file.display());
            let kubeconfig = Kubeconfig::read_from(file).with_context(unusable)?;
            proxy::of_kubeconfig(kubeconfig, &options).await.with_context(unusable)?
        }
        None => match Config::from_kubeconfig(&options).await {
            Ok(config) => proxy::of_environment(config),
            Err(error) if context.is_some() || is_configured(&error, std::env::var_os("KUBECONFIG").as_deref()) => {
                return Err(error).context("cannot use the default kubeconfig");
            }
            Err(error) => Config::incluster().map_err(|_| {
                anyhow!(error).context("no management cluster is configured: set --kubeconfig or KUBECONFIG")
            })?,
        },
    };
    config.read_timeout = Some(MAX_SILENCE);
    // The time in which a connection was idle does not count.
    config.reset_reader_on_write = true;
    Ok(config)
}

/// Whether there is a default kubeconfig, which cannot be used for this reason. `variable` is the value of
/// `KUBECONFIG`.
fn is_configured(error: &KubeconfigError, variable: Option<&OsStr>) -> bool {
    let is_absent = match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => {
            // The home of a process in a container may be no folder, or another user's.
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
        }
        _ => false,
    };
    !is_absent || variable.is_some_and(|files| !files.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_account_replaces_an_absent_kubeconfig_only() {
        let unreadable = |kind| KubeconfigError::ReadConfig(ErrorKind::into(kind), "config".into());
        let named = Some(OsStr::new("/etc/kubeconfig"));
        for (error, variable, expected) in [
            (KubeconfigError::FindPath, None, false),
            (unreadable(ErrorKind::NotFound), None, false),
            (unreadable(ErrorKind::NotFound), Some(OsStr::new("")), false),
            (unreadable(ErrorKind::NotFound), named, true),
            (unreadable(ErrorKind::PermissionDenied), None, false),
            (unreadable(ErrorKind::NotADirectory), None, false),
            (unreadable(ErrorKind::PermissionDenied), named, true),
            (KubeconfigError::CurrentContextNotSet, None, true),
            (KubeconfigError::CurrentContextNotSet, named, true),
        ] {
            assert_eq!(is_configured(&error, variable), expected, "{error} {variable:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_api_server_is_not_awaited_for_ever() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, users: [{name: a}], \
                          clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], \
                          contexts: [{name: a, context: {cluster: a, user: a}}]}";
        std::fs::write(file.path(), kubeconfig).expect("the file is written");
        let config = load(Some(file.path()), None).await.expect("a configuration");
        assert_eq!(config.read_timeout, Some(MAX_SILENCE));
        let error = load(Some(file.path()), Some("b")).await.expect_err("no such context");
        assert!(format!("{error:#}").contains(&file.path().display().to_string()), "{error:#}");
    }
}
