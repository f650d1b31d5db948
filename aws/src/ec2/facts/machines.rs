//! Facts about the AWS resources that machine templates name.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Query};
use capa_preflight::facts::{CapacityReservation, Offering, PlacementGroup};

use super::super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The zones in which these instance types are offered.
    pub(crate) async fn offering_facts(&self, names: Vec<String>) -> Result<Vec<Offering>, CloudError> {
        let query = &Query::filter("instance-type", names);
        self.runner
            .describe("DescribeInstanceTypeOfferings", query, |permit, token| async move {
                let request = self.client.describe_instance_type_offerings().set_filters(filters(query));
                let request = request.location_type(types::LocationType::AvailabilityZone).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                let offerings = answer.instance_type_offerings().iter().map(|offering| Offering {
                    instance_type: text(offering.instance_type().map(types::InstanceType::as_str)),
                    zone: text(offering.location()),
                });
                Ok(Page { items: offerings.collect(), next: answer.next_token })
            })
            .await
    }

    /// The names of these key pairs that exist.
    pub(crate) async fn key_pair_facts(&self, names: Vec<String>) -> Result<Vec<String>, CloudError> {
        let query = &Query::filter("key-name", names);
        self.runner
            .describe("DescribeKeyPairs", query, |permit, _| async move {
                let request = self.client.describe_key_pairs().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.key_pairs().iter().map(|pair| text(pair.key_name()))))
            })
            .await
    }

    /// The placement groups with these names.
    pub(crate) async fn placement_group_facts(&self, names: Vec<String>) -> Result<Vec<PlacementGroup>, CloudError> {
        let query = &Query::filter("group-name", names);
        self.runner
            .describe("DescribePlacementGroups", query, |permit, _| async move {
                let request = self.client.describe_placement_groups().set_filters(filters(query));
                let answer = self.runner.call(permit, request.send()).await?;
                Ok(Page::only(answer.placement_groups().iter().map(|group| PlacementGroup {
                    name: text(group.group_name()),
                    state: group.state().map_or("", types::PlacementGroupState::as_str).into(),
                    partitions: group.partition_count(),
                })))
            })
            .await
    }

    /// The capacity reservations with these ids.
    pub(crate) async fn reservation_facts(&self, ids: Vec<String>) -> Result<Vec<CapacityReservation>, CloudError> {
        let query = &Query::filter("capacity-reservation-id", ids.clone());
        let ids = &ids;
        self.runner
            .describe("DescribeCapacityReservations", query, |permit, token| async move {
                let request = self.client.describe_capacity_reservations().set_next_token(token);
                let answer = self.runner.call(permit, request.send()).await?;
                let shown = answer.capacity_reservations().iter().map(reservation);
                Ok(Page {
                    items: shown.filter(|reservation| ids.contains(&reservation.id)).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }
}

fn reservation(shown: &types::CapacityReservation) -> CapacityReservation {
    CapacityReservation {
        id: text(shown.capacity_reservation_id()),
        state: text(shown.state().map(types::CapacityReservationState::as_str)),
        zone: text(shown.availability_zone()),
        instance_type: text(shown.instance_type()),
        free: shown.available_instance_count().unwrap_or_default(),
    }
}
