//! Load balancers that a user provides for the API servers of a cluster.

use anyhow::Context;
use aws_sdk_elasticloadbalancing as classic;
use aws_sdk_elasticloadbalancing::types::Listener as ClassicListener;
use aws_sdk_elasticloadbalancingv2 as elbv2;
use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, LoadBalancerTypeEnum, ProtocolEnum, TargetGroupAttribute, TargetTypeEnum,
};

use super::{Network, User};

/// The port of API servers.
const PORT: i32 = 6443;

/// A network load balancer with one listener on port 6443.
#[derive(Clone, Debug)]
pub struct LoadBalancer {
    /// Its ARN.
    pub arn: String,
    /// The DNS name.
    pub dns_name: String,
    /// The target group of its listener: instances, on port 6443.
    pub target_group_arn: String,
}

/// A classic load balancer with one listener on port 6443.
#[derive(Clone, Debug)]
pub struct ClassicLoadBalancer {
    /// The name.
    pub name: String,
    /// The DNS name.
    pub dns_name: String,
}

impl User {
    /// A network load balancer in the private subnets of a network, with a target group of the same name.
    pub async fn create_network_load_balancer(&self, network: &Network, name: &str) -> anyhow::Result<LoadBalancer> {
        let subnets = network.private_subnet_ids();
        self.announce_as(
            "elbv2",
            &format!(
                "create-load-balancer --name {name} --type network --scheme internal --subnets {}",
                subnets.join(" ")
            ),
        );
        let create = self.elbv2.create_load_balancer().name(name);
        let create =
            create.r#type(LoadBalancerTypeEnum::Network).scheme(elbv2::types::LoadBalancerSchemeEnum::Internal);
        let subnets = subnets.into_iter().map(str::to_owned).collect();
        let created = create.set_subnets(Some(subnets)).send().await;
        let created = created.with_context(|| format!("creating the load balancer {name}"))?;
        let balancer = created.load_balancers().first().context("no load balancer")?;
        let arn = balancer.load_balancer_arn().context("no ARN of the load balancer")?;
        // moto reports the load balancer as `active` from the second read on.
        for _ in 0..2 {
            let look = self.elbv2.describe_load_balancers().load_balancer_arns(arn).send();
            look.await.with_context(|| format!("looking at {arn}"))?;
        }
        Ok(LoadBalancer {
            arn: arn.to_owned(),
            dns_name: balancer.dns_name().context("no DNS name")?.to_owned(),
            target_group_arn: self.create_target_group(network, name, TargetTypeEnum::Instance, arn, PORT).await?,
        })
    }

    /// Another target group for port 6443 of its targets, with its own listener. Returns the ARN.
    pub async fn create_target_group(
        &self,
        network: &Network,
        name: &str,
        target_type: TargetTypeEnum,
        load_balancer: &str,
        listener_port: i32,
    ) -> anyhow::Result<String> {
        let vpc = &network.vpc_id;
        self.announce_as(
            "elbv2",
            &format!(
                "create-target-group --name {name} --protocol TCP --port {PORT} --vpc-id {vpc} --target-type {}",
                target_type.as_str()
            ),
        );
        let create = self.elbv2.create_target_group().name(name).protocol(ProtocolEnum::Tcp);
        let create = create.port(PORT).vpc_id(vpc).target_type(target_type);
        let created = create.send().await;
        let created = created.with_context(|| format!("creating the target group {name}"))?;
        let group = created.target_groups().first().and_then(|group| group.target_group_arn());
        let group = group.context("no ARN of the target group")?;
        self.announce_as(
            "elbv2",
            &format!(
                "create-listener --load-balancer-arn {load_balancer} --protocol TCP --port {listener_port} \
                 --default-actions Type=forward,TargetGroupArn={group}"
            ),
        );
        let forward = Action::builder().r#type(ActionTypeEnum::Forward).target_group_arn(group);
        let listen = self.elbv2.create_listener().load_balancer_arn(load_balancer);
        let listen = listen.protocol(ProtocolEnum::Tcp).port(listener_port);
        let listening = listen.default_actions(forward.build()).send().await;
        listening.with_context(|| format!("listening for {group}"))?;
        Ok(group.to_owned())
    }

    /// Sets the deregistration delay of a group.
    pub async fn set_deregistration_delay(&self, target_group_arn: &str, seconds: u32) -> anyhow::Result<()> {
        let key = "deregistration_delay.timeout_seconds";
        self.announce_as(
            "elbv2",
            &format!(
                "modify-target-group-attributes --target-group-arn {target_group_arn} \
                 --attributes Key={key},Value={seconds}"
            ),
        );
        let attribute = TargetGroupAttribute::builder().key(key).value(seconds.to_string());
        let modify = self.elbv2.modify_target_group_attributes();
        let modify = modify.target_group_arn(target_group_arn).attributes(attribute.build());
        let modified = modify.send().await;
        modified.with_context(|| format!("changing {target_group_arn}"))?;
        Ok(())
    }

    /// Tags a target group.
    pub async fn tag_target_group(&self, target_group_arn: &str, key: &str, value: &str) -> anyhow::Result<()> {
        self.announce_as(
            "elbv2",
            &format!("add-tags --resource-arns {target_group_arn} --tags Key={key},Value={value}"),
        );
        let tag = elbv2::types::Tag::builder().key(key).value(value).build();
        let add = self.elbv2.add_tags().resource_arns(target_group_arn).tags(tag);
        let added = add.send().await;
        added.with_context(|| format!("tagging {target_group_arn}"))?;
        Ok(())
    }

    /// Takes a tag off a target group.
    pub async fn untag_target_group(&self, target_group_arn: &str, key: &str) -> anyhow::Result<()> {
        self.announce_as("elbv2", &format!("remove-tags --resource-arns {target_group_arn} --tag-keys {key}"));
        let remove = self.elbv2.remove_tags().resource_arns(target_group_arn).tag_keys(key);
        let removed = remove.send().await;
        removed.with_context(|| format!("taking a tag off {target_group_arn}"))?;
        Ok(())
    }

    /// A classic load balancer in the private subnets of a network.
    pub async fn create_classic_load_balancer(
        &self,
        network: &Network,
        name: &str,
    ) -> anyhow::Result<ClassicLoadBalancer> {
        let subnets = network.private_subnet_ids();
        self.announce_as(
            "elb",
            &format!(
                "create-load-balancer --load-balancer-name {name} --scheme internal --subnets {} --listeners \
                 Protocol=TCP,LoadBalancerPort={PORT},InstanceProtocol=TCP,InstancePort={PORT}",
                subnets.join(" ")
            ),
        );
        let listener = ClassicListener::builder().protocol("TCP").load_balancer_port(PORT);
        let listener = listener.instance_protocol("TCP").instance_port(PORT).build();
        let create = self.classic.create_load_balancer().load_balancer_name(name);
        let create = create.listeners(listener.context("describing a listener")?).scheme("internal");
        let subnets = subnets.into_iter().map(str::to_owned).collect();
        let created = create.set_subnets(Some(subnets)).send().await;
        let created = created.with_context(|| format!("creating the classic load balancer {name}"))?;
        Ok(ClassicLoadBalancer {
            name: name.to_owned(),
            dns_name: created.dns_name().context("no DNS name")?.to_owned(),
        })
    }

    /// The plain client for application and network load balancers.
    pub fn elbv2(&self) -> &elbv2::Client {
        &self.elbv2
    }

    /// The plain client for classic load balancers.
    pub fn classic(&self) -> &classic::Client {
        &self.classic
    }

    /// Deregisters a target of a group by hand.
    pub async fn deregister_target(&self, target_group_arn: &str, id: &str) -> anyhow::Result<()> {
        self.announce_as(
            "elbv2",
            &format!("deregister-targets --target-group-arn {target_group_arn} --targets Id={id}"),
        );
        let target = elbv2::types::TargetDescription::builder().id(id).build();
        let deregister = self.elbv2.deregister_targets().target_group_arn(target_group_arn);
        let deregistered = deregister.targets(target).send().await;
        deregistered.with_context(|| format!("taking {id} out of {target_group_arn}"))?;
        Ok(())
    }

    /// The targets of a group, including draining ones, each with its state, e.g. `healthy`; in the order of their ids.
    pub async fn targets(&self, target_group_arn: &str) -> anyhow::Result<Vec<(String, String)>> {
        let look = self.elbv2.describe_target_health().target_group_arn(target_group_arn);
        let seen = look.send().await;
        let seen = seen.with_context(|| format!("looking at the targets of {target_group_arn}"))?;
        let mut targets: Vec<_> = seen
            .target_health_descriptions()
            .iter()
            .map(|target| {
                let id = target.target().and_then(|target| target.id());
                let state = target.target_health().and_then(|health| health.state());
                (id.unwrap_or_default().to_owned(), state.map(|state| state.as_str().to_owned()).unwrap_or_default())
            })
            .collect();
        targets.sort();
        Ok(targets)
    }

    /// The instances of a classic load balancer, each with its state, e.g. `InService`; in the order of their ids.
    pub async fn classic_instances(&self, name: &str) -> anyhow::Result<Vec<(String, String)>> {
        let seen = self.classic.describe_instance_health().load_balancer_name(name).send().await;
        let seen = seen.with_context(|| format!("looking at the instances of {name}"))?;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let states = seen.instance_states().iter();
        let mut instances: Vec<_> =
            states.map(|instance| (text(instance.instance_id()), text(instance.state()))).collect();
        instances.sort();
        Ok(instances)
    }
}
