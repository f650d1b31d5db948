#!/usr/bin/env bash
# Writes the whole output of the quickstart into its page: `make quickstart | hack/docs/transcript.sh docs/quickstart.md`.
set -euo pipefail

page="$1"
transcript="$(sed -n '/^1\. /,$p' | sed "s|$HOME|~|g; s/ *\$//")"
# A run that failed or was stopped is no transcript.
grep -q '^   Everything held' <<<"$transcript" || {
  echo "the quickstart did not hold: $page stays as it is" >&2
  exit 1
}
before="$(sed '/^## The transcript$/q' "$page")"
printf '%s\n\n```text\n%s\n```\n' "$before" "$transcript" >"$page"
