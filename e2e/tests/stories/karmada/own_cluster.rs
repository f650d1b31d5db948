//! A cluster that we bring up, and that becomes a member.

mod long_stories {
    use std::collections::BTreeSet;

    use anyhow::ensure;
    use capa_e2e::eventually_by_polling;
    use capa_e2e::karmada::STEP_WITHIN;
    use serde_json::json;

    use crate::stories::clusters::whole::whole_clusters;
    use crate::stories::karmada::{APP, Fleet, LABEL, REGION, members};
    use crate::stories::machines::at;
    use crate::stories::scenario::REGION as AWS_REGION;

    #[test]
    fn a_cluster_on_a_network_of_the_user_joins_and_gets_work() -> anyhow::Result<()> {
        whole_clusters("own", async |s| {
            let fleet = Fleet::start(s).await?;
            fleet.apply(APP).await?;
            fleet.apply(REGION).await?;
            // Nobody does anything after the manifests are applied.
            let cluster = s.kubeadm_cluster("prod").await?;
            cluster.control_plane(1).await?;
            fleet.label("prod", json!({LABEL: "main"})).await?;
            fleet.joined("prod").await?;

            let name = fleet.member_name("prod");
            let member = members(&fleet.client().await?).get(&name).await?;
            assert_eq!(at(&member, "/spec/provider"), "aws");
            assert_eq!(at(&member, "/spec/region"), AWS_REGION);
            let zones = at(&member, "/spec/zones").as_array().into_iter().flatten();
            let zones: BTreeSet<_> = zones.filter_map(|zone| zone.as_str()).collect();
            let of_network: BTreeSet<_> = s.network.zones.iter().map(|zone| zone.name.as_str()).collect();
            assert_eq!(zones, of_network);
            eventually_by_polling(STEP_WITHIN, "the app in the cluster", async || {
                cluster.kubectl(&["get", "deployment", "web", "--namespace=default"]).await
            })
            .await?;

            cluster.delete().await?;
            fleet.gone(&name).await?;
            ensure!(s.launches().len() == 1, "one launch");
            Ok(())
        })
    }
}
