#!/usr/bin/env bash
# Writes what a release consists of as a repository that clusterctl reads from disk, and a clusterctl configuration that
# names it: `hack/release/render.sh <folder> <version> <image>`, e.g. `… dist v0.1.0 localhost/capa-rs:v0.1.0`.
#
#   <folder>/clusterctl.yaml
#   <folder>/infrastructure-aws-rs/<version>/infrastructure-components.yaml   config/default
#   <folder>/infrastructure-aws-rs/<version>/metadata.yaml
#   <folder>/infrastructure-aws-rs/<version>/cluster-template*.yaml           templates/
#   <folder>/infrastructure-aws-rs/<version>/clusterclass-*.yaml              templates/
#   <folder>/addon-aws-rs-fleet/<version>/addon-components.yaml               config/fleet
#   <folder>/addon-aws-rs-fleet/<version>/metadata.yaml
#
# Other versions in the folder stay: `clusterctl upgrade` chooses among them.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
version="$2"
image="$3"
infrastructure="infrastructure-aws-rs/$version"
addon="addon-aws-rs-fleet/$version"

[[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
  echo "$version is no version for clusterctl: v<major>.<minor>.<patch>" >&2
  exit 1
}
[[ "$image" =~ ^(localhost|[^/]*[.:][^/]*)/ ]] || {
  echo "clusterctl takes no image without a host: localhost/$image, for instance, instead of $image" >&2
  exit 1
}

components() { # components <folder of kustomize>: what it installs, with the image of the release
  "$repository/bin/kubectl" kustomize "$repository/$1" | sed "s|image: capa-rs:latest\$|image: $image|"
}

# Written beside their places and then moved: a failure leaves the former release, and no file of a former one stays.
work="$(mktemp -d "$folder/.release.XXXXXX")"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$infrastructure" "$work/$addon"
components config/default >"$work/$infrastructure/infrastructure-components.yaml"
components config/fleet >"$work/$addon/addon-components.yaml"
cp "$repository/metadata.yaml" "$repository"/templates/*.yaml "$work/$infrastructure/"
cp "$repository/metadata.yaml" "$work/$addon/"
for place in "$infrastructure" "$addon"; do
  mkdir -p "$(dirname "$folder/$place")"
  rm -rf "${folder:?}/$place"
  mv "$work/$place" "$folder/$place"
done

cat >"$folder/clusterctl.yaml" <<END
# For \`clusterctl --config\`: where the providers aws-rs and aws-rs-fleet are found. Written by \`make release-manifests\`.
providers:
- name: aws-rs
  type: InfrastructureProvider
  url: $folder/infrastructure-aws-rs/latest/infrastructure-components.yaml
- name: aws-rs-fleet
  type: AddonProvider
  url: $folder/addon-aws-rs-fleet/latest/addon-components.yaml
END
echo "wrote $folder/$infrastructure and $folder/$addon; clusterctl --config $folder/clusterctl.yaml finds it"
