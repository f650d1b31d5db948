//! Many identities in one account: what their sessions keep and ask does not grow with each other's instances.

use super::*;

/// An account with so many running instances in so many clusters, and the ids of each cluster's.
fn account_of(instances: usize, clusters: usize) -> (Double, Vec<Vec<String>>) {
    let double = Double::new();
    let mut ids = vec![Vec::new(); clusters];
    {
        let mut world = double.world.lock();
        world.accounts.account(ACCOUNT).region(REGION).behaviour().pending = Duration::ZERO;
        for number in 0..instances {
            let cluster = number % clusters;
            let request = LaunchRequest {
                client_token: format!("uid-{number}"),
                tags: tags(&format!("m{number}"), &cluster_name(cluster)),
                ..request()
            };
            let launched = world.accounts.client("mine", REGION).run_instances(Timestamp::UNIX_EPOCH, &request);
            ids[cluster].push(launched.unwrap().id);
        }
    }
    (double, ids)
}

fn cluster_name(number: usize) -> String {
    format!("c{number}")
}

/// All machines of a cluster come with an identity.
fn follow(double: &Double, identity: &str, cluster: usize, ids: &[String]) {
    let session = MachineSession::new(double.driver(identity), &cluster_name(cluster));
    for id in ids {
        session.observe_instance(&machine(&format!("{cluster}-{id}")), id);
    }
}

/// The instances that an identity's session keeps.
fn kept(double: &Double, identity: &str) -> usize {
    double.driver(identity).act(|state, _| state.informer().instances())
}

/// Calls of DescribeInstances in one minute.
fn calls_in_a_minute(double: &Double) -> usize {
    let before = double.calls_of("DescribeInstances");
    double.run(seconds(60));
    double.calls_of("DescribeInstances") - before
}

#[test]
fn fifty_identities_list_and_keep_each_instance_once() {
    const INSTANCES: usize = 5_000;
    let (double, ids) = account_of(INSTANCES, 50);
    for (cluster, ids) in ids.iter().enumerate() {
        follow(&double, &format!("identity-{cluster}"), cluster, ids);
    }
    double.run(seconds(60));
    assert_eq!(calls_in_a_minute(&double), 50, "one page each");
    let kept: Vec<usize> = (0..50).map(|cluster| kept(&double, &format!("identity-{cluster}"))).collect();
    assert_eq!(kept, vec![INSTANCES / 50; 50]);
    // An instance, its watch and its owner.
    let entries = double.sessions(|sessions, _| {
        sessions.take_woken();
        sessions.entries()
    });
    assert_eq!(entries, 3 * INSTANCES);
}

#[test]
fn two_hundred_clusters_of_one_identity_are_one_listing() {
    let (double, ids) = account_of(1_000, 250);
    for (cluster, ids) in ids.iter().enumerate().take(200) {
        follow(&double, "a", cluster, ids);
    }
    double.run(seconds(60));
    assert_eq!(calls_in_a_minute(&double), 1);
    assert_eq!(kept(&double, "a"), 4 * 200);
    // With one more the listing shows all instances of the account, and the session keeps those of its own clusters.
    follow(&double, "a", 200, &ids[200]);
    double.run(seconds(60));
    assert_eq!(calls_in_a_minute(&double), 1);
    assert_eq!(kept(&double, "a"), 4 * 201);
}

#[test]
fn sessions_whose_machines_are_gone_keep_nothing() {
    let (double, ids) = account_of(500, 50);
    for (cluster, ids) in ids.iter().enumerate() {
        follow(&double, &format!("identity-{cluster}"), cluster, ids);
    }
    double.run(seconds(60));
    for (cluster, ids) in ids.iter().enumerate() {
        for id in ids {
            let machine = machine(&format!("{cluster}-{id}"));
            double.sessions(|sessions, _| sessions.forget(&machine));
        }
    }
    assert_eq!(double.sessions(|sessions, _| sessions.entries()), 0);
    assert_eq!(calls_in_a_minute(&double), 0);
}
