//! Nodes that fetch their bootstrap data from AWS with the real AWS CLI, without a manager.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_api::machine::SecretsBackend;
use capa_controllers::boot_hook::{StoredData, prefix};
use capa_e2e::aws_proxy::Fault;

use capa_e2e::user::{Network, NetworkPlan, User, json};
use capa_e2e::{Story, TestEnvironment, aws_cli, cloud_init, cloud_init_boot, eventually_by_polling, fixtures};
use serde_json::{Value, json};
use tokio::process::Command;

const REGION: &str = "eu-west-1";

/// The AWS CLI starts for a second, and again for each part.
const WITHIN: Duration = Duration::from_mins(4);

#[test]
fn a_node_reads_its_data_from_secrets_manager_and_deletes_it() -> anyhow::Result<()> {
    a_node_reads_its_data(SecretsBackend::SecretsManager, 100_000, 2)
}

fn a_node_reads_its_data(backend: SecretsBackend, padding: usize, count: usize) -> anyhow::Result<()> {
    run_delivery("boot-hook", async |delivery| {
        let stored = delivery.store(backend, padding).await?;
        ensure!(stored.count() == count, "{stored:?}");
        let id = delivery.launch(&stored).await?;
        delivery.reads_configuration(&id).await?;

        let account = delivery.environment.aws();
        let (get, delete, id_of_part) = match backend {
            SecretsBackend::SecretsManager => ("GetSecretValue", "DeleteSecret", "SecretId"),
            SecretsBackend::SsmParameterStore => ("GetParameter", "DeleteParameter", "Name"),
        };
        // The AWS CLI may repeat a call.
        let journal = account.nodes_journal();
        assert_eq!(journal.counts().into_keys().collect::<Vec<_>>(), [delete, get], "{journal}");
        let names: BTreeSet<String> = stored.parts().map(|(name, _)| name).collect();
        for action in [get, delete] {
            let calls = journal.of(action);
            let called_for = calls.calls().iter().filter_map(|call| call.parameter(id_of_part));
            assert_eq!(called_for.map(str::to_owned).collect::<BTreeSet<_>>(), names, "{journal}");
        }
        assert!(account.manager_journal().is_empty(), "{}", account.manager_journal());
        let shown = account.journal().to_string();
        for (name, part) in stored.parts() {
            let start = BASE64_STANDARD.encode(&part[..30]);
            let kept = shown.contains(&start) || shown.contains(&*String::from_utf8_lossy(&part[..30]));
            assert!(shown.contains(&name) && !kept, "{shown}");
        }
        assert_eq!(delivery.left(&stored).await?, 0);
        Ok(())
    })
}

mod long_stories {
    use super::*;

    /// Bootstrap data as kubeadm's provider writes it: a template.
    const TEMPLATE: &str = "## template: jinja
#cloud-config
write_files:
- path: /etc/kubernetes/node
  content: '{{ ds.meta_data.local_hostname }}'
runcmd:
- echo ' joins' >>/etc/kubernetes/node
";

    #[test]
    fn each_version_of_cloud_init_boots_from_a_secret() -> anyhow::Result<()> {
        run_delivery("cloud-init", async |delivery| {
            let folder = cloud_init()?;
            let python = folder.join("python/bin/python");
            let versions = std::fs::read_to_string(folder.join("versions"))?;
            ensure!(versions.lines().count() > 1, "an old and a new version are needed: {versions}");
            for version in versions.lines() {
                let cloud_init = folder.join(version);
                let prefix = prefix(SecretsBackend::SecretsManager, &format!("{version}-{}", fastrand::u64(..)));
                let data = TEMPLATE.as_bytes();
                let stored = StoredData::new(data, SecretsBackend::SecretsManager, REGION, &prefix, 1);
                delivery.store_parts(&stored).await?;
                let said = delivery.boot(&stored, &cloud_init, &python).await;
                let node = said.with_context(|| format!("cloud-init {version}"))?;
                assert_eq!(node, "ip-10-0-0-5 joins\n", "cloud-init {version}: written and run once");
                assert_eq!(delivery.left(&stored).await?, 0, "cloud-init {version}");
            }
            Ok(())
        })
    }

    impl Delivery<'_> {
        /// Boots a computer twice, and returns what it has written.
        async fn boot(&self, stored: &StoredData, cloud_init: &Path, python: &Path) -> anyhow::Result<String> {
            let root = tempfile::tempdir()?;
            std::fs::write(root.path().join("user-data"), stored.user_data().expose())?;
            let aws_cli = aws_cli()?;
            let account = self.environment.aws();
            let key = account.user_key();
            let boot = Command::new(cloud_init_boot())
                .args([cloud_init, python, root.path()])
                .arg(aws_cli.parent().context("no folder")?)
                .env("AWS_ENDPOINT_URL", account.url())
                .env("AWS_ACCESS_KEY_ID", &key.access_key_id)
                .env("AWS_SECRET_ACCESS_KEY", &key.secret_access_key)
                .kill_on_drop(true)
                .output();
            let output = tokio::time::timeout(WITHIN, boot).await??;
            let log = || std::fs::read_to_string(root.path().join("log/stages.log")).unwrap_or_default();
            ensure!(output.status.success(), "{output:?} {}", log());
            let mode = std::fs::metadata(root.path().join("etc/kubernetes"))?.permissions().mode() & 0o777;
            ensure!(mode == 0o755, "a folder that cloud-init makes has the mode {mode:o}");
            let written = std::fs::read_to_string(root.path().join("etc/kubernetes/node"));
            written.with_context(|| format!("{output:?} {}", log()))
        }
    }

    #[test]
    fn a_throttled_node_boots_though_it_may_delete_nothing() -> anyhow::Result<()> {
        run_delivery("boot-hook-faults", async |delivery| {
            let account = delivery.environment.aws();
            // One more than the AWS CLI itself tries.
            let throttle = Fault::on("GetSecretValue").error("RequestLimitExceeded").times(6);
            let throttle = account.fault(throttle);
            account.fault(Fault::on("DeleteSecret").by_nodes().error("AccessDeniedException"));
            let stored = delivery.store(SecretsBackend::SecretsManager, 0).await?;
            let id = delivery.launch(&stored).await?;
            delivery.reads_configuration(&id).await?;
            assert_eq!(throttle.hits(), 6);
            let console = delivery.environment.world().console(&id)?;
            for said in ["try 1 of 5", "ThrottlingException", "cannot delete", "AccessDeniedException"] {
                assert!(console.contains(said), "{said}: {console}");
            }
            assert_eq!(delivery.left(&stored).await?, 1);
            Ok(())
        })
    }

    #[test]
    fn a_node_whose_data_is_not_there_says_so_and_does_not_boot() -> anyhow::Result<()> {
        run_delivery("boot-hook-absent", async |delivery| {
            let stored = delivery.stored(SecretsBackend::SsmParameterStore, 0);
            let id = delivery.launch(&stored).await?;
            let world = delivery.environment.world();
            eventually_by_polling(WITHIN, "the boot to fail", async || {
                let log = world.log("node-simulator")?;
                let line = log.lines().find(|line| line.contains(&id));
                let line = line.context("nothing about the instance")?;
                ensure!(line.contains("does not boot"), "{line}");
                Ok(())
            })
            .await?;
            let console = world.console(&id)?;
            let (name, _) = stored.parts().next().context("no part")?;
            let said = format!("{name} of ssm-parameter-store in {REGION} cannot be read");
            assert!(console.contains(&said) && console.contains("ParameterNotFound"), "{console}");
            Ok(())
        })
    }

    #[test]
    fn a_node_reads_its_data_from_parameter_store_and_deletes_it() -> anyhow::Result<()> {
        a_node_reads_its_data(SecretsBackend::SsmParameterStore, 7_000, 3)
    }
}

/// A story whose data is delivered by hand instead of by a manager.
struct Delivery<'a> {
    environment: &'a Arc<TestEnvironment>,
    user: User,
    network: Network,
}

fn run_delivery(name: &str, body: impl AsyncFnOnce(Delivery<'_>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    Story::new(name).run(async |environment| {
        environment.world().start_kubeadm().await?;
        let user = User::new(environment.aws(), REGION);
        let network = user.create_network(&NetworkPlan::new("byo", REGION, 1)).await?;
        body(Delivery { environment, user, network }).await
    })
}

impl Delivery<'_> {
    /// The API server that the data names. Nobody answers there.
    fn endpoint(&self) -> String {
        format!("{}.example:6443", self.environment.namespace())
    }

    /// Data with this much that cannot be compressed.
    fn stored(&self, backend: SecretsBackend, padding: usize) -> StoredData {
        let random: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(padding).collect();
        let data = format!(
            "#cloud-config
# {token} {padding}
write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  content: |
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    discovery: {{bootstrapToken: {{apiServerEndpoint: '{endpoint}', token: a.b, caCertHashes: []}}}}
",
            token = fixtures::JOIN_TOKEN,
            padding = BASE64_STANDARD.encode(random),
            endpoint = self.endpoint(),
        );
        let prefix = prefix(backend, self.environment.namespace());
        StoredData::new(data.as_bytes(), backend, REGION, &prefix, 1)
    }

    async fn store(&self, backend: SecretsBackend, padding: usize) -> anyhow::Result<StoredData> {
        let stored = self.stored(backend, padding);
        self.store_parts(&stored).await?;
        Ok(stored)
    }

    async fn store_parts(&self, stored: &StoredData) -> anyhow::Result<()> {
        for (name, part) in stored.parts() {
            let (status, answer) = match stored.backend() {
                SecretsBackend::SecretsManager => {
                    let parameters = json!({
                        "Name": name, "SecretBinary": BASE64_STANDARD.encode(part),
                        "ClientRequestToken": "0".repeat(32),
                    });
                    self.call("secretsmanager", "secretsmanager.CreateSecret", &parameters).await?
                }
                SecretsBackend::SsmParameterStore => {
                    let value = str::from_utf8(part)?;
                    let parameters = json!({"Name": name, "Value": value, "Type": "SecureString"});
                    self.call("ssm", "AmazonSSM.PutParameter", &parameters).await?
                }
            };
            ensure!(status == 200, "store {name}: {status} {answer}");
        }
        Ok(())
    }

    /// The number of parts that AWS still has.
    async fn left(&self, stored: &StoredData) -> anyhow::Result<usize> {
        let mut left = 0;
        for (name, _) in stored.parts() {
            let (status, answer) = match stored.backend() {
                SecretsBackend::SecretsManager => {
                    let parameters = json!({"SecretId": name});
                    self.call("secretsmanager", "secretsmanager.GetSecretValue", &parameters).await?
                }
                SecretsBackend::SsmParameterStore => {
                    self.call("ssm", "AmazonSSM.GetParameter", &json!({"Name": name})).await?
                }
            };
            let code = answer["__type"].as_str().unwrap_or_default();
            ensure!(
                status == 200 || ["ResourceNotFoundException", "ParameterNotFound"].contains(&code),
                "read {name}: {status} {answer}"
            );
            left += usize::from(status == 200);
        }
        Ok(left)
    }

    async fn call(&self, service: &str, target: &str, parameters: &Value) -> anyhow::Result<(u16, Value)> {
        let account = self.environment.aws();
        let key = &account.user_key().access_key_id;
        json(account.url(), key, REGION, service, target, parameters).await
    }

    async fn launch(&self, stored: &StoredData) -> anyhow::Result<String> {
        let zone = self.network.zones.first().context("no zone")?;
        let user_data = BASE64_STANDARD.encode(stored.user_data().expose());
        self.user.launch(&zone.private_subnet_id, |launch| launch.user_data(user_data)).await
    }

    /// Waits until the node looks for the API server that its data names.
    async fn reads_configuration(&self, id: &str) -> anyhow::Result<()> {
        let world = self.environment.world();
        eventually_by_polling(WITHIN, "the node to look for its API server", async || {
            let log = world.log("node-simulator")?;
            let sought = format!("nothing answers at {}", self.endpoint());
            let found = log.lines().any(|line| line.contains(id) && line.contains(&sought));
            ensure!(found, "the console says {:?}", world.console(id)?);
            Ok(())
        })
        .await
    }
}
