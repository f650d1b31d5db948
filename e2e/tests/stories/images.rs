//! Machines whose image is looked up by its name, or recommended by EKS.

use anyhow::{Context, ensure};
use capa_e2e::{eventually, moto};

use super::machines::{INLINE, machine, text};
use super::scenario::{OURS, REGION, Scenario, WITHIN, story};

/// A copy of moto's image with this name: its id and the time of its creation.
pub(super) async fn publish(s: &Scenario, name: &str) -> anyhow::Result<(String, String)> {
    let ec2 = s.user.ec2();
    let copy = ec2.copy_image().name(name).source_image_id(moto::IMAGE_ID);
    let copy = copy.source_region(REGION).send().await?;
    let id = copy.image_id().context("the image has an id")?;
    let described = ec2.describe_images().image_ids(id).send().await?;
    let image = described.images().first().context("the image is there")?;
    let created = image.creation_date().context("the image has a date")?;
    Ok((id.to_owned(), created.to_owned()))
}

#[test]
fn machines_without_an_image_launch_the_newest_with_the_name() -> anyhow::Result<()> {
    story("images", async |s| {
        let lookup = format!(
            "  imageLookupFormat: 'acme-{{{{.BaseOS}}}}-v{{{{.K8sVersion}}}}-*'
  imageLookupBaseOS: flatcar
  imageLookupOrg: '{}'",
            s.aws().id()
        );
        s.owned("dev", &s.unmanaged("dev", &lookup)).await?;
        s.infrastructure_provisioned("dev").await?;
        let names = ["one", "two", "three"];
        for name in names {
            s.bootstrap_secret(name).await?;
            let yaml = machine(name, "dev", INLINE);
            s.apply(&yaml.replace(&format!("ami: {{id: {}}}, ", moto::IMAGE_ID), "")).await?;
        }
        for name in names {
            let message = s.machine_condition_false(name, "InstanceReady", "NotFound").await?;
            for part in ["acme-flatcar-v1.36.3-*", "x86_64", s.aws().id(), REGION] {
                assert!(message.contains(part), "{message}");
            }
        }
        assert!(s.launches().is_empty(), "{}", s.launches());

        publish(s, "acme-flatcar-v1.36.4-1").await?;
        // Machines may already launch with the first image: each launches with the newest of its lookup.
        let (first, at) = publish(s, "acme-flatcar-v1.36.3-1").await?;
        for name in names {
            let ready = s.machine_ready(name).await?;
            assert_eq!(text(&ready, "/status/launch/imageID"), first);
            assert_eq!(s.launch_of(text(&ready, "/spec/instanceID"))?.parameter("ImageId"), Some(first.as_str()));
        }
        let newest = eventually(WITHIN, "a later image", async || {
            let (id, later) = publish(s, "acme-flatcar-v1.36.3-2").await?;
            ensure!(later > at, "{later} is not after {at}");
            Ok(id)
        })
        .await?;
        eventually(WITHIN, "a machine with the newest image", async || {
            // A lookup is shared for a while.
            let name = format!("late-{}", s.machines().await?.len());
            s.bootstrap_secret(&name).await?;
            let yaml = machine(&name, "dev", INLINE);
            s.apply(&yaml.replace(&format!("ami: {{id: {}}}, ", moto::IMAGE_ID), "")).await?;
            let ready = s.machine_ready(&name).await?;
            let used = text(&ready, "/status/launch/imageID").to_owned();
            ensure!(used == newest, "{name} uses {used}, and {newest} is newer");
            Ok(())
        })
        .await
    })
}

/// The parameter of the image for machines of Kubernetes v1.36.3 on an instance type for x86_64.
const PARAMETER: &str = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id";

mod long_stories {
    use super::*;

    #[test]
    fn machines_launch_the_image_that_eks_recommends() -> anyhow::Result<()> {
        story("eks-images", async |s| {
            s.cluster("dev").await?;
            let apply = async |name: &str| {
                s.bootstrap_secret(name).await?;
                let yaml = machine(name, "dev", INLINE);
                let by_id = format!("{{id: {}}}", moto::IMAGE_ID);
                s.apply(&yaml.replace(&by_id, "{eksLookupType: AmazonLinux2023}")).await
            };
            let names = ["one", "two", "three"];
            for name in names {
                apply(name).await?;
            }
            for name in names {
                let message = s.machine_condition_false(name, "InstanceReady", "NotFound").await?;
                assert!(message.contains(PARAMETER) && message.contains(REGION), "{message}");
            }
            assert!(s.launches().is_empty(), "{}", s.launches());

            let (first, _) = publish(s, "amazon-eks-node-al2023-x86_64-standard-1.36-1").await?;
            s.user.publish_parameter(PARAMETER, &first).await?;
            for name in names {
                let ready = s.machine_ready(name).await?;
                assert_eq!(text(&ready, "/status/launch/imageID"), first);
                assert_eq!(s.launch_of(text(&ready, "/spec/instanceID"))?.parameter("ImageId"), Some(first.as_str()));
            }
            let (second, _) = publish(s, "amazon-eks-node-al2023-x86_64-standard-1.36-2").await?;
            s.user.publish_parameter(PARAMETER, &second).await?;
            eventually(WITHIN, "a machine with the image that is recommended now", async || {
                // The value of a parameter is shared for a while.
                let name = format!("late-{}", s.machines().await?.len());
                apply(&name).await?;
                let ready = s.machine_ready(&name).await?;
                let used = text(&ready, "/status/launch/imageID").to_owned();
                ensure!(used == second, "{name} uses {used}, and {second} is recommended");
                Ok(())
            })
            .await?;
            let one = s.get(OURS, "AWSMachine", "one").await?;
            assert_eq!(text(&one, "/status/launch/imageID"), first, "a launch keeps its image");
            Ok(())
        })
    }
}
