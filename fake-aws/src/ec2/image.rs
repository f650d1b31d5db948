//! Images.

use capa_cloud::{CloudError, Image, Query};

use super::Ec2;
use crate::filters::{NO_TAGS, select};

/// An image with what lookups look for and [`Image`] does not have.
#[derive(Clone, Debug)]
pub struct PublishedImage {
    /// The name.
    pub name: String,
    /// Id of the account that owns the image.
    pub owner: String,
    /// The rest.
    pub image: Image,
}

impl Ec2 {
    pub(crate) fn put_image(&mut self, image: PublishedImage) {
        self.images.insert(image.image.id.clone(), image);
    }

    pub(super) fn remove_image(&mut self, id: &str) -> bool {
        self.images.remove(id).is_some()
    }

    pub(crate) fn has_image(&self, id: &str) -> bool {
        self.images.contains_key(id)
    }

    /// DescribeImages, all pages.
    pub(crate) fn describe_images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        let things = self.images.values().map(|image| (image, &NO_TAGS));
        let known =
            ["architecture", "image-id", "name", "owner-id", "root-device-name", "state", "virtualization-type"];
        let found = select("DescribeImages", query, &known, things, |published, filter| {
            let image = &published.image;
            match filter {
                "architecture" => image.architecture.iter().cloned().collect(),
                "image-id" => vec![image.id.clone()],
                "name" => vec![published.name.clone()],
                "owner-id" => vec![published.owner.clone()],
                "state" => vec!["available".to_owned()],
                "virtualization-type" => vec!["hvm".to_owned()],
                _ => image.root_device_name.iter().cloned().collect(),
            }
        })?;
        Ok(found.into_iter().map(|published| published.image.clone()).collect())
    }
}
