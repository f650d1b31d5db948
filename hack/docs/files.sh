#!/usr/bin/env bash
# Writes the tables of files in docs/architecture.md anew: `hack/docs/files.sh docs/architecture.md`.
#
# A table stands between two markers that name a folder of sources. It has each file and folder there with the first
# sentence of its module documentation; tests are left out, and so is the file that is the folder's own module.
set -euo pipefail
export LC_ALL=C.UTF-8

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
page="$1"

sentence() { # sentence <file>: the first sentence of its module documentation
  awk '!/^\/\/! / { exit } { sub("^//! ", ""); printf "%s ", $0 }' "$1" |
    awk '{ if (match($0, /[.] [A-Z`]/)) $0 = substr($0, 1, RSTART); gsub(/\[`/, "`"); gsub(/`\]/, "`"); sub(/ +$/, ""); print }'
}

table() { # table <folder>
  local path name
  printf '| `%s` | what it holds |\n| --- | --- |\n' "$1"
  for path in "$repository/$1"/*; do
    name="$(basename "$path")"
    case "$name" in lib.rs | main.rs | mod.rs | tests* | testing* | wire_tests | bin) continue ;; esac
    if [ -f "$path" ]; then
      printf '| `%s` | %s |\n' "$name" "$(sentence "$path")"
    elif [ -f "$path/mod.rs" ]; then
      printf '| `%s/` | %s |\n' "$name" "$(sentence "$path/mod.rs")"
    fi
  done
}

updated="$(mktemp)"
trap 'rm -f "$updated"' EXIT
inside=""
while IFS= read -r line; do
  if [[ "$line" =~ ^'<!-- files of '([^ :]+)': written' ]]; then
    inside=yes
    printf '%s\n\n' "$line"
    table "${BASH_REMATCH[1]}"
    echo
  elif [[ "$line" =~ ^'<!-- files of '.*': end -->' ]]; then
    inside=""
  fi
  if [ -z "$inside" ]; then printf '%s\n' "$line"; fi
done <"$page" >"$updated"
cat "$updated" >"$page"
