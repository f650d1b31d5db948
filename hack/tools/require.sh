#!/usr/bin/env bash
# Ends with the command that installs what is missing: `hack/tools/require.sh <program…>`.
set -euo pipefail

how_to_install() {
  case "$1" in
    cargo) echo "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" ;;
    cc) echo "sudo apt-get install build-essential (macOS: xcode-select --install)" ;;
    go) echo "sudo snap install go --classic (or 1.26 or newer from https://go.dev/doc/install)" ;;
    mdbook) echo "cargo install --locked mdbook (version 0.5 or newer)" ;;
    cargo-deny) echo "cargo install --locked cargo-deny" ;;
    python3) echo "sudo apt-get install python3 python3-venv (macOS: brew install python3)" ;;
    *) echo "your package manager" ;;
  esac
}

is_there() {
  case "$1" in
    python3) python3 -c 'import ensurepip, venv' 2>/dev/null ;; # Debian ships these two apart from python3
    *) command -v "$1" >/dev/null ;;
  esac
}

for program in "$@"; do
  if ! is_there "$program"; then
    echo "$program is missing. Install it with: $(how_to_install "$program")" >&2
    missing=1
  fi
done
exit "${missing:-0}"
