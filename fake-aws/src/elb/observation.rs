//! What an observation shows of load balancers of the second generation and their parts, with the describes that it
//! takes.

use capa_api::common::Tags;
use capa_api::meta::{OWNED_TAG_VALUE, cluster_tag};
use capa_cloud::CloudError;
use capa_cloud::elb::target_group::PREFIXES;
use capa_cloud::elb::{Listener, LoadBalancer, Observed, TargetGroup};
use capa_cloud::managed::{Details, Scope, Seen};

use super::Elb;
use crate::ec2::Ec2;
use crate::faults::refusal;

/// The most ARNs, or names of Classic Load Balancers, that one DescribeTags names.
pub(super) const TAGS_BATCH: usize = 20;

impl Elb {
    /// All describes of an observation. An observation does not ask for a generation of which it names no load
    /// balancer, and it asks for nothing without a VPC.
    pub(crate) fn observe(&self, ec2: &mut Ec2, scope: &Scope, vpc: Option<&str>) -> Observed {
        let Some(vpc) = vpc else {
            return Observed::default();
        };
        let mut observed = if scope.load_balancers.is_empty() {
            Observed::default()
        } else {
            self.observe_second_generation(ec2, scope, vpc)
        };
        if !scope.classic_load_balancers.is_empty() {
            observed.classic_load_balancers = self.observe_classic(ec2, scope, vpc).into();
        }
        observed
    }

    fn observe_second_generation(&self, ec2: &mut Ec2, scope: &Scope, vpc: &str) -> Observed {
        let is_owned = |tags: &Tags| is_owned(tags, &scope.cluster);
        let is_here = |balancer: &&LoadBalancer| balancer.vpc_id == vpc;
        let mut balancers = describe(ec2, "DescribeLoadBalancers").map(|()| {
            self.shown_load_balancers(ec2, |shown| is_here(&shown) || scope.load_balancers.contains(&shown.name))
        });
        let mut groups = describe(ec2, "DescribeTargetGroups").map(|()| {
            self.shown_target_groups(ec2, |shown| shown.vpc_id == vpc || scope.target_groups.contains(&shown.name))
        });
        let none = Details::default();
        let known = scope.known.as_deref().unwrap_or(&none);
        let is_asked = |arn: &String| !known.tags.contains_key(arn);
        let tagged_balancers = balancers.iter().flatten().filter(is_here);
        let tagged_balancers = tagged_balancers.filter(|balancer| is_asked(&balancer.arn)).count();
        let tagged_groups = groups.iter().flatten().filter(|group| has_tags(group, vpc));
        let tagged_groups = tagged_groups.filter(|group| is_asked(&group.arn)).count();
        if let Err(error) = describe_tags(ec2, tagged_balancers) {
            balancers = balancers.and(Err(error));
        }
        if let Err(error) = describe_tags(ec2, tagged_groups) {
            groups = groups.and(Err(error));
        }
        for balancer in balancers.iter_mut().flatten() {
            self.observe_details_of_balancer(ec2, scope, vpc, known, balancer);
        }
        for group in groups.iter_mut().flatten() {
            observe_details_of_group(ec2, scope, vpc, known, group);
        }
        let listeners = balancers.as_ref().map_or(Seen::NotAsked, |balancers| {
            let of_cluster = balancers.iter().filter(|balancer| is_owned(&balancer.tags));
            let arns: Vec<_> = of_cluster.map(|balancer| &*balancer.arn).collect();
            self.describe_listeners(ec2, &arns, known).into()
        });
        Observed {
            load_balancers: balancers.into(),
            target_groups: groups.into(),
            listeners,
            classic_load_balancers: Seen::NotAsked,
        }
    }

    /// Sets the tags and attributes of a load balancer: the known ones, or else what AWS answers.
    fn observe_details_of_balancer(
        &self,
        ec2: &mut Ec2,
        scope: &Scope,
        vpc: &str,
        known: &Details,
        balancer: &mut LoadBalancer,
    ) {
        if let Some(tags) = known.tags.get(&balancer.arn) {
            balancer.tags.clone_from(tags);
        }
        if balancer.vpc_id != vpc {
            balancer.tags.clear();
        } else if let Some(attributes) = known.attributes.get(&balancer.arn) {
            balancer.attributes = Seen::Shown(attributes.clone());
        } else if is_owned(&balancer.tags, &scope.cluster) {
            let attributes = describe(ec2, "DescribeLoadBalancerAttributes");
            let attributes = attributes.map(|()| self.load_balancer_attributes(&balancer.arn));
            balancer.attributes = attributes.into();
        }
    }

    /// One describe for each load balancer, and those of the tags.
    fn describe_listeners(
        &self,
        ec2: &mut Ec2,
        load_balancers: &[&str],
        known: &Details,
    ) -> Result<Vec<Listener>, CloudError> {
        for _ in load_balancers {
            describe(ec2, "DescribeListeners")?;
        }
        let resources = self.listeners.values();
        let of_these = resources.filter(|resource| load_balancers.contains(&&*resource.body.load_balancer_arn));
        let shown = of_these.filter(|resource| ec2.is_shown(resource));
        let mut asked = 0;
        let listeners: Vec<_> = shown
            .map(|resource| {
                let tags = known.tags.get(&resource.body.arn);
                asked += usize::from(tags.is_none());
                Listener {
                    tags: tags.map_or_else(|| ec2.shown_tags(resource, &resource.body.tags), Tags::clone),
                    ..resource.body.clone()
                }
            })
            .collect();
        describe_tags(ec2, asked)?;
        Ok(listeners)
    }

    fn shown_load_balancers(&self, ec2: &Ec2, selects: impl Fn(&LoadBalancer) -> bool) -> Vec<LoadBalancer> {
        let shown = self.load_balancers.values().filter(|resource| ec2.is_shown(resource));
        let views = shown.map(|resource| LoadBalancer {
            tags: ec2.shown_tags(resource, &resource.body.load_balancer.tags),
            ..Self::view_load_balancer(ec2, resource)
        });
        views.filter(selects).collect()
    }

    fn shown_target_groups(&self, ec2: &Ec2, selects: impl Fn(&TargetGroup) -> bool) -> Vec<TargetGroup> {
        let selected = self.target_groups.values().filter(|resource| selects(&resource.body));
        let shown = selected.filter(|resource| ec2.is_shown(resource));
        let views = shown.map(|resource| TargetGroup {
            load_balancer_arns: self.load_balancers_of(&resource.body.arn),
            tags: ec2.shown_tags(resource, &resource.body.tags),
            ..resource.body.clone()
        });
        views.collect()
    }
}

/// Sets the tags and attributes of a target group: the known ones, or else what AWS answers.
fn observe_details_of_group(ec2: &mut Ec2, scope: &Scope, vpc: &str, known: &Details, group: &mut TargetGroup) {
    if let Some(tags) = known.tags.get(&group.arn) {
        group.tags.clone_from(tags);
    }
    if !has_tags(group, vpc) {
        group.tags.clear();
    }
    if !is_owned(&group.tags, &scope.cluster) {
        group.attributes = Seen::NotAsked;
    } else if let Some(attributes) = known.attributes.get(&group.arn) {
        group.attributes = Seen::Shown(attributes.clone());
    } else if let Err(error) = describe(ec2, "DescribeTargetGroupAttributes") {
        group.attributes = Seen::Failed(error);
    }
}

/// Whether the tags are those of what the cluster owns.
pub(super) fn is_owned(tags: &Tags, cluster: &str) -> bool {
    let value = tags.get(&cluster_tag(cluster));
    value.is_some_and(|value| value == OWNED_TAG_VALUE)
}

/// Whether an observation asks for the tags of a target group.
fn has_tags(group: &TargetGroup, vpc: &str) -> bool {
    group.vpc_id == vpc && PREFIXES.iter().any(|beginning| group.name.starts_with(beginning))
}

/// The describes of the tags of so many resources; none for none.
fn describe_tags(ec2: &mut Ec2, resources: usize) -> Result<(), CloudError> {
    for _ in 0..resources.div_ceil(TAGS_BATCH) {
        describe(ec2, "DescribeTags")?;
    }
    Ok(())
}

/// Counts a describe action. The test may refuse it.
fn describe(ec2: &mut Ec2, action: &'static str) -> Result<(), CloudError> {
    describe_as(ec2, action, action)
}

/// Counts a describe action under a name of its own, by which the test may refuse it.
pub(super) fn describe_as(ec2: &mut Ec2, name: &'static str, action: &'static str) -> Result<(), CloudError> {
    ec2.count(name);
    if ec2.behaviour.refused_describes.contains(name) {
        return Err(refusal(action, "AccessDenied"));
    }
    Ok(())
}
