//! The certificates and keys of one world, valid for the loopback address only.

use std::path::PathBuf;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::directory::Directory;

/// Names under which clients reach the API server and the webhooks.
const NAMES: [&str; 5] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// Everything that needs a key, on disk where the programs look for it and in memory where we need it.
pub(crate) struct Pki {
    /// The certificate authority, PEM.
    pub(crate) ca: String,
    /// Client certificate of an administrator (`system:masters`), PEM.
    pub(crate) admin_certificate: String,
    /// Its key, PEM.
    pub(crate) admin_key: String,
    /// Folder with `ca.crt`, `tls.crt` and `tls.key` (serving certificate), `sa.key` and `sa.pub`.
    pub(crate) folder: PathBuf,
}

impl Pki {
    /// Generates the keys and writes them to the folder `pki` of the world.
    pub(crate) fn generate(directory: &Directory) -> anyhow::Result<Self> {
        let (ca, issuer) = authority().context("make the certificate authority")?;
        let (serving, serving_key) = issue(&issuer, "kube-apiserver", None, ExtendedKeyUsagePurpose::ServerAuth)?;
        let (admin_certificate, admin_key) = issue(
            &issuer,
            "admin",
            Some("system:masters"),
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        let tokens = KeyPair::generate()?;

        let folder = directory.folder("pki")?;
        directory.write("pki/ca.crt", &ca)?;
        directory.write("pki/tls.crt", serving)?;
        directory.write("pki/tls.key", serving_key)?;
        directory.write("pki/sa.key", tokens.serialize_pem())?;
        directory.write("pki/sa.pub", tokens.public_key_pem())?;
        Ok(Self {
            ca,
            admin_certificate,
            admin_key,
            folder,
        })
    }

    /// The path of a file in the folder, as an argument for a program.
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
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
fn issue(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    organization: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
) -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(NAMES.map(str::to_owned).to_vec())?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let certificate = params
        .signed_by(&key, issuer)
        .with_context(|| format!("issue the certificate of {name}"))?;
    Ok((certificate.pem(), key.serialize_pem()))
}
