use super::balancers::*;
use super::*;

#[test]
fn a_listener_needs_a_load_balancer_and_a_free_port() {
    let network = Network::new();
    let account = &network.account;
    let (balancer, group) = (network.make_balancer(), network.make_target_group());
    let other_group = made(account, create_target_group(&network.vpc, "other", 80));
    let far = account.add_vpc("10.0.0.0/16", Tags::new());
    let far_group = account.add_target_group("far", &far, 80, Tags::new());
    let table: [(&str, &str, i32, &str); 7] = [
        ("arn:aws:9", &group, 6443, "LoadBalancerNotFound"),
        (&balancer, "arn:aws:9", 6443, "TargetGroupNotFound"),
        (&balancer, &far_group, 6443, "InvalidConfigurationRequest"),
        (&balancer, &group, 6443, ""),
        (&balancer, &group, 6443, ""),
        (&balancer, &other_group, 6443, "DuplicateListener"),
        (&balancer, &other_group, 80, ""),
    ];
    for (balancer, group, port, expected) in table {
        let answer = network.call(create_listener(balancer, group, port));
        assert_eq!(answer, expected, "{port} of {balancer} to {group}");
    }
    let ports: Vec<_> = account.listeners().iter().map(|listener| listener.port).collect();
    assert_eq!(ports, [6443, 80]);
    let beginning = format!("{}/", balancer.replace(":loadbalancer/", ":listener/"));
    assert!(account.listeners()[0].arn.starts_with(&beginning));
}

#[test]
fn a_target_group_belongs_to_one_load_balancer() {
    let network = Network::new();
    let account = &network.account;
    let (balancer, group) = (network.make_balancer(), network.make_target_group());
    let other = made(account, create_balancer("other", &[&network.subnet], &[]));
    assert_eq!(network.call(create_listener(&balancer, &group, 6443)), "");
    let taken = network.call(create_listener(&other, &group, 6443));
    assert_eq!(taken, "TargetGroupAssociationLimit");
    assert_eq!(network.call(create_listener(&balancer, &group, 443)), "");
}

#[test]
fn a_listener_can_change_its_target_group_and_end() {
    let network = Network::new();
    let account = &network.account;
    let (balancer, group) = (network.make_balancer(), network.make_target_group());
    let other = made(account, create_target_group(&network.vpc, "other", 80));
    assert_eq!(network.call(create_listener(&balancer, &group, 6443)), "");
    let arn = account.listeners().remove(0).arn;
    assert_eq!(network.call(modify_listener(&arn, "arn:aws:9")), "TargetGroupNotFound");
    assert_eq!(network.call(modify_listener(&arn, &other)), "");
    assert_eq!(account.listeners()[0].target_group_arns, [&other[..]]);
    assert_eq!(network.call(delete_listener(&arn)), "");
    assert_eq!(network.call(delete_listener(&arn)), "ListenerNotFound");
    assert_eq!(network.call(modify_listener(&arn, &other)), "ListenerNotFound");
}
