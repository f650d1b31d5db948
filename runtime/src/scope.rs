//! The objects that a manager watches: the flags `--namespace` and `--watch-filter`.

use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher;
use kube::{Api, Client};

use crate::guarded::Guarded;
use crate::kinds::CachedKind;

/// The label that `--watch-filter` selects by.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";

/// The objects that one manager is responsible for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    namespace: Option<String>,
    watch_filter: Option<String>,
}

impl Scope {
    /// Takes the values of the flags. An empty value means no restriction, and so do two quotes, which are the empty
    /// default of a variable of clusterctl.
    pub fn new(namespace: Option<String>, watch_filter: Option<String>) -> Self {
        let given = |value: Option<String>| value.filter(|value| !["", "\"\""].contains(&value.as_str()));
        Self { namespace: given(namespace), watch_filter: given(watch_filter) }
    }

    /// The API of a namespaced kind, in the manager's one namespace or in all namespaces.
    pub fn api<K>(&self, client: &Client) -> Api<Guarded<K>>
    where
        K: CachedKind<Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    /// The watch configuration of the kinds that this provider's controllers reconcile: only objects with the
    /// watch-filter label. Objects that these refer to (Cluster, Machine) are watched with
    /// [`watcher::Config::default`], because they need not carry the label.
    pub fn reconciled(&self) -> watcher::Config {
        match &self.watch_filter {
            Some(value) => watcher::Config::default().labels(&format!("{WATCH_FILTER_LABEL}={value}")),
            None => watcher::Config::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeServer, Widget};

    #[tokio::test]
    async fn a_namespace_restricts_the_path_and_a_watch_filter_the_labels() {
        let client = FakeServer::default().client();
        let restricted = Scope::new(Some("team-a".into()), Some("blue".into()));
        assert!(restricted.api::<Widget>(&client).resource_url().ends_with("/namespaces/team-a/widgets"));
        assert_eq!(restricted.reconciled().label_selector.as_deref(), Some("cluster.x-k8s.io/watch-filter=blue"));
    }

    #[tokio::test]
    async fn empty_flags_restrict_nothing() {
        let client = FakeServer::default().client();
        let everything = Scope::new(Some(String::new()), Some("\"\"".to_owned()));
        assert!(everything.api::<Widget>(&client).resource_url().ends_with("/v1/widgets"));
        assert_eq!(everything.reconciled().label_selector, None);
    }
}
