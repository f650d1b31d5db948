//! The files of keys and certificates of kubeadm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::pki::Issued;

/// The files below the folder of kubeadm's keys, by name, e.g. `etcd/ca.crt`.
pub(super) type Files = BTreeMap<String, String>;

/// Writes the files below a folder.
pub(super) fn write_keys(folder: &Path, files: &Files) -> anyhow::Result<()> {
    for (name, content) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Writes a certificate and its key, and returns their paths.
pub(super) fn write(folder: &Path, name: &str, issued: &Issued) -> anyhow::Result<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    std::fs::write(&certificate, &issued.certificate)?;
    std::fs::write(&key, &issued.key)?;
    Ok((certificate, key))
}
