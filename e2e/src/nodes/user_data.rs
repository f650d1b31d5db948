//! The bootstrap data of the kubeadm bootstrap provider, parsed as cloud-init, Ignition and kubeadm parse it.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use serde_json::Value;

use super::configuration::Configuration;
use super::ignition::{self, Fetched};
use super::keys::Files;

/// The paths of the configurations of `kubeadm init` and `kubeadm join` in the bootstrap provider's cloud-config.
const INIT_CONFIGURATION: &str = "/run/kubeadm/kubeadm.yaml";
const JOIN_CONFIGURATION: &str = "/run/kubeadm/kubeadm-join-config.yaml";

/// The path of either in its Ignition configuration.
const IGNITION_CONFIGURATION: &str = "/etc/kubeadm.yml";

/// The folder of kubeadm's keys.
const PKI: &str = "/etc/kubernetes/pki/";

/// The first bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The kubeadm command of the user data.
#[derive(Clone, Debug)]
pub(super) enum Bootstrap {
    /// `kubeadm init`, on the first control plane node.
    Init(Init),
    /// `kubeadm join`, on any other node.
    Join(Join),
}

/// `kubeadm init`.
#[derive(Clone, Debug)]
pub(super) struct Init {
    /// The ClusterConfiguration of the user data.
    pub(super) configuration: Configuration,
    /// The host and port of the API server.
    pub(super) endpoint: String,
    pub(super) registration: NodeRegistration,
    pub(super) pki: Files,
}

/// `kubeadm join`.
#[derive(Clone, Debug)]
pub(super) struct Join {
    pub(super) control_plane: bool,
    /// The host and port of the API server.
    pub(super) endpoint: String,
    pub(super) token: String,
    /// The `sha256:…` hashes of the public keys of trusted authorities.
    pub(super) authority_hashes: Vec<String>,
    pub(super) registration: NodeRegistration,
    pub(super) pki: Files,
}

/// The registration of the Node by the kubelet.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeRegistration {
    pub(super) name: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// The taints; `None` for kubeadm's default.
    pub(super) taints: Option<Vec<Value>>,
    /// Whether the kubelet leaves the initialization of the Node to a cloud controller.
    pub(super) external_cloud_provider: bool,
    /// The provider id in the kubelet's arguments, if any.
    pub(super) provider_id: Option<String>,
}

/// Parses a configuration, packed or not, and what has been fetched for it. Returns `None` where the configuration does
/// not call kubeadm.
pub(super) fn read(configuration: Vec<u8>, fetched: &Fetched, host_name: &str) -> anyhow::Result<Option<Bootstrap>> {
    let text = String::from_utf8(unpacked(configuration)?).context("the user data is no text")?;
    if let Some(mut files) = ignition::files(&text, fetched)? {
        return match files.remove(IGNITION_CONFIGURATION) {
            Some(join) if join.contains("kind: JoinConfiguration") => bootstrap(None, Some(&join), files),
            init => bootstrap(init.as_deref(), None, files),
        };
    }
    if !text.contains("#cloud-config") {
        return Ok(None);
    }
    let document: Value = serde_saphyr::from_str(&rendered(&text, host_name)).context("parse the cloud-config")?;
    let mut files = files(&document)?;
    let (init, join) = (files.remove(INIT_CONFIGURATION), files.remove(JOIN_CONFIGURATION));
    bootstrap(init.as_deref(), join.as_deref(), files)
}

/// The kubeadm command with one of these configurations.
fn bootstrap(init: Option<&str>, join: Option<&str>, files: Files) -> anyhow::Result<Option<Bootstrap>> {
    let pki =
        files.into_iter().filter_map(|(path, content)| Some((path.strip_prefix(PKI)?.to_owned(), content))).collect();
    match (init, join) {
        (Some(init), None) => Ok(Some(Bootstrap::Init(read_init(init, pki)?))),
        (None, Some(join)) => Ok(Some(Bootstrap::Join(read_join(join, pki)?))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => bail!("the user data calls both init and join"),
    }
}

/// The content of user data in base64, unpacked.
pub(super) fn decode(user_data: &str) -> anyhow::Result<Vec<u8>> {
    unpacked(BASE64_STANDARD.decode(user_data).context("decode the user data")?)
}

fn unpacked(bytes: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut unpacked).context("unpack the user data")?;
    Ok(unpacked)
}

/// Replaces the only template expression of cloud-init that templates for AWS machines use.
fn rendered(text: &str, host_name: &str) -> String {
    let asked = ["{{ ds.meta_data.local_hostname }}", "{{ds.meta_data.local_hostname}}"];
    asked.iter().fold(text.to_owned(), |text, asked| text.replace(asked, host_name))
}

fn files(document: &Value) -> anyhow::Result<Files> {
    let mut files = Files::new();
    let listed = document.get("write_files").and_then(Value::as_array);
    for file in listed.into_iter().flatten() {
        let text = |field: &str| file.get(field).and_then(Value::as_str).unwrap_or_default();
        let content = match text("encoding") {
            "" => text("content").to_owned(),
            "base64" => String::from_utf8(BASE64_STANDARD.decode(text("content").trim())?)?,
            other => bail!("{} is encoded as {other}, which is not known here", text("path")),
        };
        files.insert(text("path").to_owned(), content);
    }
    Ok(files)
}

fn read_init(configuration: &str, pki: Files) -> anyhow::Result<Init> {
    let cluster = document(configuration, "ClusterConfiguration")?;
    let init = document(configuration, "InitConfiguration").unwrap_or_default();
    Ok(Init {
        endpoint: text(&cluster, "/controlPlaneEndpoint")?,
        registration: NodeRegistration::read(&init),
        configuration: Configuration::new(cluster)?,
        pki,
    })
}

fn read_join(configuration: &str, pki: Files) -> anyhow::Result<Join> {
    let join = document(configuration, "JoinConfiguration")?;
    let hashes = join.pointer("/discovery/bootstrapToken/caCertHashes");
    let hashes = hashes.and_then(Value::as_array).into_iter().flatten();
    Ok(Join {
        control_plane: join.get("controlPlane").is_some_and(|plane| !plane.is_null()),
        endpoint: text(&join, "/discovery/bootstrapToken/apiServerEndpoint")?,
        token: text(&join, "/discovery/bootstrapToken/token")?,
        authority_hashes: hashes.filter_map(Value::as_str).map(str::to_owned).collect(),
        registration: NodeRegistration::read(&join),
        pki,
    })
}

fn text(configuration: &Value, pointer: &str) -> anyhow::Result<String> {
    let value = configuration.pointer(pointer).and_then(Value::as_str);
    value.map(str::to_owned).with_context(|| format!("the configuration has no {pointer}"))
}

/// The document with this kind, in a file of several documents.
fn document(file: &str, kind: &str) -> anyhow::Result<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(file).with_context(|| format!("parse {kind}"))?;
    let is_it = |document: &Value| document.get("kind").is_some_and(|found| found == kind);
    let found = documents.into_iter().find(is_it);
    found.with_context(|| format!("there is no {kind}"))
}

impl NodeRegistration {
    /// Reads the registration of an InitConfiguration or a JoinConfiguration.
    fn read(configuration: &Value) -> Self {
        let registration = configuration.get("nodeRegistration").unwrap_or(&Value::Null);
        let arguments = registration.get("kubeletExtraArgs").map(arguments).unwrap_or_default();
        let labels = arguments.get("node-labels").map(String::as_str).unwrap_or_default();
        let pairs = labels.split(',').filter_map(|label| label.split_once('='));
        Self {
            name: registration.get("name").and_then(Value::as_str).map(str::to_owned),
            labels: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            taints: registration.get("taints").and_then(Value::as_array).cloned(),
            external_cloud_provider: arguments.get("cloud-provider").is_some_and(|provider| provider == "external"),
            provider_id: arguments.get("provider-id").cloned(),
        }
    }
}

/// The kubelet's arguments: a list of names and values, or a map in older versions.
fn arguments(given: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let listed = given.as_array().into_iter().flatten();
    let listed = listed.filter_map(|pair| Some((text(pair.get("name")?)?, text(pair.get("value")?)?)));
    let mapped = given.as_object().into_iter().flatten();
    let mapped = mapped.filter_map(|(name, value)| Some((name.clone(), text(value)?)));
    listed.chain(mapped).collect()
}
