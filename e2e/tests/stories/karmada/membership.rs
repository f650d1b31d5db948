//! Memberships: from the label to the last permission.

mod long_stories {
    use std::sync::Arc;

    use anyhow::ensure;
    use capa_e2e::eventually_by_polling;
    use capa_e2e::karmada::{Karmada, STEP_WITHIN};
    use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use kube::api::{DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
    use kube::{Api, ResourceExt as _};
    use serde_json::{Value, json};

    use crate::stories::cluster_profiles::{INVENTORY, initialized_cluster, keep_kubeconfig};
    use crate::stories::karmada::{ALLOWED, APP, DRAIN, Fleet, LABEL, REGION, await_condition, members, secret_of};
    use crate::stories::machines::at;
    use crate::stories::scenario::{CORE, story};

    /// The user of the tests may see what runs in members, as an administrator lets users of a Karmada.
    const PROXY_USERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: member-users}
rules:
- {apiGroups: [cluster.karmada.io], resources: [clusters/proxy], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: member-users}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: member-users}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: admin}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:masters'}
";

    /// Whether this provider's finalizer is on a Cluster, beside that of Cluster API core.
    fn has_finalizer(cluster: &DynamicObject) -> bool {
        cluster.finalizers().iter().any(|finalizer| finalizer.starts_with("fleet."))
    }

    #[test]
    fn a_cluster_joins_is_placed_on_and_leaves() -> anyhow::Result<()> {
        story("joins", async |s| {
            let fleet = Fleet::start(s).await?;
            let west = fleet.member("west", "eu-west-1").await?;
            fleet.joined("west").await?;
            let name = fleet.member_name("west");
            let members = members(&fleet.client().await?);
            let member = members.get(&name).await?;
            let facts = (at(&member, "/spec/provider"), at(&member, "/spec/region"));
            assert_eq!(facts, (&json!("metal"), &json!("eu-west-1")));
            assert_eq!(at(&member, "/spec/zones"), &json!(["row-a", "row-b"]));
            fleet.apply(APP).await?;
            fleet.apply(REGION).await?;
            west.runs(2).await?;

            // A user of the Karmada sees the pods.
            let pods =
                format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy/api/v1/namespaces/default/pods");
            fleet.apply(PROXY_USERS).await?;
            let client = fleet.client().await?;
            eventually_by_polling(STEP_WITHIN, "the pods through the Karmada", async || {
                let request = http::Request::get(&pods).body(Vec::new())?;
                let pods: Value = serde_json::from_str(&client.request_text(request).await?)?;
                let count = pods["items"].as_array().map(Vec::len);
                ensure!(count == Some(2), "{count:?}");
                Ok(())
            })
            .await?;

            // Nobody else takes the app: the drain says so, and taking the label away deletes nothing.
            fleet.annotate("west", json!({DRAIN: ""})).await?;
            let blocked = await_condition(s, "west", "Drained", "False", "DrainBlocked").await?;
            ensure!(blocked.contains("Deployment default/web"), "{blocked}");
            fleet.label("west", json!({LABEL: null})).await?;
            await_condition(s, "west", "Joined", "False", "Leaving").await?;
            await_condition(s, "west", "Drained", "False", "DrainBlocked").await?;
            assert_eq!(west.ready().await?, 2);

            // The user says that the app may end.
            let unjoin = "fleet.infrastructure.cluster.x-k8s.io/unjoin";
            fleet.annotate("west", json!({unjoin: "force"})).await?;
            fleet.gone(&name).await?;
            west.runs(0).await?;
            let cluster = fleet.left("west").await?;
            ensure!(!cluster.annotations().keys().any(|key| key.contains("membership")), "{:?}", cluster.metadata);
            let roles: Api<ClusterRole> = Api::all(west.cluster.client().await?);
            let role = format!("karmada-controller-manager:karmada-{name}");
            ensure!(roles.get_opt(&role).await?.is_none(), "the role of Karmada is left");

            // A deleted Cluster leaves while its API server is there. It is another one, because Karmada may use the
            // former credentials for a member that joins again under its name at once.
            let _east = fleet.member("east", "eu-north-1").await?;
            fleet.joined("east").await?;
            s.delete(CORE, "Cluster", "east").await?;
            fleet.gone(&fleet.member_name("east")).await
        })
    }

    #[test]
    fn names_and_namespaces_keep_clusters_apart() -> anyhow::Result<()> {
        story("apart", async |s| {
            let fleet = Fleet::start(s).await?;
            let ours = fleet.member("prod", "eu-west-1").await?;
            fleet.joined("prod").await?;
            let name = fleet.member_name("prod");

            // The name is that of the first cluster; the second is another one.
            let second = fleet.member("second", "eu-west-1").await?;
            fleet.joined("second").await?;
            let renamed = fleet.member_name("second");
            // Its kubeconfig leads to the first cluster by now, in which nothing is removed.
            let accounts = Api::<ServiceAccount>::namespaced(ours.cluster.client().await?, "karmada-cluster");
            let named_like_ours = ObjectMeta { name: Some(format!("karmada-{renamed}")), ..ObjectMeta::default() };
            let account = ServiceAccount { metadata: named_like_ours, ..ServiceAccount::default() };
            let account = accounts.create(&PostParams::default(), &account).await?.name_any();
            keep_kubeconfig(s, "second", &ours.cluster.kubeconfig()?).await?;
            fleet.label("second", json!({LABEL: null})).await?;
            fleet.gone(&renamed).await?;
            fleet.left("second").await?;
            accounts.get(&account).await?;
            keep_kubeconfig(s, "second", &second.cluster.kubeconfig()?).await?;
            let chosen = "fleet.infrastructure.cluster.x-k8s.io/member-name";
            fleet.annotate("second", json!({chosen: name})).await?;
            fleet.label("second", json!({LABEL: "main"})).await?;
            let taken = await_condition(s, "second", "Joined", "False", "NameInUse").await?;
            ensure!(taken.contains(chosen), "{taken}");
            s.delete(CORE, "Cluster", "second").await?;
            let member = members(&fleet.client().await?).get(&name).await?;
            assert!(member.metadata.deletion_timestamp.is_none(), "the member of another Cluster was deleted");
            drop(second);

            // A Cluster of the same name in another namespace is another member.
            let neighbour = s.neighbour("other").await?;
            fleet.allow(&format!("{}, {}", s.namespace(), neighbour.namespace())).await?;
            let theirs = fleet.of_neighbour(&neighbour).await?;
            let _prod = theirs.member("prod", "eu-north-1").await?;
            theirs.joined("prod").await?;
            neighbour.delete(CORE, "Cluster", "prod").await?;
            theirs.gone(&theirs.member_name("prod")).await?;
            members(&fleet.client().await?).get(&name).await?;

            // One cluster is one member.
            initialized_cluster(s, "again", "eu-west-1").await?;
            keep_kubeconfig(s, "again", &ours.cluster.kubeconfig()?).await?;
            fleet.label("again", json!({LABEL: "main"})).await?;
            let twice = await_condition(s, "again", "Joined", "False", "NameInUse").await?;
            ensure!(twice.contains(&name), "{twice}");

            // A label does not suffice: an administrator lists the namespaces.
            fleet.allow("somewhere-else").await?;
            initialized_cluster(s, "stranger", "eu-west-1").await?;
            keep_kubeconfig(s, "stranger", &ours.cluster.kubeconfig()?).await?;
            fleet.label("stranger", json!({LABEL: "main"})).await?;
            let refused = await_condition(s, "stranger", "Joined", "False", "NotAllowed").await?;
            ensure!(refused.contains(ALLOWED), "{refused}");
            let missing = json!({LABEL: "no-such-karmada"});
            fleet.label("stranger", missing).await?;
            await_condition(s, "stranger", "Joined", "Unknown", "KarmadaSecretInvalid").await?;
            Ok(())
        })
    }

    #[test]
    fn a_membership_survives_crashes_and_dead_members() -> anyhow::Result<()> {
        story("crashes", async |s| {
            let fleet = Fleet::start(s).await?;
            s.manager().kill().await?;
            let west = fleet.member("west", "eu-west-1").await?;
            let name = fleet.member_name("west");
            // The process dies at whatever points of the join it has reached.
            let members = members(&fleet.client().await?);
            let secrets: Api<Secret> = Api::namespaced(fleet.client().await?, "karmada-cluster");
            fleet.run_controllers().await?;
            eventually_by_polling(STEP_WITHIN, "a record", async || {
                let cluster = s.get(CORE, "Cluster", "west").await?;
                ensure!(has_finalizer(&cluster), "{:?}", cluster.finalizers());
                Ok(())
            })
            .await?;
            s.manager().kill().await?;
            fleet.run_controllers().await?;
            eventually_by_polling(STEP_WITHIN, "a member", async || Ok(members.get(&name).await?)).await?;
            s.manager().kill().await?;
            fleet.run_controllers().await?;
            eventually_by_polling(STEP_WITHIN, "credentials", async || Ok(secrets.get(&name).await?)).await?;
            s.manager().kill().await?;
            fleet.run_controllers().await?;
            fleet.joined("west").await?;
            assert_eq!(members.list(&ListParams::default()).await?.items.len(), 1);

            // Somebody takes the finalizer away.
            let none = json!({"metadata": {"finalizers": null}});
            s.patch(CORE, "Cluster", "west", none).await?;
            eventually_by_polling(STEP_WITHIN, "the finalizer to be there again", async || {
                let cluster = s.get(CORE, "Cluster", "west").await?;
                ensure!(has_finalizer(&cluster), "{:?}", cluster.finalizers());
                Ok(())
            })
            .await?;

            // Tokens are renewed before they end.
            let before = secrets.get(&name).await?;
            let over = json!({"metadata": {"annotations": {
                "fleet.infrastructure.cluster.x-k8s.io/renew-at": "2026-01-01T00:00:00Z",
            }}});
            let parameters = PatchParams::default();
            secrets.patch(&name, &parameters, &Patch::Merge(&over)).await?;
            eventually_by_polling(STEP_WITHIN, "a new token", async || {
                let after = secrets.get(&name).await?;
                ensure!(after.data != before.data, "the same token");
                Ok(())
            })
            .await?;
            let owners = secrets.get(&name).await?.metadata.owner_references.unwrap_or_default();
            assert_eq!(owners.len(), 1, "Karmada deletes the token with the member");

            // The machines of the cluster are gone before its Cluster is deleted.
            west.cluster.kill().await?;
            await_condition(s, "west", "ControlPlaneHealthy", "False", "Unreachable").await?;
            s.delete(CORE, "Cluster", "west").await?;
            fleet.gone(&name).await?;
            eventually_by_polling(STEP_WITHIN, "the tokens to go", async || {
                ensure!(secrets.get_opt(&name).await?.is_none(), "still there");
                Ok(())
            })
            .await
        })
    }

    #[test]
    fn a_changed_label_moves_a_cluster_to_another_karmada() -> anyhow::Result<()> {
        story("moves", async |s| {
            let fleet = Fleet::start(s).await?;
            let other = Arc::new(Karmada::start(&s.environment, "other").await?);
            secret_of(s, "other", &other, "*").await?;
            let west = fleet.member("west", "eu-west-1").await?;
            fleet.joined("west").await?;
            let name = fleet.member_name("west");
            fleet.label("west", json!({LABEL: "other"})).await?;
            fleet.gone(&name).await?;
            fleet.joined("west").await?;
            members(&other.client().await?).get(&name).await?;

            // The ClusterProfile is somebody else's now, and the Karmada cannot be used.
            s.manager().kill().await?;
            s.delete(INVENTORY, "ClusterProfile", "west").await?;
            let theirs = json!({
                "apiVersion": INVENTORY, "kind": "ClusterProfile", "metadata": {"name": "west"},
                "spec": {"clusterManager": {"name": "another"}},
            });
            s.apply(&theirs.to_string()).await?;
            let theirs = s.get(INVENTORY, "ClusterProfile", "west").await?;
            s.delete("v1", "Secret", "other").await?;
            fleet.label("west", json!({LABEL: null})).await?;
            fleet.run_controllers().await?;
            s.event("Cluster", "west", "KarmadaSecretInvalid").await?;
            let unjoin = "fleet.infrastructure.cluster.x-k8s.io/unjoin";
            fleet.annotate("west", json!({unjoin: "force"})).await?;
            fleet.left("west").await?;
            let left = s.get(INVENTORY, "ClusterProfile", "west").await?;
            assert_eq!(left.resource_version(), theirs.resource_version());
            members(&other.client().await?).get(&name).await?;
            let roles: Api<ClusterRole> = Api::all(west.cluster.client().await?);
            let role = format!("karmada-controller-manager:karmada-{name}");
            ensure!(roles.get_opt(&role).await?.is_none(), "the role of Karmada is left");
            Ok(())
        })
    }
}
