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

# cloud-init runs this script at every boot.
if is_intact "$target"; then
  say "$target is there already"
  exit 0
fi

for program in aws base64 gzip sha256sum; do
  command -v "$program" >/dev/null || fail "$program is not installed on this image, so nothing can be read from $backend"
done
work="$(mktemp -d "$root/etc/.secret-userdata.XXXXXX")" || fail "cannot make a folder in $root/etc"
trap 'rm -rf "$work"' EXIT

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
rm -rf "$work"

# cloud-init has read the user data, and with it the file that was not there, before it runs this script. The restart
# ends this script.
say "$target is written, cloud-init starts again with it"
if [ -n "${BOOT_HOOK_RESTART:-}" ]; then
  "$BOOT_HOOK_RESTART"
else
  systemctl restart cloud-init
fi || fail "cloud-init does not start again"
