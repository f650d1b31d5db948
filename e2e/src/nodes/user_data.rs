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
    let pki = files
        .into_iter()
        .filter_map(|(path, content)| Some((path.strip_prefix(PKI)?.to_owned(), content)))
        .collect();
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
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut unpacked)
        .context("unpack the user data")?;
    Ok(unpacked)
}

/// Replaces the only template expression of cloud-init that templates for AWS machines use.
fn rendered(text: &str, host_name: &str) -> String {
    let asked = ["{{ ds.meta_data.local_hostname }}", "{{ds.meta_data.local_hostname}}"];
    asked
        .iter()
        .fold(text.to_owned(), |text, asked| text.replace(asked, host_name))
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
    value
        .map(str::to_owned)
        .with_context(|| format!("the configuration has no {pointer}"))
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
            external_cloud_provider: arguments
                .get("cloud-provider")
                .is_some_and(|provider| provider == "external"),
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

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = r#"## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      certificate
-   path: /etc/kubernetes/pki/etcd/ca.key
    encoding: "base64"
    content: |
      a2V5
-   path: /run/kubeadm/kubeadm.yaml
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      controlPlaneEndpoint: api.example:6443
      kind: ClusterConfiguration
      kubernetesVersion: v1.36.2

      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      nodeRegistration:
        name: '{{ ds.meta_data.local_hostname }}'
        kubeletExtraArgs:
        - {name: node-labels, value: "a=b,c=d"}
        - {name: cloud-provider, value: external}
runcmd:
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml'
"#;

    const JOIN: &str = r"#cloud-config
write_files:
-   path: /run/kubeadm/kubeadm-join-config.yaml
    content: |
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: JoinConfiguration
      controlPlane: {localAPIEndpoint: {}}
      discovery:
        bootstrapToken: {apiServerEndpoint: 'api.example:6443', token: a.b, caCertHashes: ['sha256:1']}
      nodeRegistration: {taints: [], kubeletExtraArgs: {provider-id: 'aws:///a/i-1'}}
";

    fn parse(text: &str) -> anyhow::Result<Option<Bootstrap>> {
        read(text.into(), &Fetched::new(), "ip-10-0-0-1")
    }

    #[test]
    fn the_first_node_gets_configuration_name_and_keys() {
        let Some(Bootstrap::Init(init)) = parse(INIT).unwrap() else {
            panic!("no init");
        };
        assert_eq!(init.configuration.kubernetes_version, "v1.36.2");
        assert_eq!(init.registration.name.as_deref(), Some("ip-10-0-0-1"));
        assert_eq!(init.registration.labels.get("c").map(String::as_str), Some("d"));
        assert_eq!(init.registration.taints, None);
        assert!(init.registration.external_cloud_provider);
        assert_eq!(init.pki.get("ca.crt").map(String::as_str), Some("certificate\n"));
        assert_eq!(init.pki.get("etcd/ca.key").map(String::as_str), Some("key"));
    }

    #[test]
    fn a_joining_node_reads_its_trust_from_packed_user_data() {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(JOIN.as_bytes()).unwrap();
        let packed = BASE64_STANDARD.encode(gzip.finish().unwrap());
        let Some(Bootstrap::Join(join)) = read(decode(&packed).unwrap(), &Fetched::new(), "h").unwrap() else {
            panic!("no join");
        };
        assert!(join.control_plane);
        assert_eq!(
            (join.endpoint.as_str(), join.token.as_str()),
            ("api.example:6443", "a.b")
        );
        assert_eq!(join.authority_hashes, ["sha256:1"]);
        assert_eq!(join.registration.taints, Some(vec![]));
        assert!(!join.registration.external_cloud_provider);
        assert_eq!(join.registration.provider_id.as_deref(), Some("aws:///a/i-1"));
    }

    #[test]
    fn user_data_of_another_kind_makes_no_node() {
        assert!(parse("#cloud-config\n# a join token").unwrap().is_none());
        assert!(parse("#!/bin/sh\ntrue").unwrap().is_none());
        assert!(parse("").unwrap().is_none());
    }
}
