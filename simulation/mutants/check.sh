#!/usr/bin/env bash
# Shows that the simulation can fail: breaks the protocol by each patch, in a copy of the tree, and plays seeds until one
# finds it. A patch that no longer applies fails, and so does one that no seed finds. A patch may begin with a line
# `Seed: NUMBER`: this seed, which found it once, is played before all others.
# Usage: check.sh <cargo target folder> [<patch>…]; without patches those beside this script are played. SEEDS: how many
# seeds each has (default 10000).
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
tree="$(git -C "$here" rev-parse --show-toplevel)"
export CARGO_TARGET_DIR="$1"
copy="$1/tree-of-mutants"
shift
[ "$#" -gt 0 ] || set -- "$here"/*.patch
seeds="${SEEDS:-10000}"
# A patch changes one file of a crate: the rest of the crate is not compiled again.
export CARGO_INCREMENTAL=1
# Plain rustc, without the lints: a mutant may leave something unused.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
mkdir -p "$copy"

# Cargo goes by the age of files, so a file that is as it was before must keep its age. The copy may be that of another
# commit.
refresh() {
  local file
  (cd "$tree" && git ls-files -z --cached --others --exclude-standard) | while IFS= read -r -d '' file; do
    if [ -e "$tree/$file" ] && ! cmp -s "$tree/$file" "$copy/$file"; then
      mkdir -p "$(dirname "$copy/$file")" && cp "$tree/$file" "$copy/$file" || exit 1
    fi
  done || return 1
  find "$copy" -type f -printf '%P\0' | while IFS= read -r -d '' file; do
    [ -e "$tree/$file" ] || rm "$copy/$file"
  done
}

play_seeds() {
  timeout 3600 "$CARGO_TARGET_DIR/sim-mutants/sim" --until-failure "$@" 2>&1
}

play() {
  local patch="$1" name seed output found ended=0
  name="$(basename "$patch" .patch)"
  refresh || { echo "$name: the tree cannot be copied" >&2; return 1; }
  if ! output="$(patch --directory "$copy" --strip 0 --forward --fuzz 0 --no-backup-if-mismatch --reject-file - <"$patch" 2>&1)"; then
    echo "$name: the patch does not apply any more: $output" >&2
    return 1
  fi
  if ! output="$(cd "$copy" && cargo build --quiet --locked --profile sim-mutants --package capa-simulation --bin sim 2>&1)"; then
    echo "$name: the mutant does not compile: $output" >&2
    return 1
  fi
  seed="$(sed -n '/^--- /q; s/^Seed: //p' "$patch")"
  # A failure of the program itself, a wrong argument for instance, finds nothing. Broken code may run for ever.
  output="$([ -z "$seed" ] || play_seeds --first "$seed" --seeds 1)" || ended=$?
  if ! grep -q '^found' <<<"$output"; then
    [ -z "$seed" ] || echo "$name: seed $seed does not find it any more; all seeds are played" >&2
    ended=0
    output="$(play_seeds --seeds "$seeds")" || ended=$?
  fi
  if [ "$ended" -eq 124 ]; then
    echo "$name: $seeds seeds take more than an hour" >&2
    return 1
  fi
  if ! found="$(grep '^found' <<<"$output")"; then
    echo "$name: not found within $seeds seeds: $(tail -n 1 <<<"$output")" >&2
    return 1
  fi
  echo "$name: $found"
}

status=0
for patch in "$@"; do
  play "$patch" || status=1
done
exit "$status"
