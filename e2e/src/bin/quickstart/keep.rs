//! What the reader is told about a world that keeps running.

use std::path::{Path, PathBuf};

use capa_e2e::aws_proxy::AccessKey;

use crate::{REGION, report::KUBECTL};

/// The clusterctl that `make tools` installed, as a path relative to the repository.
const CLUSTERCTL: &str = "bin/clusterctl";

/// The namespace of the reader's own clusters in the example.
const ANOTHER: &str = "team-b";

/// A world that keeps running.
pub(crate) struct Kept<'a> {
    /// The folder of the world.
    pub(crate) folder: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    /// The configuration of clusterctl, which names the repository on disk.
    pub(crate) clusterctl: &'a Path,
    /// The proxy that resolves the names of API servers.
    pub(crate) endpoints: String,
    /// The namespace of the cluster, which the manager watches alone.
    pub(crate) namespace: &'a str,
    /// The program of the manager.
    pub(crate) manager: PathBuf,
    /// The URL of AWS's APIs.
    pub(crate) aws: &'a str,
    /// The reader's key.
    pub(crate) key: &'a AccessKey,
    /// The manager's key.
    pub(crate) manager_key: &'a AccessKey,
    /// The file whose creation stops everything.
    pub(crate) stop: &'a Path,
    /// The MachineDeployment of the cluster.
    pub(crate) deployment: &'a str,
}

impl Kept<'_> {
    /// The commands with which the reader looks around, in the folder of the repository.
    pub(crate) fn directions(&self) -> String {
        [
            self.objects(),
            self.clusterctl(),
            self.aws(),
            self.logs(),
            self.another_manager(),
            format!("Stop everything:\n  touch {}\n", self.stop.display()),
        ]
        .join("\n")
    }

    fn objects(&self) -> String {
        format!(
            "Look around, in this folder:
  export KUBECONFIG={}
  {KUBECTL} get cluster,awscluster,machinedeployment,machine,awsmachine
  {KUBECTL} describe awsmachine
  {KUBECTL} scale machinedeployment {} --replicas=5
  {KUBECTL} explain awscluster.spec

The cluster itself:
  HTTPS_PROXY={} {KUBECTL} --kubeconfig .quickstart/demo.kubeconfig get nodes
",
            self.kubeconfig.display(),
            self.deployment,
            self.endpoints,
        )
    }

    fn clusterctl(&self) -> String {
        format!(
            "clusterctl, with the configuration of this world and the variables of the template:
  export AWS_B64ENCODED_CREDENTIALS=Cg== CLUSTERCTL_DISABLE_VERSIONCHECK=true
  source .quickstart/variables.sh
  {CLUSTERCTL} --config {config} describe cluster demo
  {CLUSTERCTL} --config {config} generate cluster second --infrastructure aws-rs --list-variables
",
            config = self.clusterctl.display(),
        )
    }

    fn aws(&self) -> String {
        format!(
            "AWS, if you have its command line:
  export AWS_ENDPOINT_URL={} AWS_REGION={REGION}
  export AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={}
  aws ec2 describe-instances
",
            self.aws, self.key.access_key_id, self.key.secret_access_key,
        )
    }

    fn logs(&self) -> String {
        format!(
            "Logs of every program, the manager's in the folder of its namespace:
  {}
  {}
",
            self.folder.display(),
            self.folder.join(self.namespace).join("manager-1.log").display(),
        )
    }

    /// The command line of a manager beside the one that runs.
    fn another_manager(&self) -> String {
        format!(
            "The manager watches the namespace {} alone. Another one for another namespace:
  {KUBECTL} create namespace {ANOTHER}
  AWS_ENDPOINT_URL={} AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true \\
    AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={} \\
    {} manager --kubeconfig={} \\
    --namespace={ANOTHER} --health-addr=127.0.0.1:0 --diagnostics-address=0
",
            self.namespace,
            self.aws,
            self.manager_key.access_key_id,
            self.manager_key.secret_access_key,
            self.manager.display(),
            self.folder.join(self.namespace).join("manager.kubeconfig").display(),
        )
    }
}

#[cfg(test)]
mod tests {
    use capa_rs::Cli;
    use clap::Parser as _;

    use super::*;

    fn key(id: &str) -> AccessKey {
        AccessKey { access_key_id: id.to_owned(), secret_access_key: format!("secret of {id}") }
    }

    fn directions() -> String {
        let folder = Path::new("/tmp/world");
        let kept = Kept {
            folder,
            kubeconfig: &folder.join("admin.kubeconfig"),
            clusterctl: &folder.join("repository/all-providers.yaml"),
            endpoints: "http://127.0.0.1:1".to_owned(),
            namespace: "quickstart-1",
            manager: PathBuf::from("target/debug/capa-rs"),
            aws: "http://127.0.0.1:2",
            key: &key("reader"),
            manager_key: &key("manager"),
            stop: &folder.join("stop"),
            deployment: "demo-md-0",
        };
        kept.directions()
    }

    #[test]
    fn the_directions_name_configuration_logs_and_end() {
        let directions = directions();
        for part in [
            "export KUBECONFIG=/tmp/world/admin.kubeconfig",
            "bin/clusterctl --config /tmp/world/repository/all-providers.yaml describe",
            "\n  /tmp/world\n",
            "/tmp/world/quickstart-1/manager-1.log",
            "touch /tmp/world/stop",
        ] {
            assert!(directions.contains(part), "{part} is missing in:\n{directions}");
        }
    }

    #[test]
    fn the_manager_takes_the_command_line_of_the_directions() {
        let directions = directions().replace("\\\n", " ");
        let line = directions.lines().find(|line| line.contains(" manager --")).unwrap();
        let (variables, arguments) = line.rsplit_once(" manager ").unwrap();
        assert!(variables.contains("AWS_ACCESS_KEY_ID=manager ") && variables.ends_with("capa-rs"));
        let command = ["capa-rs", "manager"].into_iter().chain(arguments.split_whitespace());
        Cli::try_parse_from(command).unwrap();
    }
}
