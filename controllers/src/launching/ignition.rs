//! User data for Ignition. Pure.
//!
//! The configurations follow <https://coreos.github.io/ignition/specs/>.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_api::machine::{Ignition, IgnitionProxy, IgnitionTls, IgnitionVersion};
use serde::Serialize;
use sha2::{Digest, Sha512};

use super::compression::gzip;
use super::digest::hex;

/// The bootstrap data as user data. With a proxy, certificate authorities or compression, which version 3.1 introduced,
/// the data is embedded in a configuration.
pub(crate) fn user_data(ignition: &Ignition, data: &[u8], compresses: bool) -> Vec<u8> {
    let fetches = ignition.proxy.is_some() || ignition.tls.is_some();
    match ignition.version.filter(|version| *version >= IgnitionVersion::V3_1) {
        Some(version) if fetches || compresses => containing(version, ignition, data),
        _ => data.to_vec(),
    }
}

/// The size of the compressed user data, if Ignition of this version reads compressed data.
pub(crate) fn compressed_size(ignition: &Ignition, data: &[u8]) -> Option<usize> {
    let version = ignition.version.filter(|version| *version >= IgnitionVersion::V3_1)?;
    Some(containing(version, ignition, data).len())
}

/// A configuration of the machine's version that refers to the bootstrap data at this URL. Ignition refuses data with
/// another hash. Version 3.1 introduced the proxy and the certificate authorities.
pub(crate) fn referring_to(ignition: &Ignition, source: &str, data: &[u8]) -> Vec<u8> {
    let version = ignition.version.unwrap_or_default();
    let resource = Resource {
        source: source.to_owned(),
        compression: None,
        verification: Some(Verification { hash: format!("sha512-{}", hex(&Sha512::digest(data))) }),
    };
    let sources =
        if version < IgnitionVersion::V3_0 { Sources::Append([resource]) } else { Sources::Merge([resource]) };
    configuration(version, sources, ignition)
}

/// A configuration that consists of the data, compressed, and of the settings of the machine.
fn containing(version: IgnitionVersion, ignition: &Ignition, data: &[u8]) -> Vec<u8> {
    let data = BASE64_STANDARD.encode(gzip(data));
    let resource = Resource { source: format!("data:;base64,{data}"), compression: Some("gzip"), verification: None };
    configuration(version, Sources::Merge([resource]), ignition)
}

fn configuration(version: IgnitionVersion, config: Sources, ignition: &Ignition) -> Vec<u8> {
    let fetches = version >= IgnitionVersion::V3_1;
    let configuration = Configuration {
        ignition: Settings {
            version: format!("{version}.0"),
            config,
            proxy: ignition.proxy.as_ref().filter(|_| fetches).map(proxy),
            security: ignition.tls.as_ref().filter(|_| fetches).map(security),
        },
    };
    // The serialization of texts and lists as JSON cannot fail.
    serde_json::to_vec(&configuration).unwrap_or_default()
}

fn proxy(proxy: &IgnitionProxy) -> Proxy<'_> {
    Proxy {
        http: proxy.http_proxy.as_deref().filter(|url| !url.is_empty()),
        https: proxy.https_proxy.as_deref().filter(|url| !url.is_empty()),
        without: &proxy.no_proxy,
    }
}

fn security(tls: &IgnitionTls) -> Security {
    let authorities = tls.certificate_authorities.iter();
    let authorities =
        authorities.map(|source| Resource { source: source.clone(), compression: None, verification: None });
    Security { tls: Tls { certificate_authorities: authorities.collect() } }
}

/// An Ignition configuration.
#[derive(Serialize)]
struct Configuration<'a> {
    ignition: Settings<'a>,
}

#[derive(Serialize)]
struct Settings<'a> {
    version: String,
    config: Sources,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<Proxy<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Security>,
}

/// The configurations that a configuration consists of. The name of the list changed with version 3.0.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Sources {
    Append([Resource; 1]),
    Merge([Resource; 1]),
}

#[derive(Serialize)]
struct Resource {
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<Verification>,
}

#[derive(Serialize)]
struct Verification {
    hash: String,
}

#[derive(Serialize)]
struct Proxy<'a> {
    #[serde(rename = "httpProxy", skip_serializing_if = "Option::is_none")]
    http: Option<&'a str>,
    #[serde(rename = "httpsProxy", skip_serializing_if = "Option::is_none")]
    https: Option<&'a str>,
    #[serde(rename = "noProxy", skip_serializing_if = "<[String]>::is_empty")]
    without: &'a [String],
}

#[derive(Serialize)]
struct Security {
    tls: Tls,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tls {
    certificate_authorities: Vec<Resource>,
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::read;

    const DATA: &[u8] = br#"{"ignition": {"version": "2.3.0"}}"#;

    fn sent(ignition: &str, compresses: bool) -> Vec<u8> {
        user_data(&read(ignition), DATA, compresses)
    }

    fn configuration(ignition: &str) -> Value {
        serde_json::from_slice(&sent(ignition, false)).unwrap()
    }

    /// The bootstrap data in a configuration that contains it.
    fn unpacked(configuration: &Value) -> Vec<u8> {
        let merged = &configuration["ignition"]["config"]["merge"];
        assert_eq!(merged.as_array().unwrap().len(), 1);
        assert_eq!(merged[0]["compression"], "gzip");
        let source = merged[0]["source"].as_str().unwrap();
        let packed = BASE64_STANDARD.decode(source.strip_prefix("data:;base64,").unwrap());
        let mut data = Vec::new();
        GzDecoder::new(packed.unwrap().as_slice()).read_to_end(&mut data).unwrap();
        data
    }

    #[test]
    fn the_bootstrap_data_is_sent_as_it_is() {
        for ignition in ["{}", "{version: '2.3'}", "{version: '3.4'}"] {
            assert_eq!(sent(ignition, false), DATA, "{ignition}");
        }
        assert_eq!(sent("{version: '3.0'}", true), DATA, "it reads no compressed data");
    }

    #[test]
    fn settings_of_the_machine_go_with_the_bootstrap_data() {
        let table = [
            ("ignition.version", "{version: '3.1', proxy: {}}", "/ignition/version", json!("3.1.0")),
            (
                "ignition.proxy.httpProxy",
                "{version: '3.1', proxy: {httpProxy: 'http://10.0.0.10:3128', httpsProxy: ''}}",
                "/ignition/proxy",
                json!({"httpProxy": "http://10.0.0.10:3128"}),
            ),
            (
                "ignition.proxy.httpsProxy",
                "{version: '3.2', proxy: {httpsProxy: 'http://10.0.0.11:3128'}}",
                "/ignition/proxy/httpsProxy",
                json!("http://10.0.0.11:3128"),
            ),
            (
                "ignition.proxy.noProxy[]",
                "{version: '3.3', proxy: {noProxy: [169.254.169.254, '*.internal']}}",
                "/ignition/proxy/noProxy",
                json!(["169.254.169.254", "*.internal"]),
            ),
            (
                "ignition.tls.certificateAuthorities[]",
                "{version: '3.4', tls: {certificateAuthorities: ['https://example.com/ca.pem']}}",
                "/ignition/security/tls/certificateAuthorities",
                json!([{"source": "https://example.com/ca.pem"}]),
            ),
        ];
        for (field, ignition, pointer, expected) in table {
            let configuration = configuration(ignition);
            assert_eq!(configuration.pointer(pointer), Some(&expected), "{field}");
            assert_eq!(unpacked(&configuration), DATA, "{field}");
        }
    }

    #[test]
    fn a_configuration_refers_to_data_that_is_elsewhere() {
        let referring = |ignition: &str| -> Value {
            let sent = referring_to(&read(ignition), "s3://boot/node/uid-m", b"{}");
            serde_json::from_slice(&sent).unwrap()
        };
        // printf '{}' | sha512sum
        let hash = "sha512-27c74670adb75075fad058d5ceaf7b20c4e7786c83bae8a32f626f9782af34c9\
                    a33c2046ef60fd2a7878d378e29fec851806bbd9a67878f3a9f1cda4830763fd";
        let resource = json!([{"source": "s3://boot/node/uid-m", "verification": {"hash": hash}}]);
        for (ignition, version, list) in [
            ("{}", "2.3.0", "append"),
            ("{version: '2.3'}", "2.3.0", "append"),
            ("{version: '3.0'}", "3.0.0", "merge"),
            ("{version: '3.4'}", "3.4.0", "merge"),
        ] {
            let expected = json!({"ignition": {"version": version, "config": {list: resource}}});
            assert_eq!(referring(ignition), expected, "{ignition}");
        }
        let proxied = referring("{version: '3.2', proxy: {httpProxy: 'http://10.0.0.10:3128'}}");
        let proxy = proxied.pointer("/ignition/proxy/httpProxy");
        assert_eq!(proxy, Some(&json!("http://10.0.0.10:3128")));
        let older = referring("{version: '2.3', proxy: {httpProxy: 'http://10.0.0.10:3128'}}");
        assert_eq!(older.pointer("/ignition/proxy"), None);
    }

    #[test]
    fn data_is_compressed_on_request_to_the_same_bytes_each_time() {
        let compressed = sent("{version: '3.4'}", true);
        assert_eq!(compressed, sent("{version: '3.4'}", true));
        assert_eq!(unpacked(&serde_json::from_slice(&compressed).unwrap()), DATA);
        assert_eq!(compressed_size(&read("{version: '3.4'}"), DATA), Some(compressed.len()));
        assert_eq!(compressed_size(&read("{version: '2.3'}"), DATA), None);
    }
}
