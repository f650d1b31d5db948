//! What an observation shows of Classic Load Balancers, with the describes that it takes. The API of Classic Load
//! Balancers has actions with the same names as the second generation: they are counted, and refused by a test, under
//! names with a prefix.

use capa_cloud::CloudError;
use capa_cloud::elb::ClassicLoadBalancer;
use capa_cloud::managed::{Scope, Seen};

use super::Elb;
use super::observation::{TAGS_BATCH, describe_as, is_owned};
use crate::ec2::Ec2;

impl Elb {
    /// All describes of an observation of Classic Load Balancers.
    pub(super) fn observe_classic(
        &self,
        ec2: &mut Ec2,
        scope: &Scope,
        vpc: &str,
    ) -> Result<Vec<ClassicLoadBalancer>, CloudError> {
        describe_load_balancers(ec2)?;
        let is_here = |balancer: &ClassicLoadBalancer| balancer.vpc_id == vpc;
        let mut balancers = self.shown_classic_load_balancers(ec2, |shown| {
            is_here(shown) || scope.classic_load_balancers.contains(&shown.name)
        });
        let tagged = balancers.iter().filter(|balancer| is_here(balancer)).count();
        for _ in 0..tagged.div_ceil(TAGS_BATCH) {
            describe_tags(ec2)?;
        }
        for balancer in &mut balancers {
            if !is_here(balancer) {
                balancer.tags.clear();
            }
            if !is_owned(&balancer.tags, &scope.cluster) {
                balancer.attributes = Seen::NotAsked;
            } else if let Err(error) = describe_attributes(ec2) {
                balancer.attributes = Seen::Failed(error);
            }
        }
        Ok(balancers)
    }

    fn shown_classic_load_balancers(
        &self,
        ec2: &Ec2,
        selects: impl Fn(&ClassicLoadBalancer) -> bool,
    ) -> Vec<ClassicLoadBalancer> {
        let resources = self.classic_load_balancers.values();
        let selected = resources.filter(|resource| selects(&resource.body));
        let shown = selected.filter(|resource| ec2.is_shown(resource));
        let views = shown.map(|resource| ClassicLoadBalancer {
            tags: ec2.shown_tags(resource, &resource.body.tags),
            ..resource.body.clone()
        });
        views.collect()
    }
}

fn describe_load_balancers(ec2: &mut Ec2) -> Result<(), CloudError> {
    describe_as(ec2, "DescribeClassicLoadBalancers", "DescribeLoadBalancers")
}

fn describe_tags(ec2: &mut Ec2) -> Result<(), CloudError> {
    describe_as(ec2, "DescribeClassicTags", "DescribeTags")
}

fn describe_attributes(ec2: &mut Ec2) -> Result<(), CloudError> {
    const NAME: &str = "DescribeClassicLoadBalancerAttributes";
    describe_as(ec2, NAME, "DescribeLoadBalancerAttributes")
}
