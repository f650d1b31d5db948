//! Idempotency of RunInstances.

use capa_cloud::{InstanceState, LaunchRequest, Query, UserData};

use super::{Circumstance, Deviation, Ec2UnderTest, Stage, count, expect, expect_refusal, launched};

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: a retry with the same token and the same
/// parameters succeeds without any further action.
pub(super) async fn a_repeated_launch_makes_no_second_instance(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let first = launched(ec2, "token").await?;
    let second = launched(ec2, "token").await?;
    expect("the repeated launch", second, first.clone())?;
    expect("instances", count(ec2).await?, 1)?;
    let found = ec2.describe_instances(&Query::filter("client-token", ["token"])).await?;
    expect("found by token", found.into_iter().map(|instance| instance.id).collect(), vec![first])
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: the result of a retry may hold updated
/// information, such as the current status.
pub(super) async fn a_repeated_launch_shows_the_current_state(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.hold(Stage::Pending).await;
    let request = ec2.place().request("token");
    expect("at first", ec2.run_instances(&request).await?.state, InstanceState::Pending)?;
    expect("while pending", ec2.run_instances(&request).await?.state, InstanceState::Pending)?;
    ec2.let_go(Stage::Pending).await;
    expect("afterwards", ec2.run_instances(&request).await?.state, InstanceState::Running)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: a retry with the same token and other
/// parameters fails with IdempotentParameterMismatch. Region and zone are the only exceptions, so another subnet of the
/// same zone is another parameter.
pub(super) async fn other_parameters_with_a_known_token_are_refused(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let request = ec2.place().request("token");
    ec2.run_instances(&request).await?;
    let mut retagged = request.clone();
    retagged.tags.insert("MachineName".into(), "default/other".into());
    let others = [
        ("another type", LaunchRequest { instance_type: "m5.xlarge".into(), ..request.clone() }),
        (
            "another subnet of the zone",
            LaunchRequest { subnet_id: ec2.place().subnet_id_beside.clone(), ..request.clone() },
        ),
        ("other user data", LaunchRequest { user_data: UserData::new(b"#!/bin/bash".to_vec()), ..request.clone() }),
        ("other tags", retagged),
    ];
    for (what, other) in others {
        expect_refusal(what, ec2.run_instances(&other).await, "IdempotentParameterMismatch")?;
    }
    expect("instances", count(ec2).await?, 1)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>, RunInstances idempotency: a request that
/// gives a subnet is idempotent in that subnet's zone, and the same token may be used in other zones.
pub(super) async fn another_zone_is_another_launch(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let first = launched(ec2, "token").await?;
    let elsewhere =
        LaunchRequest { subnet_id: ec2.place().subnet_id_elsewhere.clone(), ..ec2.place().request("token") };
    let second = ec2.run_instances(&elsewhere).await?;
    expect("the same instance", second.id == first, false)?;
    expect("in the same zone", second.availability_zone == ec2.place().zone, false)?;
    expect("repeated there", ec2.run_instances(&elsewhere).await?.id, second.id)?;
    expect("repeated here", launched(ec2, "token").await?, first)?;
    expect("instances", count(ec2).await?, 2)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: a token is case-sensitive.
pub(super) async fn tokens_are_case_sensitive(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    launched(ec2, "token").await?;
    launched(ec2, "Token").await?;
    expect("instances", count(ec2).await?, 2)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: only the retry of a request that
/// *completed successfully* has no effect, and a refused request may be sent again.
pub(super) async fn a_refused_launch_uses_no_token_up(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let zone = ec2.place().zone.clone();
    ec2.set(Circumstance::NoCapacity { zone }).await;
    let refused = ec2.run_instances(&ec2.place().request("token")).await;
    expect_refusal("without capacity", refused, "InsufficientInstanceCapacity")?;
    expect("instances", count(ec2).await?, 0)?;
    ec2.set(Circumstance::Capacity).await;
    let other = LaunchRequest { user_data: UserData::new(b"#!/bin/bash".to_vec()), ..ec2.place().request("token") };
    ec2.run_instances(&other).await?;
    expect("instances", count(ec2).await?, 1)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html>: retries of a completed request succeed
/// without performing any further action, so they do not need capacity.
pub(super) async fn a_known_token_needs_no_capacity(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let first = launched(ec2, "token").await?;
    let zone = ec2.place().zone.clone();
    ec2.set(Circumstance::NoCapacity { zone }).await;
    expect("the repeated launch", launched(ec2, "token").await?, first)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html> has IdempotentInstanceTerminated for the
/// token of a terminated instance; the page on idempotency lets a retry succeed with the current status. In both cases
/// no instance is launched.
pub(super) async fn the_token_of_a_terminated_instance_launches_nothing(
    ec2: &dyn Ec2UnderTest,
) -> Result<(), Deviation> {
    let first = launched(ec2, "token").await?;
    ec2.terminate_instances(std::slice::from_ref(&first)).await?;
    match ec2.run_instances(&ec2.place().request("token")).await {
        Ok(answer) => expect("the answer", (answer.id, answer.state), (first, InstanceState::Terminated))?,
        refused => expect_refusal("the refusal", refused, "IdempotentInstanceTerminated")?,
    }
    expect("instances", count(ec2).await?, 1)
}
