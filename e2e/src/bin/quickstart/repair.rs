//! A change by hand in the network that the manager has created, which the manager takes back.

use anyhow::{Context, ensure};
use aws_sdk_ec2::types::RouteTable;
use capa_e2e::{TestEnvironment, eventually, user::User};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::{
    WITHIN, report,
    screen::{self, Screen},
    watch::OURS,
};

/// The range of a default route.
const ANYWHERE: &str = "0.0.0.0/0";

/// Deletes the default route of a private subnet, and waits until it is there again.
pub(crate) async fn route(
    screen: &mut Screen,
    environment: &TestEnvironment,
    user: &User,
    cluster: &str,
) -> anyhow::Result<()> {
    screen.section("A route is deleted by hand, and comes back")?;
    let table = private_table(user).await?;
    let id = table.route_table_id().context("a route table with an id")?;
    screen::command(&format!("$ aws ec2 delete-route --route-table-id {id} --destination-cidr-block {ANYWHERE}"));
    let delete = user.ec2().delete_route().route_table_id(id);
    delete.destination_cidr_block(ANYWHERE).send().await?;
    screen.say("The manager looks every ten minutes, and at once when the AWSCluster changes:")?;
    screen.show(&format!("$ kubectl annotate awscluster {cluster} example.org/look=again"))?;
    let annotation = json!({"metadata": {"annotations": {"example.org/look": "again"}}});
    let clusters = environment.api(OURS, "AWSCluster").await?;
    clusters.patch(cluster, &PatchParams::default(), &Patch::Merge(annotation)).await?;
    eventually(WITHIN, "the route to be there again", async || {
        let back = private_table(user).await?;
        ensure!(back.route_table_id() == Some(id), "there is no route to a NAT gateway yet");
        Ok(())
    })
    .await?;
    let created = "--field-selector=reason=SuccessfulCreateRoute";
    let newest = ["get", "events", created, "--sort-by=.metadata.creationTimestamp", "--no-headers"];
    let arguments = [&["--namespace", environment.namespace()][..], &newest].concat();
    screen.show(&format!("$ kubectl {} | tail -1", newest.join(" ")))?;
    let events = report::kubectl(environment.world().admin_kubeconfig(), &arguments)?;
    screen.show(events.lines().last().context("an event of the route")?)
}

/// The first route table by its id that leads to a NAT gateway.
async fn private_table(user: &User) -> anyhow::Result<RouteTable> {
    let shown = user.ec2().describe_route_tables().send().await?;
    let is_private = |table: &&RouteTable| table.routes().iter().any(|route| route.nat_gateway_id().is_some());
    let tables = shown.route_tables().iter().filter(is_private);
    let first = tables.min_by_key(|table| table.route_table_id().map(str::to_owned));
    first.cloned().context("a route table of private subnets")
}
