//! The certificate authorities of a cluster, as the user data of its nodes contains them.

use anyhow::Context;
use rcgen::{ExtendedKeyUsagePurpose, Issuer, KeyPair, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

use super::keys::Files;
use crate::pki::{self, Issued};

/// A certificate authority with its key.
pub(super) struct Authority {
    pub(super) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The authority in these two files of kubeadm's folder, `<name>.crt` and `<name>.key`.
    pub(super) fn read(files: &Files, name: &str) -> anyhow::Result<Self> {
        let file = |extension: &str| {
            let path = format!("{name}.{extension}");
            files.get(&path).with_context(|| format!("the user data has no {path}"))
        };
        let (certificate, key) = (file("crt")?, file("key")?);
        let key = KeyPair::from_pem(key).with_context(|| format!("read the key {name}"))?;
        let issuer =
            Issuer::from_ca_cert_pem(certificate, key).with_context(|| format!("read the certificate {name}"))?;
        Ok(Self { certificate: certificate.clone(), issuer })
    }

    /// The hash of the public key, by which a joining node verifies the authority.
    pub(super) fn hash(&self) -> String {
        let digest = Sha256::digest(self.issuer.key().subject_public_key_info());
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        format!("sha256:{}", digits.collect::<String>())
    }

    /// A certificate for a server with these names.
    pub(super) fn server(&self, common_name: &str, names: Vec<String>) -> anyhow::Result<Issued> {
        // For server and client authentication, as in the etcd certificates of kubeadm.
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        pki::issue(&self.issuer, common_name, None, names, usages.to_vec())
    }

    /// A certificate for a client with all permissions.
    pub(super) fn administrator(&self) -> anyhow::Result<Issued> {
        let usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        pki::issue(&self.issuer, "kubernetes-admin", Some("system:masters"), vec![], usages)
    }
}
