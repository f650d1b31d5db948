//! Filters of specs, by which AWS resources are found instead of by their ids. The wildcards in them are EC2's own.
//! Pure.

use capa_api::common::Filter;
use capa_cloud::Query;

const VPC_FILTER: &str = "vpc-id";
/// The most candidates that a message lists.
const MAX_LISTED: usize = 5;

/// The query for resources that match all filters.
pub(crate) fn query(filters: &[Filter]) -> Query {
    let filters = filters.iter();
    Query { filters: filters.map(|filter| (filter.name.clone(), filter.values.clone())).collect() }
}

/// The query for resources of a VPC that match all filters. If the filters themselves name VPCs, the answer may contain
/// resources of another VPC, because a query has each filter only once. The caller compares the VPC.
pub(crate) fn query_in(filters: &[Filter], vpc_id: &str) -> Query {
    let query = query(filters);
    if query.filters.iter().any(|(name, _)| name == VPC_FILTER) {
        return query;
    }
    query.and(VPC_FILTER, [vpc_id])
}

/// The candidates of an ambiguous search for a message: sorted, and the first five if there are more.
pub(crate) fn candidates<T: AsRef<str>>(candidates: impl IntoIterator<Item = T>) -> String {
    let mut listed: Vec<String> = candidates.into_iter().map(|candidate| candidate.as_ref().to_owned()).collect();
    listed.sort();
    listed.dedup();
    let are_more = listed.len() > MAX_LISTED;
    listed.truncate(MAX_LISTED);
    let more = if are_more { " and more" } else { "" };
    format!("{}{more}", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_the_filter_for_the_vpc_once() {
        let filter = |name: &str| Filter { name: name.to_owned(), values: vec!["a".to_owned()] };
        let tagged = Query::filter("tag:tier", ["a"]);
        assert_eq!(query_in(&[filter("tag:tier")], "vpc-1"), tagged.and("vpc-id", ["vpc-1"]));
        let own = query_in(&[filter("vpc-id")], "vpc-1");
        assert_eq!(own, Query::filter("vpc-id", ["a"]));
    }

    #[test]
    fn at_most_five_candidates_are_listed_in_order() {
        for (number, expected) in [
            (1, "vpc-1"),
            (3, "vpc-1, vpc-2, vpc-3"),
            (5, "vpc-1, vpc-2, vpc-3, vpc-4, vpc-5"),
            (6, "vpc-1, vpc-2, vpc-3, vpc-4, vpc-5 and more"),
        ] {
            let ids = (1..=number).rev().map(|number| format!("vpc-{number}"));
            assert_eq!(candidates(ids.clone()), expected);
            assert_eq!(candidates(ids.clone().chain(ids)), expected, "duplicates count once");
        }
    }
}
