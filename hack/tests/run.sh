#!/usr/bin/env bash
# Runs tests: `hack/tests/run.sh <arguments of cargo test> -- <arguments of the test programs>`. Closes with how long each
# story took, longest first, the tests that failed, and the summary of each test program.
#
# A story that fails is run once more, alone, after all others. If it passes then, its name is printed behind `FLAKY`,
# added to flaky-stories in the cache folder, and the run is green. More than two such stories are red, and so is a failure
# of any other test, or a program that does not run to its end. A flaky story is a bug to be mended: it says nothing about
# the computer.
set -euo pipefail

most_flaky=2
folder="${XDG_CACHE_HOME:-$HOME/.cache}/capa-rs"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT

cargo_test() { # cargo_test <argument…>: appends the output to the log
  cargo test "$@" 2>&1 | tee -a "$log"
}

summary() {
  echo
  grep -a '^took ' "$log" | sort -k 2 -n -r || true
  awk '/^ +Running / { program = $0 }
    /^test .* FAILED$/ { print }
    /^test result: / && !/ 0 passed; 0 failed; 0 ignored/ { print program; print }' "$log"
}

# The names of the stories that have failed, if nothing else has: the program of the stories alone has failed, has run to
# its end, and counts as many failures as it names.
failed_stories() {
  awk '/^error: [0-9]+ targets? failed:$/ { listing = 1; next }
    listing && /^ *`.*`$/ { programs = programs $0 }
    /^failures:$/ { delete names; n = 0 }
    /^    [a-z_0-9]+(::[a-z_0-9]+)*$/ { names[++n] = $1 }
    /^test result: FAILED\./ { ends++; counted = $6 }
    /\(signal: |process didn.t exit successfully.*exit status: / && !/exit status: 101\)/ { others = 1 }
    END {
      gsub(/ /, "", programs)
      for (i = 1; i <= n; i++) if (names[i] !~ /^stories::/) others = 1
      if (others || programs != "`-pcapa-e2e--teste2e`" || ends != 1 || counted != n) exit
      for (i = 1; i <= n; i++) print names[i]
    }' "$log"
}

flaky=()
status=0
cargo_test --no-fail-fast "$@" || status=$?
if [ "$status" -ne 0 ]; then
  mapfile -t failed < <(failed_stories)
  if [ "${#failed[@]}" -ge 1 ] && [ "${#failed[@]}" -le "$most_flaky" ]; then
    status=0
    for story in "${failed[@]}"; do
      echo "tests: $story has failed, and is run once more, alone"
      if cargo_test --workspace --test e2e -- --exact "$story" && tail -n 5 "$log" | grep -q '^test result: ok\. 1 passed;'; then
        flaky+=("$story")
      else
        status=1
      fi
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
