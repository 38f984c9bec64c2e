#!/bin/sh
# Runs ENGINE's dockerd with mounts and a network of its own (loopback and its bridges; no way out), and restarts it when
# it dies, as an init would. Its socket is WORK/docker.sock, its pid is in WORK/dockerd.pid, ours in WORK/keeper.pid.
#   run-engine.sh ENGINE WORK STATE
set -eu
ENGINE=$(realpath "$1") WORK=$(realpath "$2") STATE=$(realpath "$3")
export ENGINE WORK STATE
exec unshare --mount --propagation private --uts --ipc --net sh -euc '
    mount --bind "$ENGINE" "$ENGINE"
    for each in proc dev; do mount --rbind /$each "$ENGINE/$each"; done
    mount -t sysfs sysfs "$ENGINE/sys"
    mount --rbind /sys/fs/cgroup "$ENGINE/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$ENGINE/run"
    mkdir -p "$ENGINE$WORK" "$ENGINE/var/lib/docker" "$ENGINE/old"
    mount --bind "$WORK" "$ENGINE$WORK"
    mount --bind "$STATE" "$ENGINE/var/lib/docker"
    cp /etc/resolv.conf /etc/hosts "$ENGINE/etc/"
    cd "$ENGINE"
    pivot_root . old
    umount -l /old
    ip link set lo up
    echo $$ > "$WORK/keeper.pid"
    going=yes
    trap "going=; kill \$running" TERM
    while [ "$going" ]; do
        rm -f /run/docker.pid
        dockerd --host "unix://$WORK/docker.sock" --pidfile /run/docker.pid --exec-root /run/docker &
        running=$!
        echo $running > "$WORK/dockerd.pid"
        while kill -0 $running 2> /dev/null; do wait $running || :; done
        sleep 1
    done
'
