use std::sync::{Arc, Mutex};

use capa_e2e::user::{NetworkPlan, User};

use super::{REGION, account};

fn plan() -> NetworkPlan {
    NetworkPlan::new("byo", REGION, 3)
}

#[tokio::test]
async fn every_change_by_the_user_is_announced_as_a_command_line() {
    let account = account().await;
    let said = Arc::new(Mutex::new(Vec::<String>::new()));
    let log = said.clone();
    let user = User::new(&account, REGION).announcing(move |line| log.lock().unwrap().push(line.to_owned()));
    let network = user.create_network(&plan()).await.unwrap();
    user.tag(&network.vpc_id, "team", "blue").await.unwrap();
    let said = said.lock().unwrap();
    assert_eq!(said.len(), account.journal().mutating().len(), "{said:#?}");
    assert_eq!(
        said[0],
        "aws ec2 create-vpc --cidr-block 10.0.0.0/16 \
             --tag-specifications 'ResourceType=vpc,Tags=[{Key=Name,Value=byo}]'"
    );
}

#[tokio::test]
async fn a_dump_changes_with_every_tag_and_not_with_past_instances() {
    let account = account().await;
    let user = User::new(&account, REGION);
    let network = user.create_network(&plan()).await.unwrap();
    let before = user.dump().await.unwrap();
    assert!(before.to_string().contains(&network.node_security_group_id));
    let subnet = network.zones[0].private_subnet_id.clone();

    let group_id = &network.node_security_group_id;
    let instance = user.launch(&subnet, |launch| launch.security_group_ids(group_id)).await.unwrap();
    assert_ne!(user.dump().await.unwrap(), before, "its interface and volume are there");
    user.terminate(&instance).await.unwrap();
    assert_eq!(user.dump().await.unwrap(), before);

    user.tag(&subnet, "kubernetes.io/role/elb", "1").await.unwrap();
    assert_ne!(user.dump().await.unwrap(), before);
    user.untag(&subnet, "kubernetes.io/role/elb").await.unwrap();
    assert_eq!(user.dump().await.unwrap(), before);
    user.ec2().delete_security_group().group_id(&network.node_security_group_id).send().await.unwrap();
    assert_ne!(user.dump().await.unwrap(), before);
}
