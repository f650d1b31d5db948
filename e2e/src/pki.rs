//! The certificates and keys of one world, valid for the loopback address only.

use std::path::PathBuf;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::directory::Directory;

/// The name of an API server towards those to which it hands requests on.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// The names by which clients reach the API server and the webhooks.
const NAMES: [&str; 5] = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// The keys and certificates of a world, on disk for its programs and in memory for this process.
pub(crate) struct Pki {
    /// The certificate authority, PEM.
    pub(crate) ca: String,
    /// Client certificate of an administrator (`system:masters`).
    pub(crate) admin: Issued,
    /// Folder with `ca.crt`, `tls.crt` and `tls.key` (serving certificate), `front-proxy.crt` and `front-proxy.key` (of
    /// an API server that hands requests on), `sa.key` and `sa.pub`.
    pub(crate) folder: PathBuf,
}

impl Pki {
    /// Generates the keys and writes them to the folder `pki` of the world.
    pub(crate) fn generate(directory: &Directory) -> anyhow::Result<Self> {
        let (ca, issuer) = authority().context("make the certificate authority")?;
        let (server, client) = (ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth);
        let serving = issue(&issuer, "kube-apiserver", None, names(), vec![server])?;
        let admin = issue(&issuer, "admin", Some("system:masters"), vec![], vec![client.clone()])?;
        let front_proxy = issue(&issuer, FRONT_PROXY, None, vec![], vec![client])?;
        let tokens = KeyPair::generate()?;

        let folder = directory.folder("pki")?;
        directory.write("pki/ca.crt", &ca)?;
        directory.write("pki/tls.crt", serving.certificate)?;
        directory.write("pki/tls.key", serving.key)?;
        directory.write("pki/front-proxy.crt", front_proxy.certificate)?;
        directory.write("pki/front-proxy.key", front_proxy.key)?;
        directory.write("pki/sa.key", tokens.serialize_pem())?;
        directory.write("pki/sa.pub", tokens.public_key_pem())?;
        Ok(Self { ca, admin, folder })
    }

    /// The path of a file in the folder, as an argument for a program.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

/// The names by which programs on this host reach an API server on it.
pub(crate) fn names() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

fn authority() -> anyhow::Result<(String, Issuer<'static, KeyPair>)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "capa-world");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate, Issuer::new(params, key)))
}

/// A certificate and its key, both PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Issues a certificate, with alternative names for a server.
pub(crate) fn issue(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    organization: Option<&str>,
    names: Vec<String>,
    usages: Vec<ExtendedKeyUsagePurpose>,
) -> anyhow::Result<Issued> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages;
    let certificate = params.signed_by(&key, issuer).with_context(|| format!("issue the certificate of {name}"))?;
    Ok(Issued { certificate: certificate.pem(), key: key.serialize_pem() })
}
