//! Launches that EC2 refuses.

use capa_cloud::{CloudError, ErrorClass, Instance, LaunchRequest, Query, UserData};

use super::{Circumstance, Deviation, Ec2UnderTest, count, expect, expect_refusal};

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>: the codes for resources that do not exist.
pub(super) async fn references_of_a_launch_must_exist(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let request = ec2.place().request("token");
    let table = [
        (LaunchRequest { image_id: "ami-0123456789abcdef0".into(), ..request.clone() }, "InvalidAMIID.NotFound"),
        (LaunchRequest { subnet_id: "subnet-0123456789abcdef0".into(), ..request.clone() }, "InvalidSubnetID.NotFound"),
        (
            LaunchRequest { security_group_ids: vec!["sg-0123456789abcdef0".into()], ..request.clone() },
            "InvalidGroup.NotFound",
        ),
        (LaunchRequest { key_name: Some("nobodys".into()), ..request }, "InvalidKeyPair.NotFound"),
    ];
    for (request, code) in table {
        expect_refusal("a thing that does not exist", ec2.run_instances(&request).await, code)?;
    }
    expect("instances", count(ec2).await?, 0)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, InvalidParameter: a security group and a
/// subnet that lie in different VPCs cannot be given for one launch.
pub(super) async fn groups_of_another_vpc_are_refused(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let request = LaunchRequest {
        security_group_ids: vec![ec2.place().foreign_security_group_id.clone()],
        ..ec2.place().request("token")
    };
    expect_refusal("a foreign group", ec2.run_instances(&request).await, "InvalidParameter")?;
    expect("instances", count(ec2).await?, 0)
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_RunInstances.html>, ClientToken: at most 64 ASCII
/// characters. The code of the refusal is not given.
pub(super) async fn a_token_has_at_most_64_characters(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let long = ec2.place().request(&"t".repeat(65));
    expect_invalid("a token of 65 characters", ec2.run_instances(&long).await)?;
    expect("instances", count(ec2).await?, 0)?;
    ec2.run_instances(&ec2.place().request(&"t".repeat(64))).await?;
    Ok(())
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html>: user data is limited to 16
/// KiB before it is encoded. The code of the refusal is not given.
pub(super) async fn user_data_has_at_most_16_kib(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let with = |token: &str, bytes| LaunchRequest {
        user_data: UserData::new(vec![b'x'; bytes]),
        ..ec2.place().request(token)
    };
    let refused = ec2.run_instances(&with("over", UserData::MAX_BYTES + 1)).await;
    expect_invalid("one byte too many", refused)?;
    expect("instances", count(ec2).await?, 0)?;
    ec2.run_instances(&with("full", UserData::MAX_BYTES)).await?;
    Ok(())
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, InsufficientInstanceCapacity: capacity is
/// lacking in a zone, and may be had in another.
pub(super) async fn capacity_is_refused_by_zone(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let place = ec2.place();
    let zone = place.zone.clone();
    ec2.set(Circumstance::NoCapacity { zone }).await;
    let into = |token: &str, subnet: &str| LaunchRequest { subnet_id: subnet.to_owned(), ..place.request(token) };
    for (token, subnet) in [("one", &place.subnet_id), ("two", &place.subnet_id_beside)] {
        let refused = ec2.run_instances(&into(token, subnet)).await;
        expect_refusal("in the zone", refused, "InsufficientInstanceCapacity")?;
    }
    ec2.run_instances(&into("three", &place.subnet_id_elsewhere)).await?;
    expect("instances", count(ec2).await?, 1)
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html>: RunInstances has a bucket of 5 requests,
/// a request beyond is answered RequestLimitExceeded, and other actions are not concerned.
pub(super) async fn requests_beyond_the_limit_are_throttled(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    ec2.set(Circumstance::Throttling).await;
    let mut served = 0;
    for number in 0..40 {
        match ec2.run_instances(&ec2.place().request(&format!("token-{number}"))).await {
            Ok(_) => served += 1,
            refused => {
                expect_refusal("beyond the limit", refused, "RequestLimitExceeded")?;
                expect("at least a full bucket was served", served >= 5, true)?;
                ec2.describe_instances(&Query::filter("tag-key", ["MachineName"])).await?;
                return expect("instances", count(ec2).await?, served);
            }
        }
    }
    Err(Deviation("40 launches in a row met no limit".to_owned()))
}

fn expect_invalid(what: &str, result: Result<Instance, CloudError>) -> Result<(), Deviation> {
    expect(what, result.map_err(|error| error.class).err(), Some(ErrorClass::Invalid))
}
