#!/usr/bin/env bash
# Runs the gate several times, and closes with a table of the results, of the seconds of each phase, and of each story that
# was ever flaky: `hack/tests/repeat.sh <runs> [<runs beside a busy neighbour>]`. The neighbour keeps all cores busy, in the
# last of the runs. The logs are kept in the folder that is printed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

runs="${1:?how many runs}"
busy="${2:-0}"
folder="$(mktemp -d)"
neighbours=()

calm() {
  [ "${#neighbours[@]}" -eq 0 ] || kill "${neighbours[@]}" 2>/dev/null
  neighbours=()
}
trap calm EXIT

table=""
status=0
flaky_stories=0
for run in $(seq "$runs"); do
  beside=""
  if [ "$run" -gt "$((runs - busy))" ]; then
    beside=" beside a busy neighbour"
    for _ in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
      timeout 10800 sh -c 'while :; do :; done' &
      neighbours+=("$!")
    done
  fi
  log="$folder/$run.log"
  result=passed
  make test >"$log" 2>&1 </dev/null || { status=1 result=FAILED; }
  calm
  phases="$(sed -n '/^phases:$/,$ s/^\([a-z-]*\) *\([0-9]*\) s .*/\1 \2 s/p' "$log" | paste -sd, | sed 's/,/, /g')"
  mapfile -t flaky < <(sed -n 's/^FLAKY //p' "$log")
  flaky_stories=$((flaky_stories + ${#flaky[@]}))
  line="run $run$beside: $result; $phases${flaky:+; flaky: ${flaky[*]}}"
  echo "$line"
  table+="$line"$'\n'
done
printf '\n%d runs, %d stories flaky, logs in %s:\n%s' "$runs" "$flaky_stories" "$folder" "$table"
[ "$flaky_stories" -le 2 ] || status=1
exit "$status"
