//! Clusters whose nodes get their bootstrap data in other ways than as cloud-init's user data.

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capa_e2e::{ForwardProxy, eventually};
use kube::config::Kubeconfig;

use super::whole::{NODES_WITHIN, whole_clusters};
use crate::stories::scenario::Scenario;

mod long_stories {
    use super::*;

    #[test]
    fn a_cluster_boots_with_ignition_from_its_user_data() -> anyhow::Result<()> {
        whole_clusters("ignition", async |s| {
            let mut cluster = s.kubeadm_cluster("dev").await?;
            // The keys of a control plane fit compressed only.
            cluster.bootstrap =
                "ignition: {version: '3.4', storageType: UnencryptedUserData}\n      uncompressedUserData: false"
                    .to_owned();
            cluster.control_plane(1).await?;
            cluster.workers(1).await?;
            cluster.ready(1, 1).await?;
            cluster.available().await?;
            ensure!(s.aws().nodes_journal().is_empty(), "the nodes have fetched something");
            cluster.delete().await
        })
    }

    #[test]
    fn a_cluster_boots_with_ignition_by_presigned_urls() -> anyhow::Result<()> {
        whole_clusters("presigned", async |s| boots_from_bucket(s, ["ignition: {version: '3.4'}"; 2], PRESIGNED).await)
    }

    #[test]
    fn a_cluster_boots_with_the_oldest_ignition() -> anyhow::Result<()> {
        // The user data of a worker has room for what it joins with, and the keys of a control plane do not fit.
        let bootstraps = ["ignition: {version: '2.3'}", "ignition: {version: '2.3', storageType: UnencryptedUserData}"];
        whole_clusters("oldest", async |s| boots_from_bucket(s, bootstraps, PRESIGNED).await)
    }

    #[test]
    fn a_cluster_boots_with_ignition_through_a_proxy() -> anyhow::Result<()> {
        whole_clusters("proxy", async |s| {
            let proxy = ForwardProxy::start().await?;
            let authority = format!("authorities-{}", s.namespace());
            s.user.create_bucket(&authority).await?;
            s.user.put_object(&authority, AUTHORITY, &certificate(s)?).await?;
            let authority = format!("s3://{authority}/{AUTHORITY}");
            let bootstrap = format!(
                "ignition: {{version: '3.4', proxy: {{httpProxy: '{}'}}, tls: {{certificateAuthorities: \
                 ['{authority}']}}}}",
                proxy.url()
            );
            boots_from_bucket(s, [&bootstrap; 2], PROFILES).await?;
            let forwarded = proxy.forwarded();
            let fetched = s.aws().nodes_journal().of("GetObject");
            ensure!(forwarded.len() >= fetched.len(), "{forwarded:?} of {fetched}");
            let authorities = forwarded.iter().filter(|url| url.ends_with(AUTHORITY)).count();
            ensure!(authorities >= 2, "one for each node: {forwarded:?}");
            Ok(())
        })
    }

    #[test]
    fn a_cluster_boots_from_parameter_store_and_leaves_no_parameter() -> anyhow::Result<()> {
        boots_from(
            "parameters",
            "cloudInit: {secureSecretsBackend: ssm-parameter-store}",
            ["PutParameter", "DeleteParameters"],
        )
    }

    #[test]
    fn a_cluster_boots_with_ignition_from_a_bucket() -> anyhow::Result<()> {
        // As in CAPA's template for Flatcar: the format alone says that the data is for Ignition.
        whole_clusters("objects", async |s| boots_from_bucket(s, ["# ignition"; 2], PROFILES).await)
    }

    #[test]
    fn a_cluster_boots_from_secrets_manager_and_leaves_no_secret() -> anyhow::Result<()> {
        boots_from("secrets", "cloudInit: {}", ["CreateSecret", "DeleteSecret"])
    }
}

/// The settings of a bucket whose objects nodes fetch by URLs that the manager has signed.
const PRESIGNED: &str = "presignedURLDuration: 30m";

/// The settings of a bucket whose objects nodes fetch with their instance profiles.
const PROFILES: &str = "controlPlaneIAMInstanceProfile: control-plane, nodesIAMInstanceProfiles: [nodes]";

/// The storage type of bootstrap data that is not in the bucket.
const IN_USER_DATA: &str = "UnencryptedUserData";

/// The key of the certificate authority in its bucket.
const AUTHORITY: &str = "authority.pem";

/// The certificate authority of the world.
fn certificate(s: &Scenario) -> anyhow::Result<String> {
    let kubeconfig = Kubeconfig::read_from(s.environment.world().admin_kubeconfig())?;
    let cluster = kubeconfig.clusters.first().and_then(|named| named.cluster.as_ref());
    let authority = cluster.and_then(|cluster| cluster.certificate_authority_data.as_ref());
    let authority = BASE64_STANDARD.decode(authority.context("a certificate authority")?)?;
    Ok(String::from_utf8(authority)?)
}

/// Tests a cluster of a control plane machine and a worker with this delivery of their bootstrap data, and a bucket
/// with these settings.
async fn boots_from_bucket(s: &Scenario, bootstraps: [&str; 2], settings: &str) -> anyhow::Result<()> {
    let bucket = format!("boot-{}", s.namespace());
    s.user.create_bucket(&bucket).await?;
    let mut cluster = s.kubeadm_cluster("dev").await?;
    cluster.bucket = Some(format!("{{name: {bucket}, {settings}}}"));
    let [control_plane, worker] = bootstraps.map(str::to_owned);
    cluster.bootstrap = control_plane;
    cluster.control_plane(1).await?;
    cluster.bootstrap = worker;
    cluster.workers(1).await?;
    cluster.ready(1, 1).await?;
    cluster.available().await?;
    eventually(NODES_WITHIN, "no objects once the nodes have joined", async || {
        let left = s.user.objects(&bucket).await?;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await?;
    let in_bucket = bootstraps.iter().filter(|bootstrap| !bootstrap.contains(IN_USER_DATA));
    let in_bucket = in_bucket.count();
    let by_manager = s.aws().manager_journal();
    for action in ["PutObject", "DeleteObject"] {
        let calls = by_manager.of(action);
        ensure!(calls.len() >= in_bucket, "{action}: {calls}");
    }
    let fetched = s.aws().nodes_journal().of("GetObject");
    ensure!(fetched.len() >= in_bucket, "the nodes fetched: {fetched}");
    let by_url = fetched.matching(|call| call.by_url).len();
    let expected = if settings == PRESIGNED { fetched.len() } else { 0 };
    ensure!(by_url == expected, "{fetched}");
    cluster.delete().await?;
    let left = s.user.objects(&bucket).await?;
    ensure!(left.is_empty(), "objects are left: {left:?}");
    Ok(())
}

/// Tests a cluster of a control plane machine and a worker with this delivery; the actions store and delete the data
/// of a machine.
fn boots_from(name: &str, bootstrap: &str, actions: [&str; 2]) -> anyhow::Result<()> {
    whole_clusters(name, async |s| {
        let mut cluster = s.kubeadm_cluster("dev").await?;
        cluster.bootstrap = bootstrap.to_owned();
        cluster.control_plane(1).await?;
        cluster.workers(1).await?;
        let machines = cluster.ready(1, 1).await?;
        cluster.available().await?;
        eventually(NODES_WITHIN, "no secrets once the nodes have joined", async || {
            let left = s.user.secrets().await?;
            ensure!(left.is_empty(), "{left:?}");
            // A node deletes its secret, too, and before the manager has seen that the node has joined.
            let by_manager = s.aws().manager_journal();
            for action in actions {
                let calls = by_manager.of(action);
                ensure!(calls.len() >= machines.len(), "{action}: {calls}");
            }
            Ok(())
        })
        .await?;
        let fetched = s.aws().nodes_journal();
        ensure!(!fetched.is_empty(), "the nodes fetched nothing");
        cluster.delete().await
    })
}
