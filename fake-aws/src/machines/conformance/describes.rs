//! Filters of DescribeInstances.

use capa_api::meta;

use capa_cloud::{LaunchRequest, Query};

use super::{Deviation, Ec2UnderTest, expect, expect_refusal, launched, shown};

async fn found(ec2: &dyn Ec2UnderTest, query: Query) -> Result<Vec<String>, Deviation> {
    let found = shown(ec2, &query).await?;
    Ok(found.into_iter().map(|(id, _)| id).collect())
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html>: several values of a filter are joined
/// with OR, several filters with AND. The filters are those of
/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html>.
pub(super) async fn every_filter_must_match(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let place = ec2.place();
    let one = launched(ec2, "one").await?;
    let cluster = meta::cluster_tag("dev.example");
    let mut elsewhere = LaunchRequest { subnet_id: place.subnet_id_elsewhere.clone(), ..place.request("two") };
    elsewhere.tags.insert(cluster.clone(), meta::OWNED_TAG_VALUE.to_owned());
    let two = ec2.run_instances(&elsewhere).await?.id;
    let mut both = vec![one.clone(), two.clone()];
    both.sort();
    let table = [
        (Query::filter("instance-id", [&one]), vec![one.clone()]),
        (Query::filter("instance-id", [&one, &two]), both.clone()),
        (Query::filter("client-token", ["two"]), vec![two.clone()]),
        (Query::filter("client-token", ["three"]), vec![]),
        (Query::filter("tag:MachineName", ["default/one", "default/x"]), vec![one.clone()]),
        (Query::filter("tag-key", ["MachineName"]), both.clone()),
        (Query::filter("tag-key", ["MachineNames"]), vec![]),
        (Query::filter("tag-key", [cluster.clone(), meta::cluster_tag("prod")]), vec![two.clone()]),
        (Query::filter("tag-key", [cluster, "MachineName".to_owned()]), both.clone()),
        // Neither a part of a key nor a key that differs where the other has a dot.
        (Query::filter("tag-key", ["dev", "dev-example"].map(meta::cluster_tag)), vec![]),
        (Query::filter("instance-state-name", ["running", "pending"]), both.clone()),
        (Query::filter("instance-state-name", ["stopped"]), vec![]),
        (Query::filter("subnet-id", [&place.subnet_id]), vec![one.clone()]),
        (Query::filter("availability-zone", [&place.zone]), vec![one.clone()]),
        (Query::filter("vpc-id", [&place.vpc_id]), both.clone()),
        (Query::filter("image-id", [&place.image_id]), both.clone()),
        (Query::filter("instance-type", [&place.instance_type]), both),
        (Query::filter("vpc-id", [&place.vpc_id]).and("client-token", ["two"]), vec![two]),
        (Query::filter("subnet-id", [&place.subnet_id]).and("client-token", ["two"]), vec![]),
    ];
    for (query, expected) in table {
        let what = format!("{query:?}");
        expect(&what, found(ec2, query).await?, expected)?;
    }
    Ok(())
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html>, `instance.group-id`: the groups
/// of an instance, those of its interface included.
pub(super) async fn instances_are_found_by_their_groups(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let place = ec2.place();
    let id = launched(ec2, "one").await?;
    let ours = Query::filter("instance.group-id", [&place.security_group_id]);
    expect("by its group", found(ec2, ours).await?, vec![id])?;
    let foreign = Query::filter("instance.group-id", [&place.foreign_security_group_id]);
    expect("by another group", found(ec2, foreign).await?, vec![])
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html>: values are case-sensitive; `*` stands
/// for any text, `?` for one character.
pub(super) async fn filter_values_mind_the_case_and_take_wildcards(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "one").await?;
    for (pattern, matches) in
        [("default/*", true), ("default/on?", true), ("default/o?", false), ("Default/one", false)]
    {
        let expected = if matches { vec![id.clone()] } else { vec![] };
        expect(pattern, found(ec2, Query::filter("tag:MachineName", [pattern])).await?, expected)?;
    }
    Ok(())
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html>: the output holds the instances
/// that meet the filters; an id parameter that is not valid is an error, a filter value is not.
pub(super) async fn an_id_that_is_not_found_is_left_out(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "one").await?;
    let query = Query::filter("instance-id", [id.as_str(), "i-0123456789abcdef0"]);
    expect("found", found(ec2, query).await?, vec![id])
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, InvalidParameterValue: a value given for a
/// parameter is not valid. An unknown filter is never ignored.
pub(super) async fn an_unknown_filter_is_refused(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    launched(ec2, "one").await?;
    let refused = ec2.describe_instances(&Query::filter("machine-name", ["one"])).await;
    expect_refusal("machine-name", refused, "InvalidParameterValue")
}

/// <https://docs.aws.amazon.com/ec2/latest/devguide/errors-overview.html>, FilterLimitExceeded: a request takes at most
/// 200 filter values.
pub(super) async fn a_filter_takes_200_values(ec2: &dyn Ec2UnderTest) -> Result<(), Deviation> {
    let id = launched(ec2, "one").await?;
    let others = (1..200).map(|number| format!("i-{number:017x}"));
    let full: Vec<_> = others.chain([id.clone()]).collect();
    expect("200 values", found(ec2, Query::filter("instance-id", full.clone())).await?, vec![id])?;
    let over = full.into_iter().chain(["i-0123456789abcdef0".to_owned()]);
    let refused = ec2.describe_instances(&Query::filter("instance-id", over)).await;
    expect_refusal("201 values", refused, "FilterLimitExceeded")
}
