//! Machine images.

use aws_sdk_ec2::types;
use capa_cloud::{CloudError, Image, Query};

use super::{Ec2Calls, PAGE_SIZE, filters, some_text, text};
use crate::sdk::pages::Page;

impl Ec2Calls {
    /// The images of a query that the account may use.
    pub(crate) async fn images(&self, query: &Query) -> Result<Vec<Image>, CloudError> {
        // A search returns only images that are not deprecated. An image that is named by its id may be launched as
        // long as it exists.
        let by_id = query.filters.iter().any(|(name, _)| name == "image-id");
        self.runner
            .describe("DescribeImages", query, |permit, token| async move {
                let request = self.client.describe_images().set_filters(filters(query));
                let request = request.include_deprecated(by_id).max_results(PAGE_SIZE);
                let answer = self.runner.call(permit, request.set_next_token(token).send()).await?;
                Ok(Page { items: answer.images().iter().map(image).collect(), next: answer.next_token })
            })
            .await
    }
}

fn image(image: &types::Image) -> Image {
    let mut devices = image.block_device_mappings().iter();
    let root = devices.find(|device| device.device_name() == image.root_device_name());
    let root = root.and_then(types::BlockDeviceMapping::ebs);
    Image {
        id: text(image.image_id()),
        state: image.state().map_or("", types::ImageState::as_str).into(),
        architecture: some_text(image.architecture().map(types::ArchitectureValues::as_str)),
        root_device_name: image.root_device_name().map(str::to_owned),
        root_snapshot_gib: root.and_then(types::EbsBlockDevice::volume_size),
        boot_mode: some_text(image.boot_mode().map(types::BootModeValues::as_str)),
        has_ena: image.ena_support() == Some(true),
        imds_support: some_text(image.imds_support().map(types::ImdsSupportValues::as_str)),
        // EC2 returns `windows`; the SDK's own value is spelled differently.
        windows: image.platform().is_some_and(|platform| platform.as_str().eq_ignore_ascii_case("windows")),
        created: text(image.creation_date()),
        deprecation_time: some_text(image.deprecation_time()),
    }
}
