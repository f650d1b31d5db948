//! Bootstrap data that an AWS service keeps, and the user data with which an instance fetches it. Pure.
//!
//! The user data is a boot hook of cloud-init, which makes the data a part of cloud-init's configuration. CAPA's user
//! data includes a file that its boot hook writes: cloud-init looks for the file before it runs the hook, and since
//! 20.3 it fails if the file is missing, unless a distribution has changed that (`ERROR_ON_USER_DATA_FAILURE` in
//! <https://github.com/canonical/cloud-init/blob/main/cloudinit/features.py>).

#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use capa_api::machine::SecretsBackend;
use capa_cloud::UserData;
use sha2::{Digest, Sha256};

use super::compression::gzip;
use super::digest::hex;

/// The most bytes in a part in Secrets Manager, whose limit for a binary secret is 65,536.
const SECRET_BYTES: usize = 60 * 1024;

/// The most bytes in a part in Parameter Store: 4,000 characters in base64, where a standard parameter has at most
/// 4,096.
const PARAMETER_BYTES: usize = 3_000;

/// A line that the hook does not contain.
const BOUNDARY: &str = "==cluster-api-provider-aws-rs==";

const HOOK: &str = include_str!("hook.sh");

/// Bootstrap data as a service keeps it, in parts. The `Debug` output omits the data, which contains join tokens and CA
/// keys.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredData {
    backend: SecretsBackend,
    region: String,
    prefix: String,
    parts: Vec<Vec<u8>>,
    sha256: String,
}

impl StoredData {
    /// Compresses bootstrap data for the service in this region, and divides it into at least `fewest` parts, or as
    /// many as its size requires. Equal arguments give equal parts.
    pub fn new(data: &[u8], backend: SecretsBackend, region: &str, prefix: &str, fewest: usize) -> Self {
        Self {
            backend,
            region: region.to_owned(),
            prefix: prefix.to_owned(),
            parts: split(data, backend, fewest),
            sha256: hex(&Sha256::digest(data)),
        }
    }

    /// The service that keeps the parts.
    pub fn backend(&self) -> SecretsBackend {
        self.backend
    }

    /// The number of parts.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The parts by their [names], in the order of the data. A part is the binary value of a secret, or the text value
    /// of a parameter.
    pub fn parts(&self) -> impl Iterator<Item = (String, &[u8])> {
        let names = names(self.backend, &self.prefix, self.parts.len());
        names.into_iter().zip(self.parts.iter().map(Vec::as_slice))
    }

    /// The user data with which an instance fetches the parts, and deletes them afterwards. It contains the SHA-256 of
    /// the bootstrap data but none of the data, and its size does not depend on the size of the data.
    pub fn user_data(&self) -> UserData {
        let script = self.script();
        UserData::new(
            format!(
                "MIME-Version: 1.0\n\
                 Content-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n\
                 --{BOUNDARY}\n\
                 Content-Type: text/cloud-boothook; charset=\"us-ascii\"\n\n\
                 {script}\n\
                 --{BOUNDARY}--\n"
            )
            .into_bytes(),
        )
    }

    fn script(&self) -> String {
        format!(
            "#!/bin/bash\nbackend={}\nregion={}\nprefix={}\ncount={}\nsha256={}\n{HOOK}",
            quoted(&self.backend.to_string()),
            quoted(&self.region),
            quoted(&numbered(self.backend, &self.prefix)),
            self.parts.len(),
            self.sha256,
        )
    }
}

impl fmt::Debug for StoredData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoredData")
            .field("backend", &self.backend)
            .field("region", &self.region)
            .field("prefix", &self.prefix)
            .field("count", &self.parts.len())
            .finish_non_exhaustive()
    }
}

/// Whether the hook can pass the data to cloud-init: the data is a cloud-config or a script, or a template of one. The
/// first line of a template may be known only once it is rendered.
pub fn hands_over(data: &[u8]) -> bool {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut first = lines.next().unwrap_or_default();
    if first.starts_with(b"## template: jinja") {
        first = lines.next().unwrap_or_default();
        if first.starts_with(b"{") {
            return true;
        }
    }
    let word = first.split(u8::is_ascii_whitespace).next();
    first.starts_with(b"#!") || word == Some(b"#cloud-config")
}

/// The prefix for the parts of the machine with this UID. CAPA's policies for nodes cover both: Parameter Store accepts
/// no names that begin with `aws`.
pub fn prefix(backend: SecretsBackend, uid: &str) -> String {
    match backend {
        SecretsBackend::SecretsManager => format!("aws.cluster.x-k8s.io/{uid}"),
        SecretsBackend::SsmParameterStore => format!("/cluster.x-k8s.io/{uid}"),
    }
}

/// The names of this number of parts, in the order of the data: `<prefix>-0` in Secrets Manager, `<prefix>/0` in
/// Parameter Store.
pub fn names(backend: SecretsBackend, prefix: &str, count: usize) -> Vec<String> {
    let prefix = numbered(backend, prefix);
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// The part of a name before the number.
fn numbered(backend: SecretsBackend, prefix: &str) -> String {
    match backend {
        SecretsBackend::SecretsManager => format!("{prefix}-"),
        SecretsBackend::SsmParameterStore => format!("{prefix}/"),
    }
}

/// The data, compressed even if it is compressed already, so that the instance unpacks exactly the original bytes. No
/// part is empty, because no service keeps an empty value.
fn split(data: &[u8], backend: SecretsBackend, fewest: usize) -> Vec<Vec<u8>> {
    let packed = gzip(data);
    let most_bytes = match backend {
        SecretsBackend::SecretsManager => SECRET_BYTES,
        SecretsBackend::SsmParameterStore => PARAMETER_BYTES,
    };
    let needed = packed.len().div_ceil(most_bytes);
    let count = needed.max(fewest).min(packed.len()).max(1);
    let bounds = (0..=count).map(|part| packed.len() * part / count);
    let parts = bounds.clone().zip(bounds.skip(1));
    let parts = parts.filter_map(|(from, to)| packed.get(from..to));
    match backend {
        SecretsBackend::SecretsManager => parts.map(<[u8]>::to_vec).collect(),
        SecretsBackend::SsmParameterStore => parts.map(|part| BASE64_STANDARD.encode(part).into_bytes()).collect(),
    }
}

/// The text as a quoted word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
