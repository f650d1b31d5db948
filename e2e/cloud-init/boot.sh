#!/usr/bin/env bash
# Boots a computer with cloud-init, twice: `boot.sh <cloud-init> <python> <root> <bin>`. The user data is <root>/user-data.
# What cloud-init changes of /etc is in <root>/etc afterwards, and its logs in <root>/log.
#
# cloud-init runs in namespaces of its own, with a private host name, /etc, /run, /var/lib/cloud and /var/log.
set -euo pipefail
cloud_init="$1" python="$2" root="$3" programs="$4"

mkdir -p "$root"/{etc/cloud/cloud.cfg.d,work,run,log,bin,lib/seed/nocloud}
cat >"$root/etc/cloud/cloud.cfg" <<EOF
# The modules that bootstrap data of kubeadm needs, in the stages that distributions give them.
datasource_list: [NoCloud]
network: {config: disabled}
preserve_hostname: true
system_info:
  distro: debian
  paths: {templates_dir: $cloud_init/etc/cloud/templates}
cloud_init_modules: [bootcmd, write_files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts_per_instance, scripts_user]
EOF
cp "$root/user-data" "$root/lib/seed/nocloud/user-data"
printf 'instance-id: i-1\nlocal-hostname: ip-10-0-0-5\n' >"$root/lib/seed/nocloud/meta-data"
cat >"$root/bin/cloud-init" <<EOF
#!/bin/bash
export PYTHONPATH=$cloud_init/usr/lib/python3/dist-packages
exec $python -m cloudinit.cmd.main "\$@"
EOF
chmod +x "$root/bin/cloud-init"

cat >"$root/boot" <<EOF
set -euo pipefail
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$root/etc,workdir=$root/work" /etc
mount --bind "$root/log" /var/log
mount --bind "$root/run" /run
mkdir -p /var/lib/cloud
mount --bind "$root/lib" /var/lib/cloud
export PATH="$root/bin:$programs:\$PATH"
for boot in first second; do
  find /run -mindepth 1 -delete
  for stage in 'init --local' init 'modules --mode=config' 'modules --mode=final'; do
    echo "\$boot boot: cloud-init \$stage"
    timeout 120 cloud-init \$stage >>/var/log/stages.log 2>&1
  done
done
EOF
exec unshare --mount --uts --map-root-user bash "$root/boot"
