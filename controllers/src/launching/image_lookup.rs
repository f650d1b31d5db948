//! The machine image of a launch: named by its id, recommended by EKS, or looked up by its name.

use capa_api::conditions::{ConditionType, ConditionUpdate, Reason};
use capa_api::machine::{AWSMachineSpec, EksLookupType};
use capa_api::network::MachineNetwork;
use capa_cloud::{CloudError, ErrorClass, Image, Query, Reads};
use capa_runtime::reconcile::Next;

use crate::blocked::Blocked;
use crate::launching::eks_image::EksImageSearch;
use crate::launching::image::{ImageSearch, image_id, newest};

/// The image of a launch.
pub(crate) struct LaunchImage {
    /// `ami-…`
    pub(crate) id: String,
    /// Device of the root volume, if the spec configures that volume.
    pub(crate) root_device: Option<String>,
    /// Whether it was looked up and is a Windows image.
    pub(crate) is_of_windows: bool,
}

/// The machine whose image is wanted.
pub(crate) struct ImageRequest<'a> {
    pub(crate) spec: &'a AWSMachineSpec,
    pub(crate) network: &'a MachineNetwork,
    /// Kubernetes version of the Machine.
    pub(crate) version: Option<&'a str>,
    /// The image of an attempt that may have launched: a repetition of its call names the same image.
    pub(crate) recorded: Option<&'a str>,
}

/// Finds the image. An image id in the spec or the record needs no lookup.
pub(crate) async fn resolve(request: &ImageRequest<'_>, cloud: &dyn Reads) -> Result<LaunchImage, Blocked> {
    let named = image_id(request.spec).or(request.recorded);
    // EC2 would attach a volume with another device than the image's as an additional volume.
    let needs_device = request.spec.root_volume.is_some();
    let of_network = request.network.image_lookup.as_ref();
    let id = match (named, request.spec.effective_eks_lookup_type(of_network)) {
        (Some(id), _) => id.to_owned(),
        (None, Some(family)) => recommended(family, request, cloud).await?,
        (None, None) => {
            let image = look_up(request, cloud).await?;
            let root_device = needs_device.then(|| root_device(&image, request)).transpose()?;
            return Ok(LaunchImage { id: image.id, root_device, is_of_windows: image.windows });
        }
    };
    let mut is_of_windows = false;
    let root_device = if needs_device {
        let images = cloud.images(&Query::filter("image-id", [id.as_str()])).await;
        let images = images.map_err(|error| failed(request, &error))?;
        let image = images.into_iter().find(|image| image.id == id);
        let image = image.ok_or_else(|| not_found(no_root_device(&id, request)))?;
        is_of_windows = image.windows;
        Some(root_device(&image, request)?)
    } else {
        None
    };
    Ok(LaunchImage { id, root_device, is_of_windows })
}

/// The id of the image of this family that AWS recommends for the machine's Kubernetes version.
async fn recommended(family: EksLookupType, request: &ImageRequest<'_>, cloud: &dyn Reads) -> Result<String, Blocked> {
    let architectures = architectures(request, cloud).await?;
    let search = EksImageSearch::new(family, request.version, &request.spec.instance_type, &architectures);
    let EksImageSearch { version, parameter } = search.map_err(invalid)?;
    let id = cloud.public_parameter(&parameter).await;
    id.map_err(|error| match error.class {
        ErrorClass::NotFound => not_found(format!(
            "there is no parameter {parameter} in {}: AWS publishes no such image for Kubernetes {version}; choose a \
             version that it is published for where the Machine comes from, or set another ami.eksLookupType or ami.id \
             in a new template",
            region(request)
        )),
        _ => failed(request, &error),
    })
}

/// The newest image with the name that machine and network ask for.
async fn look_up(request: &ImageRequest<'_>, cloud: &dyn Reads) -> Result<Image, Blocked> {
    let spec = request.spec;
    let architectures = architectures(request, cloud).await?;
    let lookup = spec.effective_image_lookup(request.network.image_lookup.as_ref());
    let search = ImageSearch::new(&lookup, request.version, &spec.instance_type, &architectures);
    let search = search.map_err(invalid)?;
    let images = cloud.images(&search.query()).await;
    let images = images.map_err(|error| failed(request, &error))?;
    newest(images).ok_or_else(|| {
        not_found(format!(
            "no {search} in {}: copy one there, correct imageLookupFormat, imageLookupOrg or imageLookupBaseOS, or set \
             ami.id in a new template",
            region(request)
        ))
    })
}

/// The architectures of the instance type.
async fn architectures(request: &ImageRequest<'_>, cloud: &dyn Reads) -> Result<Vec<String>, Blocked> {
    let name = &request.spec.instance_type;
    let instance_type = cloud.instance_type(name).await;
    let instance_type = instance_type.map_err(|error| match error.class {
        ErrorClass::NotFound => not_found(format!(
            "spec.instanceType: {name} does not exist in {}: choose another in a new template",
            region(request)
        )),
        _ => failed(request, &error),
    })?;
    Ok(instance_type.architectures)
}

fn root_device(image: &Image, request: &ImageRequest<'_>) -> Result<String, Blocked> {
    let device = image.root_device_name.clone().filter(|name| !name.is_empty());
    device.ok_or_else(|| not_found(no_root_device(&image.id, request)))
}

fn no_root_device(id: &str, request: &ImageRequest<'_>) -> String {
    let region = region(request);
    format!(
        "image {id} does not exist in {region} or names no root device: copy the image there, or set ami.id in a new \
         template"
    )
}

fn region<'a>(request: &ImageRequest<'a>) -> &'a str {
    request.network.region.as_deref().unwrap_or_default()
}

/// The search for the image cannot be made.
fn invalid(message: String) -> Blocked {
    Blocked::new(instance_not_ready(Reason::InvalidSpec, message), Next::Retry)
}

fn not_found(message: String) -> Blocked {
    Blocked::new(instance_not_ready(Reason::NotFound, message), Next::Retry)
}

fn failed(request: &ImageRequest<'_>, error: &CloudError) -> Blocked {
    let message = format!("the lookup of the image in {} failed: {error}", region(request));
    Blocked::by_call(ConditionType::InstanceReady, message, error)
}

fn instance_not_ready(reason: Reason, message: String) -> ConditionUpdate {
    ConditionType::InstanceReady.is_false(reason, message)
}
