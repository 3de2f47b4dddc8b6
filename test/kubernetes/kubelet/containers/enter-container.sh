#!/bin/sh
# Turns this process into a container: with a root directory, a host name and a user of its own.
#
#   enter-container.sh HOSTNAME ROOT (ro|rw) UID GROUPS WORKDIR MOUNTS... -- COMMAND...
#
# GROUPS: numbers, separated by commas; the first one is the primary group. A mount is `ro:FROM:TO` or `rw:FROM:TO`.
# Run it in new mount, PID and UTS namespaces. ROOT is an empty directory.
set -eu
hostname "$1"
root=$2 access=$3 user=$4 groups=$5 workdir=$6
shift 6

mount -t tmpfs -o mode=755 tmpfs "$root"
cd "$root"
mkdir usr proc dev sys etc tmp run
chmod 1777 tmp
for directory in bin lib lib64 sbin; do
  if [ -L "/$directory" ]; then
    cp -P "/$directory" "$directory"
  elif [ -d "/$directory" ]; then
    mkdir "$directory"
    mount --bind -o ro "/$directory" "$directory"
  fi
done
mount --bind -o ro /usr usr
mount -t proc proc proc
mount --rbind /dev dev
mount --bind -o ro /sys sys
echo "hosts: files" > etc/nsswitch.conf
# All lines of a name count, as all addresses in an answer of DNS do.
echo 'multi on' > etc/host.conf
printf 'root:x:0:0::/root:/bin/sh\nuser:x:%s:%s::/tmp:/bin/sh\n' "$user" "${groups%%,*}" > etc/passwd
echo "$1" > etc/hostname
ln -s /run/hosts/hosts etc/hosts

while [ "$1" != -- ]; do
  IFS=: read -r mode from to <<END
$1
END
  # It may be inside of a mount that has it already.
  if [ -d "$from" ]; then
    mkdir -p ".$to"
  elif [ ! -e ".$to" ]; then
    mkdir -p ".${to%/*}"
    : > ".$to"
  fi
  mount --bind -o "$mode" "$from" ".$to"
  shift
done
shift
mkdir -p ".$workdir"
[ "$access" = rw ] || mount -o remount,ro "$root"

# Without capabilities, and ended with the process that started it.
exec chroot "$root" /usr/bin/setpriv --reuid "$user" --regid "${groups%%,*}" --groups "$groups" --inh-caps=-all \
  --bounding-set=-all --no-new-privs --pdeathsig KILL -- /usr/bin/env -C "$workdir" -- "$@"
