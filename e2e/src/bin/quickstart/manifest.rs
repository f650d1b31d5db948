//! The objects of the quickstart: a template in the repository, with the ids of the user's network filled in.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use capa_e2e::{
    moto,
    user::{Network, User},
};

/// What is filled in, relative to the repository.
pub(crate) const TEMPLATE: &str = "templates/quickstart.yaml";

/// Where it is written to, relative to the repository.
pub(crate) const FILLED_IN: &str = ".quickstart/demo.yaml";

/// The checkout this program was compiled in.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Fills the template in, keeps the result for the reader, and gives it.
pub(crate) fn write(user: &User, network: &Network) -> anyhow::Result<String> {
    let template = repository().join(TEMPLATE);
    let template = fs::read_to_string(&template).with_context(|| format!("read {}", template.display()))?;
    let mut values = vec![
        ("AWS_REGION".to_owned(), user.region()),
        ("AWS_VPC_ID".to_owned(), network.vpc_id.as_str()),
        ("AWS_NODE_SECURITY_GROUP_ID".to_owned(), &network.node_security_group_id),
        ("AWS_AMI_ID".to_owned(), moto::IMAGE_ID),
    ];
    for (letter, subnet) in ('A'..='Z').zip(network.private_subnet_ids()) {
        values.push((format!("AWS_SUBNET_ID_{letter}"), subnet));
    }
    let manifest = fill_in(&template, &values)?;

    let path = repository().join(FILLED_IN);
    fs::create_dir_all(path.parent().context("the manifest lies in a folder")?)?;
    fs::write(&path, &manifest).with_context(|| format!("write {}", path.display()))?;
    Ok(manifest)
}

/// Replaces `${NAME}` outside comments, as `clusterctl generate` would. A name without a value is an error.
fn fill_in(template: &str, values: &[(String, &str)]) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for line in template.lines() {
        let mut line = line.to_owned();
        if !line.trim_start().starts_with('#') {
            for (name, value) in values {
                line = line.replace(&format!("${{{name}}}"), value);
            }
            if line.contains("${") {
                bail!("there is no value for what stands in the line {}", line.trim());
            }
        }
        lines.push(line);
    }
    Ok(lines.join("\n") + "\n")
}

/// The specification of the object of this kind, as it stands in the manifest, without comments.
pub(crate) fn excerpt(manifest: &str, kind: &str) -> String {
    let document = manifest
        .split("\n---\n")
        .find(|document| document.lines().any(|line| line == format!("kind: {kind}")));
    let lines = document.unwrap_or_default().lines();
    let lines: Vec<_> = lines.filter(|line| !line.trim_start().starts_with('#')).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_outside_comments_needs_a_value() {
        let values = [("A".to_owned(), "vpc-1")];
        assert_eq!(fill_in("# ${B}\nid: ${A}", &values).unwrap(), "# ${B}\nid: vpc-1\n");
        assert!(fill_in("id: ${B}", &values).is_err());
    }

    #[test]
    fn an_excerpt_is_one_object_without_comments() {
        let manifest = "kind: A\nx: 1\n---\nkind: B\n# why\ny: 2\n---\nkind: C";
        assert_eq!(excerpt(manifest, "B"), "kind: B\ny: 2");
    }
}
