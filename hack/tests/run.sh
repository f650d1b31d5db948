#!/usr/bin/env bash
# Runs tests: `hack/tests/run.sh <arguments of cargo test> -- <arguments of the test programs>`. Closes with how long each
# story took, longest first, the tests that failed, and the summary of each test program.
#
# A story that fails is run once more, alone, after all others. If it passes then, its name is printed behind `FLAKY`,
# added to flaky-stories in the cache folder, and the run is green. More than two such stories, or a failure of any other
# test, are red. A flaky story is a bug to be mended: it says nothing about the computer.
set -euo pipefail

most_flaky=2
folder="${XDG_CACHE_HOME:-$HOME/.cache}/capa-rs"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

cargo_test() { # cargo_test <argument…>: appends the output to the log
  cargo test --workspace "$@" 2>&1 | tee -a "$log"
}

summary() {
  echo
  grep -a '^took ' "$log" | sort -k 2 -n -r || true
  awk '/^ +Running / { program = $0 }
    /^test .* FAILED$/ { print }
    /^test result: / && !/ 0 passed; 0 failed; 0 ignored/ { print program; print }' "$log"
}

flaky=()
status=0
cargo_test --no-fail-fast "$@" || status=$?
if [ "$status" -ne 0 ]; then
  # Cargo lists the programs that have failed, one a line. Where the stories alone have failed, their names are known.
  programs="$(sed -n '/^error: [0-9]* targets\? failed:$/,$ s/^ *`\(.*\)`$/\1/p' "$log")"
  mapfile -t failed < <(sed -n 's/^test \(stories::[^ ]*\) \.\.\. FAILED$/\1/p' "$log" | sort -u)
  all_failed="$(grep -ac '^test .* FAILED$' "$log" || true)"
  if [ "$programs" = "-p capa-e2e --test e2e" ] && [ "${#failed[@]}" -eq "$all_failed" ] &&
    [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le "$most_flaky" ]; then
    status=0
    for story in "${failed[@]}"; do
      echo "tests: $story has failed, and is run once more, alone"
      if cargo_test --test e2e -- --exact "$story"; then flaky+=("$story"); else status=1; fi
    done
  fi
fi
summary
for story in "${flaky[@]}"; do
  echo "FLAKY $story"
  mkdir -p "$folder"
  echo "$(git rev-parse --short HEAD 2>/dev/null || echo unknown) $story" >>"$folder/flaky-stories"
done
exit "$status"
