//! Connections to AWS: one pool for all clients of the process. By default, the SDK gives each client its own pool with
//! all root certificates of the system, and a session has several clients. Identities can share connections, because
//! each request is signed separately.

use std::sync::OnceLock;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpClient, HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// The connections. They use the settings of the first client, because all clients have the same settings.
#[derive(Debug, Default)]
pub(crate) struct SharedConnections(OnceLock<SharedHttpConnector>);

impl HttpClient for SharedConnections {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let connect = || {
            // The SDK creates its default client in the same way.
            let mut connector = Connector::builder()
                .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
                .connector_settings(settings.clone())
                .proxy_config(ProxyConfig::from_env());
            connector.set_sleep_impl(components.sleep_impl());
            SharedHttpConnector::new(connector.build())
        };
        self.0.get_or_init(connect).clone()
    }
}
