//! The proxy between this process and the API servers of kubeconfigs.

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Variables with the URL of the proxy. The first one that is set applies. Source: kube.
const VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];

/// The configuration of a client for the API server of a kubeconfig, with the proxy of
/// [`of_environment`].
///
/// # Errors
/// The kubeconfig cannot be used.
pub async fn of_kubeconfig(kubeconfig: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, KubeconfigError> {
    Ok(of_environment(Config::from_custom_kubeconfig(kubeconfig, options).await?))
}

/// The configuration of a kubeconfig with the proxy for its server: the `proxy-url` of the kubeconfig, or else the
/// proxy in `HTTPS_PROXY` unless `NO_PROXY` matches the server. This function is needed because kube compares
/// `NO_PROXY` with the address of the proxy instead of the address of the server.
#[must_use]
pub fn of_environment(mut config: Config) -> Config {
    let set = VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|url| !url.is_empty()));
    let proxy = set.and_then(|url| url.parse().ok());
    let rules = Matcher::from_env();
    config.proxy_url = chosen(config.proxy_url.as_ref(), proxy, &rules, &config.cluster_url);
    config
}

/// `given` is the `proxy-url` of a kubeconfig, or the proxy of the environment.
fn chosen(given: Option<&Uri>, of_environment: Option<Uri>, rules: &Matcher, server: &Uri) -> Option<Uri> {
    match given {
        Some(given) if Some(given) != of_environment.as_ref() => Some(given.clone()),
        _ => of_environment.filter(|_| rules.intercept(server).is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_decides_whether_there_is_a_proxy() {
        let uri = |text: &'static str| Uri::from_static(text);
        let (proxy, own) = (uri("http://127.0.0.1:3128"), uri("http://own:1"));
        let rules = Matcher::builder().https("http://127.0.0.1:3128").no("127.0.0.1,.internal").build();
        let through = |given: Option<&Uri>, server| chosen(given, Some(proxy.clone()), &rules, &uri(server));
        let remote = "https://api.example.org:6443";
        assert_eq!(through(None, remote), Some(proxy.clone()), "the proxy itself is not asked for");
        assert_eq!(through(Some(&proxy), remote), Some(proxy.clone()));
        assert_eq!(through(Some(&proxy), "https://127.0.0.1:6443"), None);
        assert_eq!(through(Some(&proxy), "https://api.internal:6443"), None);
        assert_eq!(through(Some(&own), "https://127.0.0.1:6443"), Some(own.clone()));
        assert_eq!(chosen(None, None, &Matcher::builder().build(), &uri(remote)), None);
    }
}
