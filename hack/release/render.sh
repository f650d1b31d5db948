#!/usr/bin/env bash
# Writes what a release consists of as a repository that clusterctl reads from disk, and a clusterctl configuration that
# names it: `hack/release/render.sh <folder> <version> <image>`, e.g. `… dist v0.1.0 localhost/capa-rs:v0.1.0`.
#
#   <folder>/clusterctl.yaml
#   <folder>/infrastructure-aws-rs/<version>/infrastructure-components.yaml   config/default
#   <folder>/infrastructure-aws-rs/<version>/metadata.yaml
#   <folder>/infrastructure-aws-rs/<version>/cluster-template*.yaml           templates/
#   <folder>/infrastructure-aws-rs/<version>/clusterclass-*.yaml              templates/
#
# Other versions in the folder stay: `clusterctl upgrade` chooses among them.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
version="$2"
image="$3"
release="$folder/infrastructure-aws-rs/$version"

[[ "$version" =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
  echo "$version is no version for clusterctl: v<major>.<minor>.<patch>" >&2
  exit 1
}
[[ "$image" =~ ^(localhost|[^/]*[.:][^/]*)/ ]] || {
  echo "clusterctl takes no image without a host: localhost/$image, for instance, instead of $image" >&2
  exit 1
}

mkdir -p "$release"
"$repository/bin/kubectl" kustomize "$repository/config/default" |
  sed "s|image: capa-rs:latest\$|image: $image|" >"$release/infrastructure-components.yaml"
cp "$repository/metadata.yaml" "$release/metadata.yaml"
cp "$repository"/templates/*.yaml "$release/"

cat >"$folder/clusterctl.yaml" <<END
# For \`clusterctl --config\`: where the provider aws-rs is found. Written by \`make release-manifests\`.
providers:
- name: aws-rs
  type: InfrastructureProvider
  url: $folder/infrastructure-aws-rs/latest/infrastructure-components.yaml
END
echo "wrote $release; clusterctl --config $folder/clusterctl.yaml finds it"
