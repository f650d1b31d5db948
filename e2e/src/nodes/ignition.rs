//! Ignition configurations, as far as the nodes of the tests need them: files, and configurations in configurations,
//! also such that have to be fetched. The rules are those of <https://coreos.github.io/ignition/specs/>.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use sha2::{Digest as _, Sha512};

use super::keys::Files;

/// The versions of configurations that Flatcar reads.
const VERSIONS: [&str; 6] = ["2.3.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0"];

/// The beginning of a certificate in PEM.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// The versions of configurations in which Ignition knows no proxies.
const WITHOUT_PROXIES: [&str; 2] = ["2.3.0", "3.0.0"];

/// What has been fetched, by URL.
pub(super) type Fetched = BTreeMap<String, Vec<u8>>;

/// How Ignition fetches what a configuration refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transport {
    pub(super) http_proxy: Option<String>,
    pub(super) https_proxy: Option<String>,
    pub(super) no_proxy: Vec<String>,
    /// The certificates (PEM) of the authorities that Ignition trusts in addition to those of the operating system.
    pub(super) authorities: String,
}

/// Whether user data is an Ignition configuration.
fn is_configuration(user_data: &[u8]) -> bool {
    user_data.trim_ascii_start().starts_with(b"{")
}

/// Fetches what the configurations in user data refer to, with `fetch`.
pub(super) async fn fetched(
    user_data: &[u8],
    fetch: impl AsyncFn(&str, &Transport) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Fetched> {
    let mut fetched = Fetched::new();
    if !is_configuration(user_data) {
        return Ok(fetched);
    }
    let mut left = vec![user_data.to_vec()];
    while let Some(configuration) = left.pop() {
        let (configuration, version) = parse(&configuration)?;
        let mut transport = Transport::with_proxies(&configuration, &version);
        for resource in items(&configuration, "/ignition/security/tls/certificateAuthorities") {
            add(&mut fetched, resource, &transport, &fetch).await?;
            let authority = String::from_utf8(content(resource, &fetched)?)?;
            ensure!(authority.contains(CERTIFICATE), "a certificate authority has no certificate");
            transport.authorities += &authority;
        }
        for resource in merged(&configuration, &version)? {
            add(&mut fetched, resource, &transport, &fetch).await?;
            left.push(content(resource, &fetched)?);
        }
    }
    Ok(fetched)
}

/// Fetches a resource, unless its URL contains it.
async fn add(
    fetched: &mut Fetched,
    resource: &Value,
    transport: &Transport,
    fetch: impl AsyncFn(&str, &Transport) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<()> {
    let source = source_of(resource);
    if source.is_empty() || source.starts_with("data:") || fetched.contains_key(source) {
        return Ok(());
    }
    let content = fetch(source, transport).await;
    let content = content.with_context(|| format!("fetch {}", without_query(source)))?;
    fetched.insert(source.to_owned(), content);
    Ok(())
}

impl Transport {
    /// The proxies of a configuration. The proxy for HTTP is also that for HTTPS, unless the configuration names one.
    fn with_proxies(configuration: &Value, version: &str) -> Self {
        if WITHOUT_PROXIES.contains(&version) {
            return Self::default();
        }
        let url = |field: &str| {
            let url = configuration.pointer("/ignition/proxy").and_then(|proxy| proxy.get(field));
            url.and_then(Value::as_str).map(str::to_owned)
        };
        let hosts = items(configuration, "/ignition/proxy/noProxy");
        Self {
            http_proxy: url("httpProxy"),
            https_proxy: url("httpsProxy").or_else(|| url("httpProxy")),
            no_proxy: hosts.filter_map(Value::as_str).map(str::to_owned).collect(),
            authorities: String::new(),
        }
    }
}

/// The files that a configuration writes, by path; `None` for user data that is no Ignition configuration.
pub(super) fn files(user_data: &str, fetched: &Fetched) -> anyhow::Result<Option<Files>> {
    if !is_configuration(user_data.as_bytes()) {
        return Ok(None);
    }
    let mut files = Files::new();
    collect(user_data.as_bytes(), fetched, &mut files)?;
    Ok(Some(files))
}

fn parse(configuration: &[u8]) -> anyhow::Result<(Value, String)> {
    let configuration: Value = serde_json::from_slice(configuration).context("parse the Ignition configuration")?;
    let version = configuration.pointer("/ignition/version").and_then(Value::as_str);
    let version = version.context("the Ignition configuration has no version")?.to_owned();
    ensure!(VERSIONS.contains(&version.as_str()), "Ignition has no version {version}");
    Ok((configuration, version))
}

/// The configurations that a configuration consists of.
fn merged<'a>(configuration: &'a Value, version: &str) -> anyhow::Result<Vec<&'a Value>> {
    let (list, unpacks) = match version {
        "2.3.0" => ("append", false),
        "3.0.0" => ("merge", false),
        _ => ("merge", true),
    };
    let resources: Vec<&Value> = items(configuration, &format!("/ignition/config/{list}")).collect();
    let mut packed = resources.iter().filter_map(|resource| resource.get("compression"));
    ensure!(unpacks || packed.all(|name| name == ""), "version {version} reads no compressed configuration");
    Ok(resources)
}

/// Adds the files of a configuration. Configurations that it contains come first, so that its own files win.
fn collect(configuration: &[u8], fetched: &Fetched, files: &mut Files) -> anyhow::Result<()> {
    let (configuration, version) = parse(configuration)?;
    for resource in merged(&configuration, &version)? {
        collect(&content(resource, fetched)?, fetched, files)?;
    }
    for file in items(&configuration, "/storage/files") {
        let path = file.get("path").and_then(Value::as_str).context("a file has no path")?;
        let content = match file.get("contents") {
            Some(resource) => content(resource, fetched).with_context(|| format!("read the content of {path}"))?,
            None => Vec::new(),
        };
        files.insert(path.to_owned(), String::from_utf8(content)?);
    }
    Ok(())
}

fn items<'a>(configuration: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    configuration.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn source_of(resource: &Value) -> &str {
    resource.get("source").and_then(Value::as_str).unwrap_or_default()
}

/// A URL without what may be a signature.
fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

/// The content of a resource, which is in its URL or has been fetched, and which has the hash that the resource names.
fn content(resource: &Value, fetched: &Fetched) -> anyhow::Result<Vec<u8>> {
    let source = source_of(resource);
    let data = source.strip_prefix("data:").and_then(|url| url.split_once(','));
    let content = match data {
        Some((kind, data)) if kind.ends_with(";base64") => {
            BASE64_STANDARD.decode(data).with_context(|| format!("decode {kind}"))?
        }
        Some((_, data)) => percent_decode_str(data).collect(),
        None if source.is_empty() => Vec::new(),
        None => fetched.get(source).cloned().with_context(|| format!("{} is not known here", without_query(source)))?,
    };
    if let Some(hash) = resource.pointer("/verification/hash").and_then(Value::as_str) {
        verify(&content, hash).with_context(|| format!("verify {}", without_query(source)))?;
    }
    match resource.get("compression").and_then(Value::as_str).unwrap_or_default() {
        "" => Ok(content),
        "gzip" => {
            let mut unpacked = Vec::new();
            GzDecoder::new(content.as_slice()).read_to_end(&mut unpacked).context("unpack a resource")?;
            Ok(unpacked)
        }
        other => bail!("{other} is no compression"),
    }
}

/// Fails if the content has another hash. Both lines of versions know SHA-512.
fn verify(content: &[u8], hash: &str) -> anyhow::Result<()> {
    let expected = hash.strip_prefix("sha512-").with_context(|| format!("{hash} is no sha512"))?;
    let found = sha512(content);
    ensure!(found == expected, "the content has the hash {found}, not {expected}");
    Ok(())
}

fn sha512(content: &[u8]) -> String {
    let digest = Sha512::digest(content);
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing into a String does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
