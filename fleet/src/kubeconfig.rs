//! The kubeconfig of a cluster, which Cluster API keeps in the Secret `<cluster>-kubeconfig`. Pure.
//!
//! Everybody who may write Secrets in the namespace of a Cluster can change its kubeconfig. Therefore, fields that
//! would start a program, read a file of this process, or trust any certificate are refused.

use k8s_openapi::api::core::v1::Secret;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::ExposeSecret;
use thiserror::Error;

/// Key of the kubeconfig in the Secret. Source: the contract of Cluster API.
pub(crate) const KUBECONFIG_KEY: &str = "value";

/// Name of the Secret. Source: the contract of Cluster API.
pub(crate) fn secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// A usable kubeconfig, and those of its fields that are not secret.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// URL of the API server.
    pub(crate) server: String,
    /// Certificate authority, PEM in base64.
    pub(crate) certificate_authority: String,
    /// Expected name in the certificate, if it differs from the host of the URL.
    pub(crate) tls_server_name: Option<String>,
    /// The kubeconfig, with one cluster and one user.
    pub(crate) kubeconfig: Kubeconfig,
}

/// The reasons why a kubeconfig is not used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum KubeconfigError {
    /// The Secret does not have the key of the kubeconfig.
    #[error("it has no key {KUBECONFIG_KEY}")]
    NoKey,
    /// The text is not a kubeconfig. The parser's message is left out, because it could repeat a secret.
    #[error("its key {KUBECONFIG_KEY} is no kubeconfig")]
    Unreadable,
    /// The current context, its cluster or its user does not exist.
    #[error("its current-context names no cluster and user of it")]
    Incomplete,
    /// A field that could make this process start a program, read a file, or trust any server.
    #[error("its {0} is not allowed: use certificate-authority-data, and a token or client-certificate-data")]
    NotAllowed(&'static str),
}

/// The kubeconfig in a Secret.
pub(crate) fn read(secret: &Secret) -> Result<Access, KubeconfigError> {
    let data = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY));
    let data = data.ok_or(KubeconfigError::NoKey)?;
    let text = std::str::from_utf8(&data.0).map_err(|_| KubeconfigError::Unreadable)?;
    let whole = Kubeconfig::from_yaml(text).map_err(|_| KubeconfigError::Unreadable)?;
    let (kubeconfig, cluster, user) = selected(whole).ok_or(KubeconfigError::Incomplete)?;
    if let Some(field) = refused(&cluster, &user) {
        return Err(KubeconfigError::NotAllowed(field));
    }
    Ok(Access {
        server: cluster.server.ok_or(KubeconfigError::Incomplete)?,
        certificate_authority: cluster.certificate_authority_data.unwrap_or_default(),
        tls_server_name: cluster.tls_server_name,
        kubeconfig,
    })
}

/// The first field that prevents the use of this kubeconfig from a Secret, in the current or the given context.
pub fn field_refused_in_secrets(mut whole: Kubeconfig, context: Option<&str>) -> Option<&'static str> {
    if let Some(context) = context {
        whole.current_context = Some(context.to_owned());
    }
    let (_, cluster, user) = selected(whole)?;
    refused(&cluster, &user)
}

fn refused(cluster: &Cluster, user: &AuthInfo) -> Option<&'static str> {
    refused_of_cluster(cluster).or_else(|| refused_of_user(user))
}

/// The kubeconfig reduced to its current context with the cluster and the user.
fn selected(mut whole: Kubeconfig) -> Option<(Kubeconfig, Cluster, AuthInfo)> {
    let name = whole.current_context.clone()?;
    whole.contexts.retain(|context| context.name == name);
    let context = whole.contexts.first()?.context.clone()?;
    whole.clusters.retain(|cluster| cluster.name == context.cluster);
    whole.auth_infos.retain(|user| Some(&user.name) == context.user.as_ref());
    let cluster = whole.clusters.first()?.cluster.clone()?;
    let user = whole.auth_infos.first()?.auth_info.clone()?;
    Some((whole, cluster, user))
}

fn refused_of_cluster(cluster: &Cluster) -> Option<&'static str> {
    let insecure = cluster.insecure_skip_tls_verify.unwrap_or_default();
    let server = cluster.server.as_ref();
    let fields = [
        ("server without https", server.is_some_and(|server| !server.starts_with("https://"))),
        ("certificate-authority", cluster.certificate_authority.is_some()),
        ("insecure-skip-tls-verify", insecure),
        ("proxy-url", cluster.proxy_url.is_some()),
    ];
    first_set(fields)
}

fn refused_of_user(user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
        ("password", user.password.as_ref().is_some_and(|password| !password.expose_secret().is_empty())),
    ];
    first_set(fields)
}

fn first_set<const N: usize>(fields: [(&'static str, bool); N]) -> Option<&'static str> {
    fields.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    fn secret(kubeconfig: &str) -> Secret {
        let data = [(KUBECONFIG_KEY.to_owned(), ByteString(kubeconfig.as_bytes().to_vec()))];
        Secret { data: Some(data.into()), ..Secret::default() }
    }

    /// A kubeconfig in Cluster API's form, with further fields of its cluster and its user.
    fn with(cluster: &Value, user: &Value) -> Secret {
        let mut all = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "admin@dev",
            "clusters": [
                {"name": "other", "cluster": {"server": "http://other"}},
                {"name": "dev", "cluster": {"server": "https://api:6443", "certificate-authority-data": "Q0E="}},
            ],
            "users": [{"name": "admin", "user": {"token": "t"}}],
            "contexts": [{"name": "admin@dev", "context": {"cluster": "dev", "user": "admin"}}],
        });
        for (place, more) in [("/clusters/1/cluster", cluster), ("/users/0/user", user)] {
            let fields = all.pointer_mut(place).and_then(Value::as_object_mut).unwrap();
            fields.extend(more.as_object().unwrap().clone());
        }
        secret(&all.to_string())
    }

    #[test]
    fn the_server_and_its_authority_are_those_of_the_current_context() {
        let access = read(&with(&json!({}), &json!({}))).unwrap();
        assert_eq!((access.server.as_str(), access.certificate_authority.as_str()), ("https://api:6443", "Q0E="));
        assert_eq!(access.kubeconfig.clusters.len(), 1, "nothing else is used");
    }

    #[test]
    fn nothing_starts_a_program_or_reads_a_file() {
        let none = json!({});
        let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}});
        let table = [
            (none.clone(), exec, "exec"),
            (none.clone(), json!({"auth-provider": {"name": "gcp", "config": {}}}), "auth-provider"),
            (none.clone(), json!({"tokenFile": "/etc/passwd"}), "tokenFile"),
            (none.clone(), json!({"client-certificate": "/etc/tls.crt"}), "client-certificate"),
            (none.clone(), json!({"client-key": "/etc/tls.key"}), "client-key"),
            (json!({"certificate-authority": "/etc/ca.crt"}), none.clone(), "certificate-authority"),
            (json!({"insecure-skip-tls-verify": true}), none.clone(), "insecure-skip-tls-verify"),
            (json!({"proxy-url": "http://proxy"}), none.clone(), "proxy-url"),
            (json!({"server": "http://api"}), none, "server without https"),
        ];
        for (cluster, user, field) in table {
            let refused = read(&with(&cluster, &user)).unwrap_err();
            assert_eq!(refused, KubeconfigError::NotAllowed(field));
        }
    }

    #[test]
    fn a_secret_of_another_form_is_refused_without_its_content() {
        assert_eq!(read(&Secret::default()).unwrap_err(), KubeconfigError::NoKey);
        let refused = read(&secret("token: [s3cret")).unwrap_err();
        assert_eq!(refused, KubeconfigError::Unreadable);
        assert!(!refused.to_string().contains("s3cret"));
        let nameless = "{apiVersion: v1, kind: Config, current-context: none}";
        assert_eq!(read(&secret(nameless)).unwrap_err(), KubeconfigError::Incomplete);
    }
}
