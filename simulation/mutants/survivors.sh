#!/usr/bin/env bash
# Breaks the pure rooms one expression at a time with cargo-mutants (.cargo/mutants.toml says which), runs their unit
# tests on each, and plays simulated histories with what these tests do not notice. What is left has to stand in
# docs/mutants.md with a reason. What stands there and is not left is listed.
# Usage: survivors.sh <cargo target folder> [<argument of cargo mutants>…], for example --re cloud/src/limits.
# SEEDS: how many seeds each survivor has (default 10000).
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tree="$(git -C "$here" rev-parse --show-toplevel)"
target="$1"
shift
found="$target/mutants"
mkdir -p "$found"
# Plain rustc, without the lints: a mutant may leave something unused.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS CARGO_TARGET_DIR

# cargo-mutants ends with 2 where a mutant survives and with 3 where one runs for too long: both are looked at below.
status=0
(cd "$tree" && cargo mutants --workspace --jobs 2 --output "$found" "$@") || status=$?
case "$status" in
  0 | 2 | 3) ;;
  *) exit "$status" ;;
esac

patches="$found/survivors"
rm -rf "$patches"
mkdir -p "$patches"
python3 "$here/survivors.py" patches "$found/mutants.out" "$patches"
shopt -s nullglob
survivors=("$patches"/*.patch)
if [ "${#survivors[@]}" -gt 0 ]; then
  echo "${#survivors[@]} survivors of the unit tests are played"
  # What no seed finds is told by the lines on standard error.
  "$here/check.sh" "$target" "${survivors[@]}" 2>&1 | tee "$found/played" || true
else
  : >"$found/played"
fi
python3 "$here/survivors.py" explained "$found/mutants.out" "$found/played" "$tree/docs/mutants.md"
