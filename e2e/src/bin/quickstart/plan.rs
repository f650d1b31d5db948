//! The clusterctl commands of the user, and their result.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use capa_e2e::{Brought, Flavor, clusterctl::Clusterctl, moto};

use crate::{CONTROL_PLANE, REGION, WORKERS, screen::Screen};

/// The version of Kubernetes on the cluster's nodes.
const VERSION: &str = "v1.36.3";

/// The folder for files that the reader may open, relative to the repository.
const FOLDER: &str = ".quickstart";

/// The checkout from which this program was compiled.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Writes a file for the reader, and returns its path relative to the repository.
pub(crate) fn keep(name: &str, content: &str) -> anyhow::Result<String> {
    let folder = repository().join(FOLDER);
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    Ok(format!("{FOLDER}/{name}"))
}

/// clusterctl with the template's variables in its environment.
pub(crate) async fn with_variables(
    clusterctl: &Clusterctl,
    flavor: Flavor,
    brought: Option<&Brought<'_>>,
    screen: &Screen,
) -> anyhow::Result<Clusterctl> {
    let mut arguments = generate(flavor);
    arguments.push("--list-variables".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let listed = clusterctl.run(&arguments).await?;
    let of_flavor: BTreeSet<&str> = listed.split_whitespace().collect();
    let mut variables = vec![
        ("AWS_REGION".to_owned(), REGION),
        ("AWS_AMI_ID".to_owned(), moto::IMAGE_ID),
        // Shorter than in production, so that the quickstart does not wait for long.
        ("NODE_UNHEALTHY_TIMEOUT_SECONDS".to_owned(), "10"),
    ];
    variables.extend(brought.into_iter().flat_map(ids));
    let own = flavor.variables().iter();
    variables.extend(own.map(|(name, value)| ((*name).to_owned(), *value)));
    variables.retain(|(name, _)| of_flavor.contains(name.as_str()));
    let mut clusterctl = clusterctl.clone();
    let mut exports = String::new();
    for (name, value) in variables {
        let export = format!("export {name}={value}");
        screen.show(&format!("$ {export}"))?;
        exports.push_str(&export);
        exports.push('\n');
        clusterctl = clusterctl.variable(&name, value);
    }
    keep("variables.sh", &exports)?;
    Ok(clusterctl)
}

/// The variables with the ids of what the user brings.
fn ids<'a>(brought: &Brought<'a>) -> Vec<(String, &'a str)> {
    let Brought { network, load_balancer, .. } = *brought;
    let mut variables = vec![
        ("AWS_VPC_ID".to_owned(), network.vpc_id.as_str()),
        ("AWS_NODE_SECURITY_GROUP_ID".to_owned(), &network.node_security_group_id),
        ("AWS_CONTROL_PLANE_SECURITY_GROUP_ID".to_owned(), &network.control_plane_security_group_id),
        ("AWS_CONTROL_PLANE_TARGET_GROUP_ARN".to_owned(), &load_balancer.target_group_arn),
        ("CONTROL_PLANE_ENDPOINT_HOST".to_owned(), &load_balancer.dns_name),
    ];
    for (letter, subnet) in ('A'..='Z').zip(network.private_subnet_ids()) {
        variables.push((format!("AWS_SUBNET_ID_{letter}"), subnet));
    }
    variables
}

/// The arguments of `clusterctl generate cluster`.
pub(crate) fn generate(flavor: Flavor) -> Vec<String> {
    vec![
        "generate".to_owned(),
        "cluster".to_owned(),
        "demo".to_owned(),
        "--infrastructure=aws-rs".to_owned(),
        format!("--flavor={}", flavor.name()),
        format!("--kubernetes-version={VERSION}"),
        format!("--control-plane-machine-count={CONTROL_PLANE}"),
        format!("--worker-machine-count={WORKERS}"),
    ]
}

/// The object of this kind, as the manifest contains it; `None` if there is none.
pub(crate) fn excerpt<'a>(manifest: &'a str, kind: &str) -> Option<&'a str> {
    let mut documents = manifest.split("\n---\n");
    let wanted = format!("kind: {kind}");
    let document = documents.find(|document| document.lines().any(|line| line == wanted));
    document.map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_object() {
        let manifest = "kind: A\nx: 1\n---\nkind: B\ny: 2\n---\nkind: C";
        assert_eq!(excerpt(manifest, "B"), Some("kind: B\ny: 2"));
        assert_eq!(excerpt(manifest, "D"), None);
    }
}
