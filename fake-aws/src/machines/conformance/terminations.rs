//! TerminateInstances.

use capa_cloud::{InstanceState, LaunchRequest, Query};

use super::{Circumstance, Deviation, Ec2UnderTest, Stage, changes, expect, expect_refusal, launched, shown, state};

const UNKNOWN: &str = "i-0123456789abcdef0";

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>: terminating an instance more
/// than once succeeds each time.
pub(super) async fn terminating_twice_is_no_error(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "token").await?;
    let ids = std::slice::from_ref(&id);
    ec2.hold(Stage::ShuttingDown).await;
    let (running, ending, ended) = (InstanceState::Running, InstanceState::ShuttingDown, InstanceState::Terminated);
    let first = changes(ec2.terminate_instances(ids).await?);
    expect("first", first, vec![(id.clone(), running, ending)])?;
    let second = changes(ec2.terminate_instances(ids).await?);
    expect("second", second, vec![(id.clone(), ending, ending)])?;
    expect("meanwhile", state(ec2, &id).await?, Some(ending))?;
    ec2.let_go(Stage::ShuttingDown).await;
    let third = changes(ec2.terminate_instances(ids).await?);
    expect("third", third, vec![(id.clone(), ended, ended)])?;
    expect("in the end", state(ec2, &id).await?, Some(ended))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>, InstanceId.N: up to 1000 ids
/// in one request.
pub(super) async fn several_instances_end_in_one_call(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let ids = [launched(ec2, "one").await?, launched(ec2, "two").await?];
    ec2.terminate_instances(&ids).await?;
    let terminated = Query::filter("instance-state-name", ["terminated"]);
    expect("terminated", shown(ec2, &terminated).await?.len(), 2)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>: if the request fails, for
/// example because of a single incorrect id, none of the instances are terminated.
pub(super) async fn one_unknown_id_refuses_the_whole_call(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "token").await?;
    for ids in [[id.clone(), UNKNOWN.to_owned()], [UNKNOWN.to_owned(), id.clone()]] {
        let refused = ec2.terminate_instances(&ids).await;
        expect_refusal("with an unknown id", refused, "InvalidInstanceID.NotFound")?;
    }
    expect("the other", state(ec2, &id).await?, Some(InstanceState::Running))
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, InvalidInstanceID.Malformed.
pub(super) async fn an_id_of_another_form_is_refused(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let refused = ec2.terminate_instances(&["machine-1".to_owned()]).await;
    expect_refusal("no id of an instance", refused, "InvalidInstanceID.Malformed")
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html>, InvalidInstanceID.NotFound: this answer
/// of TerminateInstances does not mean that the instance is terminated; the instance may continue to run.
pub(super) async fn a_hidden_instance_cannot_be_terminated_yet(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.hold(Stage::Hidden).await;
    let id = launched(ec2, "token").await?;
    let refused = ec2.terminate_instances(std::slice::from_ref(&id)).await;
    expect_refusal("while hidden", refused, "InvalidInstanceID.NotFound")?;
    ec2.let_go(Stage::Hidden).await;
    expect("afterwards", state(ec2, &id).await?, Some(InstanceState::Running))?;
    ec2.terminate_instances(std::slice::from_ref(&id)).await?;
    expect("in the end", state(ec2, &id).await?, Some(InstanceState::Terminated))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html>: if a request names instances
/// of several zones and one of them is protected, the request fails. The instances in the zone of the protected
/// instance keep running, and the others are terminated.
pub(super) async fn protection_saves_the_instances_of_a_zone(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let protected = launched(ec2, "protected").await?;
    let beside = launched(ec2, "beside").await?;
    let elsewhere =
        LaunchRequest { subnet_id: ec2.place().subnet_id_elsewhere.clone(), ..ec2.place().request("elsewhere") };
    let elsewhere = ec2.run_instances(&elsewhere).await?.id;
    ec2.set(Circumstance::Protected(protected.clone())).await;
    let ids = [protected.clone(), beside.clone(), elsewhere.clone()];
    let refused = ec2.terminate_instances(&ids).await;
    expect_refusal("a protected one among them", refused, "OperationNotPermitted")?;
    expect("the protected one", state(ec2, &protected).await?, Some(InstanceState::Running))?;
    expect("one of its zone", state(ec2, &beside).await?, Some(InstanceState::Running))?;
    expect("one of another zone", state(ec2, &elsewhere).await?, Some(InstanceState::Terminated))
}
