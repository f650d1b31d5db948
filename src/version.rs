//! `capa-rs version`: prints the version of this program, and the versions of the APIs that it works with.

use std::io::{self, Write};

use anyhow::Result;
use capa_api::meta;
use capa_runtime::version::MINIMUM;

pub(crate) fn run() -> Result<()> {
    io::stdout().lock().write_all(text().as_bytes())?;
    Ok(())
}

/// The output: one `name: value` per line.
fn text() -> String {
    format!(
        "version: v{}\napiVersion: {}/{}\ncontract: {}\nkubernetes: {MINIMUM} or newer\nplatform: {}/{}\n",
        env!("CARGO_PKG_VERSION"),
        meta::GROUP,
        meta::VERSION,
        contract(),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

/// The version of the Cluster API contract, from the label of the CRDs.
fn contract() -> &'static str {
    meta::CONTRACT_LABEL.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_version_is_that_of_the_release_and_its_contract() {
        let said: Value = serde_saphyr::from_str(&text()).unwrap();
        let metadata: Value = serde_saphyr::from_str(include_str!("../metadata.yaml")).unwrap();
        assert_eq!(said["contract"], metadata["releaseSeries"][0]["contract"]);
        let numbers = format!("{}.{}", metadata["releaseSeries"][0]["major"], metadata["releaseSeries"][0]["minor"]);
        let version = said["version"].as_str().unwrap();
        assert!(version.starts_with(&format!("v{numbers}.")), "{version}");
        assert_eq!(said["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta2");
        assert_eq!(said["kubernetes"], "1.31 or newer");
    }
}
