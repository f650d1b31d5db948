//! Machine images.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Image, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    pub(crate) async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        self.images_as(query, image).await
    }

    /// The images of a query, converted by `convert`.
    pub(super) async fn images_as<T>(
        &self,
        query: &Query,
        convert: fn(&types::Image) -> T,
    ) -> Result<Vec<T>, CloudError> {
        // A search returns only images that are not deprecated. An image that is named by its id may be launched as
        // long as it exists.
        let by_id = query.filters.iter().any(|(name, _)| name == "image-id");
        self.runner
            .describe("DescribeImages", query, |permit, token| async move {
                let request = self.client.describe_images().set_filters(filters(query));
                let request = request.include_deprecated(by_id).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page {
                    items: answer.images().iter().map(convert).collect(),
                    next: answer.next_token,
                })
            })
            .await
    }
}

fn image(image: &types::Image) -> Image {
    Image {
        id: text(image.image_id()),
        root_device_name: image.root_device_name().map(str::to_owned),
        architecture: image
            .architecture()
            .map(|architecture| architecture.as_str().to_owned()),
        // EC2 returns `windows`; the SDK's own value is spelled differently.
        windows: image
            .platform()
            .is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")),
        created: text(image.creation_date()),
    }
}
