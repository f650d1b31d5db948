#!/usr/bin/env bash
# Makes targets one after the other, and closes with how long each took: `hack/tests/phases.sh [--keep-going] <target>…`.
# It ends at the first target that fails; with --keep-going it makes the others, too, and fails at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

keep_going=false
if [ "${1-}" = --keep-going ]; then
  keep_going=true
  shift
fi
status=0
table=""
for target in "$@"; do
  began=$SECONDS
  result=passed
  "${MAKE:-make}" --no-print-directory "$target" || { status=1 result=FAILED; }
  table+="$(printf '%-18s %6d s  %s' "$target" "$((SECONDS - began))" "$result")"$'\n'
  if [ "$status" -ne 0 ] && ! "$keep_going"; then break; fi
done
printf '\nphases:\n%s' "$table"
exit "$status"
