#!/usr/bin/env bash
# Fetches cloud-init as the releases of Debian package it, without installing it, and the Python modules that it needs:
# `hack/tools/cloud-init/build.sh <folder>`. The folder gets python/, a virtual environment, a folder for each version, and
# at last the file versions, which lists them.
# The packages come from where this computer gets its own; their signatures are checked with Debian's keys.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$1"
"$here/../require.sh" python3 Python.h cc
for program in apt-get dpkg-deb; do
  command -v "$program" >/dev/null || {
    echo "cloud-init is fetched as packages of Debian, and $program is not installed: run this on Debian" >&2
    exit 1
  }
done
# A new script, another list of modules or another Python makes a new folder.
made_by="$({ cat "$here"/*; python3 -c 'import sys; print(sys.version_info[:2], sys.base_prefix)'; } | sha256sum)"
if [ -s "$folder/versions" ] && [ "$(cat "$folder/made-by" 2>/dev/null)" = "$made_by" ]; then
  echo "cloud-init: up to date"
  exit 0
fi

keys=/usr/share/keyrings/debian-archive-keyring.gpg
repository="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 '/debian/\?$')" || {
  echo "this computer gets no packages of Debian: cloud-init cannot be fetched" >&2
  exit 1
}
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
rm -rf "$folder"
mkdir -p "$folder" "$work/lists/partial" "$work/archives/partial"

apt_of() { # apt_of <suite> <argument…>: apt-get with the packages of this suite alone
  local suite="$1"
  shift
  echo "deb [signed-by=$keys] $repository $suite main" >"$work/sources.list"
  apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work" -o APT::Sandbox::User=root "$@"
}

for suite in oldoldstable oldstable stable unstable; do
  echo "cloud-init: of Debian $suite"
  if ! apt_of "$suite" update >"$work/log" 2>&1 || ! (cd "$work" && apt_of "$suite" download cloud-init >"$work/log" 2>&1); then
    echo "cloud-init: Debian $suite has none here: $(tail -n 1 "$work/log")" >&2
    exit 1
  fi
  package="$(ls "$work"/cloud-init_*.deb)"
  version="$(dpkg-deb --field "$package" Version)"
  version="${version%%-*}"
  dpkg-deb --extract "$package" "$folder/$version"
  echo "$version" >>"$work/versions"
  rm "$package"
done
python3 -m venv "$folder/python"
"$folder/python/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt"
echo "$made_by" >"$folder/made-by"
sort -u "$work/versions" >"$folder/versions"
echo "cloud-init: ready in $folder"
