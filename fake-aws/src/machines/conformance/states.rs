//! The life of an instance.

use capa_cloud::{InstanceState, Query, StateReason};

use super::{
    Circumstance, Deviation, Ec2UnderTest, Stage, changes, count, expect, expect_refusal, launched, shown, state,
};

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html>: a launched instance is `pending`,
/// then `running`.
pub(super) async fn an_instance_is_pending_before_it_runs(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.hold(Stage::Pending).await;
    let answer = ec2.run_instances(&ec2.place().request("token")).await?;
    expect("the answer", answer.state, InstanceState::Pending)?;
    expect("at first", state(ec2, &answer.id).await?, Some(InstanceState::Pending))?;
    let pending = Query::filter("instance-state-name", ["pending"]);
    expect("by its state", shown(ec2, &pending).await?.len(), 1)?;
    ec2.let_go(Stage::Pending).await;
    expect("afterwards", state(ec2, &answer.id).await?, Some(InstanceState::Running))?;
    expect("by its former state", shown(ec2, &pending).await?.len(), 0)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html>: a launch may fail after RunInstances
/// has answered; the state reason says why.
pub(super) async fn an_instance_may_die_in_pending_and_says_why(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let reason = StateReason {
        code: "Server.InternalError".to_owned(),
        message: "Server.InternalError: Internal error on launch".to_owned(),
    };
    ec2.hold(Stage::Pending).await;
    ec2.set(Circumstance::DeathInPending(reason)).await;
    let id = launched(ec2, "token").await?;
    ec2.let_go(Stage::Pending).await;
    let found = ec2.describe_instances(&Query::filter("instance-id", [id])).await?;
    let found = found.into_iter().next();
    expect("its state", found.as_ref().map(|found| found.state), Some(InstanceState::Terminated))?;
    let code = found.and_then(|found| found.state_reason).map(|reason| reason.code);
    expect("its reason", code.as_deref(), Some("Server.InternalError"))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html>: `running`, `stopping`, `stopped`,
/// `pending`, `running`.
pub(super) async fn a_stopped_instance_can_be_started(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "token").await?;
    let ids = std::slice::from_ref(&id);
    ec2.hold(Stage::Stopping).await;
    let stopped = changes(ec2.stop_instances(ids).await?);
    let expected = vec![(id.clone(), InstanceState::Running, InstanceState::Stopping)];
    expect("stopping it", stopped, expected)?;
    expect("meanwhile", state(ec2, &id).await?, Some(InstanceState::Stopping))?;
    ec2.let_go(Stage::Stopping).await;
    expect("afterwards", state(ec2, &id).await?, Some(InstanceState::Stopped))?;
    ec2.hold(Stage::Pending).await;
    let started = changes(ec2.start_instances(ids).await?);
    let expected = vec![(id.clone(), InstanceState::Stopped, InstanceState::Pending)];
    expect("starting it", started, expected)?;
    expect("meanwhile", state(ec2, &id).await?, Some(InstanceState::Pending))?;
    ec2.let_go(Stage::Pending).await;
    expect("in the end", state(ec2, &id).await?, Some(InstanceState::Running))
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, IncorrectInstanceState: the state does not
/// allow the action.
pub(super) async fn a_terminated_instance_cannot_be_started(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "token").await?;
    let ids = std::slice::from_ref(&id);
    ec2.terminate_instances(ids).await?;
    expect_refusal("starting it", ec2.start_instances(ids).await, "IncorrectInstanceState")?;
    expect_refusal("stopping it", ec2.stop_instances(ids).await, "IncorrectInstanceState")?;
    expect("its state", state(ec2, &id).await?, Some(InstanceState::Terminated))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>: terminated instances remain
/// visible after termination, for about an hour; `Client.UserInitiatedShutdown` is the reason that
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html> gives.
pub(super) async fn a_terminated_instance_is_still_shown(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "token").await?;
    ec2.terminate_instances(std::slice::from_ref(&id)).await?;
    let found = ec2.describe_instances(&Query::filter("client-token", ["token"])).await?;
    let found = found.into_iter().next();
    expect("its state", found.as_ref().map(|found| found.state), Some(InstanceState::Terminated))?;
    let code = found.and_then(|found| found.state_reason).map(|reason| reason.code);
    expect("its reason", code.as_deref(), Some("Client.UserInitiatedShutdown"))
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html>: what was just created may be unknown to
/// other commands. This applies to all filters. RunInstances knows the instance.
pub(super) async fn a_fresh_instance_may_be_hidden_from_describes(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.hold(Stage::Hidden).await;
    let id = launched(ec2, "token").await?;
    let queries = [
        Query::default(),
        Query::filter("instance-id", [&id]),
        Query::filter("client-token", ["token"]),
        Query::filter("tag:MachineName", ["default/token"]),
        Query::filter("tag-key", ["MachineName"]),
        Query::filter("vpc-id", [&ec2.place().vpc_id]),
    ];
    for query in &queries {
        expect("hidden", shown(ec2, query).await?.len(), 0)?;
    }
    expect("repeating the launch", launched(ec2, "token").await?, id)?;
    ec2.let_go(Stage::Hidden).await;
    for query in &queries {
        expect("afterwards", shown(ec2, query).await?.len(), 1)?;
    }
    expect("instances", count(ec2).await?, 1)
}
