# Fetches the bootstrap data of this machine from AWS, checks it, and hands it to cloud-init.
# The lines before this file set backend, region, prefix, count and sha256. The data is in prefix followed by 0, 1, ...
# The variables BOOT_HOOK_* are for tests.
set -o nounset -o pipefail
umask 077
export AWS_PAGER=

root="${BOOT_HOOK_ROOT:-}"
tries="${BOOT_HOOK_TRIES:-10}"
first_pause="${BOOT_HOOK_PAUSE:-2}"
longest_pause=20
target="$root/etc/secret-userdata.txt"
configuration="$root/etc/cloud/cloud.cfg.d/99-bootstrap-data.cfg"
script="$root/var/lib/cloud/scripts/per-instance/bootstrap-data"
console="$root/dev/console"

say() {
  printf 'bootstrap data: %s\n' "$*" >&2
  if [ -w "$console" ]; then
    { printf 'bootstrap data: %s\n' "$*" >>"$console"; } 2>/dev/null
  fi
  return 0
}

fail() {
  say "$*; the machine does not join its cluster"
  exit 1
}

is_intact() { # is_intact <file>
  [ -f "$1" ] && [ "$(sha256sum <"$1")" = "$sha256  -" ]
}

aws_cli() {
  aws "$@" --region "$region" --output text --cli-connect-timeout 10 --cli-read-timeout 30
}

get() { # get <name>
  case "$backend" in
    secrets-manager) aws_cli secretsmanager get-secret-value --secret-id "$1" --query SecretBinary ;;
    *) aws_cli ssm get-parameter --name "$1" --with-decryption --query Parameter.Value ;;
  esac
}

delete() { # delete <name>
  case "$backend" in
    secrets-manager) aws_cli secretsmanager delete-secret --secret-id "$1" --force-delete-without-recovery ;;
    *) aws_cli ssm delete-parameter --name "$1" ;;
  esac
}

reason() { # what the last command of the AWS CLI said
  tr -s '\n' ' ' <"$work/error" | cut -c 1-300
}

get_part() { # get_part <name>: appends what it holds to the packed data
  get "$1" >"$work/answer" 2>"$work/error" || return 1
  if base64 -d <"$work/answer" >"$work/part" 2>/dev/null && [ -s "$work/part" ]; then
    cat "$work/part" >>"$work/packed"
    return
  fi
  echo 'the answer holds no data in base64' >"$work/error"
  return 1
}

wait_for_part() { # wait_for_part <name>
  local try=1 pause="$first_pause"
  until get_part "$1"; do
    say "try $try of $tries to read $1 of $backend in $region failed: $(reason)"
    [ "$try" -lt "$tries" ] || fail "$1 of $backend in $region cannot be read"
    try=$((try + 1))
    sleep "$pause"
    pause=$((pause * 2 < longest_pause ? pause * 2 : longest_pause))
  done
}

fetch() { # fetches the data, checks it, and deletes the secrets
  local part program
  for program in aws base64 gzip sha256sum; do
    command -v "$program" >/dev/null || fail "$program is not installed on this image, so nothing can be read from $backend"
  done
  for ((part = 0; part < count; part++)); do
    wait_for_part "$prefix$part"
  done
  gzip -dc <"$work/packed" >"$work/data" 2>/dev/null
  is_intact "$work/data" || fail "what $prefix* of $backend in $region holds is not what was stored for this machine"
  mv -f "$work/data" "$target" || fail "cannot write $target"
  sync "$target" "$root/etc" 2>/dev/null

  # The only other copy goes after this one is safe.
  for ((part = 0; part < count; part++)); do
    delete "$prefix$part" >/dev/null 2>"$work/error" ||
      say "cannot delete $prefix$part of $backend in $region: $(reason)"
  done
}

render() { # renders the data, where it is a template, as cloud-init renders user data
  local first
  IFS= read -r first <"$target" || [ -n "$first" ] || fail "$target is empty"
  case "$first" in
    '## template: jinja'*) cloud-init devel render "$target" >"$work/data" 2>"$work/error" ||
      fail "cloud-init cannot render $target: $(reason)" ;;
    *) cp "$target" "$work/data" || fail "cannot copy $target" ;;
  esac
}

hand_over() { # makes the data a part of the configuration of cloud-init, or a script that it runs
  local first place="$configuration"
  IFS= read -r first <"$work/data" || [ -n "$first" ] || fail "what $target is rendered to is empty"
  case "${first%%[[:space:]]*}" in
    '#cloud-config') ;;
    '#!'*)
      place="$script"
      chmod 700 "$work/data"
      ;;
    *) fail "$target is neither a cloud-config nor a script" ;;
  esac
  mkdir -p "${place%/*}" && mv -f "$work/data" "$place" || fail "cannot write $place"
}

# cloud-init runs this script at every boot, and again when this script starts it.
if is_intact "$target" && { [ -s "$configuration" ] || [ -s "$script" ]; }; then
  say "$target is there already"
  exit 0
fi

work="$(mktemp -d "$root/etc/.secret-userdata.XXXXXX")" || fail "cannot make a folder in $root/etc"
trap 'rm -rf "$work"' EXIT
# An image may have those of the machine that it was made from.
rm -f "$configuration" "$script"
is_intact "$target" || fetch
render
hand_over
rm -rf "$work"

# cloud-init has read its configuration before it runs this script. What belongs to the stage of this script is done here,
# and the later stages read the configuration anew. Not by a restart of the service: since cloud-init 24.3 a service is a
# stage of one process, and cannot be repeated.
say "$target is written, cloud-init goes on with it"
(umask 022 && exec cloud-init init) >"$root/var/log/cloud-init-bootstrap-data.log" 2>&1 ||
  say "cloud-init reports an error: see $root/var/log/cloud-init-bootstrap-data.log"
