#!/usr/bin/env bash
# Ends with the command that installs what is missing: `hack/tools/require.sh <program…>`.
set -euo pipefail

how_to_install() {
  case "$1" in
    clippy-driver) echo "rustup component add clippy" ;;
    cargo) echo "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" ;;
    cc) echo "sudo apt-get install build-essential (macOS: xcode-select --install)" ;;
    go) echo "https://go.dev/doc/install (version 1.26 or newer)" ;;
    cargo-mutants) echo "cargo install --locked cargo-mutants" ;;
    mdbook) echo "cargo install --locked mdbook (version 0.5 or newer)" ;;
    cargo-deny) echo "cargo install --locked cargo-deny" ;;
    python3) echo "sudo apt-get install python3 python3-venv (macOS: brew install python3)" ;;
    Python.h) echo "sudo apt-get install python3-dev" ;;
    *) echo "your package manager" ;;
  esac
}

is_there() {
  case "$1" in
    go) go version 2>/dev/null | grep -Eq 'go1\.(2[1-9]|[3-9][0-9])' ;; # older ones do not fetch the version in go.mod
    Python.h) python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ;;
    python3) python3 -c 'import ensurepip, venv' 2>/dev/null ;; # Debian ships these two apart from python3
    *) command -v "$1" >/dev/null ;;
  esac
}

for program in "$@"; do
  if ! is_there "$program"; then
    echo "$program is missing or too old. Install it with: $(how_to_install "$program")" >&2
    missing=1
  fi
done
exit "${missing:-0}"
