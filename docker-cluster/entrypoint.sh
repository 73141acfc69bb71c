#!/bin/sh
# The first program of a container: entrypoint.sh controller | login | compute. Starts what such a
# host runs, in order and with limits, says "ready" (/run/ready), and ends when told to (TERM) or
# when one of its daemons has died. Everything goes to stdout, the daemons' logs with their names.
set -eu

here=/opt/hpcmgr/docker-cluster
host=$(hostname)
pidfiles=
stopping=

say() { echo "$host: $*"; }

die() {
    say "error: $*"
    stop_daemons
    exit 1
}

inside() { python3 "$here/inside.py" "$@"; }

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
    limit=$1 what=$2
    shift 2
    end=$(($(date +%s) + limit))
    until said=$("$@" 2>&1); do
        [ "$stopping" ] && exit 0
        [ "$(date +%s)" -ge "$end" ] && die "waited $limit s for $what: $said"
        sleep 0.2
    done
}

follow() { # NAME FILE: the file's lines to stdout, also those of the files that replace it
    touch "$2" && chmod a+rw "$2"
    tail -n 0 -F "$2" 2>/dev/null | sed -u "s/^/$1: /" &
}

as() { # USER COMMAND...
    user=$1
    shift
    setpriv --reuid="$user" --regid="$user" --init-groups "$@"
}

watch() { # PIDFILE: wait for it; its process must then live as long as this container
    wait_for 60 "$1" running "$1"
    pidfiles="$pidfiles $1"
}

running() { [ -r "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null; } # PIDFILE

start_munged() {
    install -d -o munge -g munge /run/munge
    as munge munged --num-threads=2
    watch /run/munge/munged.pid
    wait_for 20 munged sh -c 'munge -n | unmunge'
}

start_accounting() {
    install -d -o mysql -g mysql /run/mysqld
    follow mariadbd /var/log/mariadbd.log
    setsid --fork mariadbd --user=mysql >>/var/log/mariadbd.log 2>&1
    wait_for 60 MariaDB mariadb-admin ping
    watch /run/mysqld/mysqld.pid
    follow slurmdbd /var/log/slurm/slurmdbd.log
    slurmdbd
    wait_for 60 slurmdbd sacctmgr --noheader list cluster
    watch /run/slurmdbd.pid
    sacctmgr --immediate --quiet <<END
add cluster reference
add account science cluster=reference description=science organization=reference
add user alice,bob account=science cluster=reference
quit
END
}

# As systemd does it for a site: as SlurmUser, and again when it ends.
keep_service() {
    install -d -o slurm -g slurm /run/hpcmgr /var/lib/hpcmgr/service
    follow hpcmgr /var/log/slurm/hpcmgr.log
    (
        trap 'kill "$service" 2>/dev/null; exit 0' TERM
        while :; do
            as slurm hpcmgr --log-level info serve >>/var/log/slurm/hpcmgr.log 2>&1 &
            service=$!
            wait "$service" || true
            sleep 1
        done
    ) &
    echo $! >/run/hpcmgr-keeper.pid
    watch /run/hpcmgr-keeper.pid
    wait_for 30 "hpcmgr serve" inside answers
}

controller() {
    inside site
    inside conf
    start_munged
    start_accounting
    wait_for 90 "hpcmgr sync of all nodes" inside synced
    hpcmgr render --out /etc/slurm
    follow slurmctld /var/log/slurm/slurmctld.log
    slurmctld
    wait_for 60 slurmctld scontrol ping
    watch /run/slurmctld.pid
    wait_for 90 "all nodes to register" inside registered
    keep_service
}

login() {
    inside site
    start_munged
    wait_for 180 slurmctld scontrol ping
}

# Docker shows a container its control groups read-only. They are its own (cgroup: private), so
# writing there can do no harm outside.
open_cgroups() {
    if [ -f /sys/fs/cgroup/cgroup.procs ]; then
        open_cgroup_v2
        return
    fi
    for group in devices freezer memory cpuset cpu cpuacct; do
        place=/sys/fs/cgroup/$group
        [ -d "$place" ] && mount -o remount,bind,rw "$place"
    done
    mkdir -p /sys/fs/cgroup/devices/probe && rmdir /sys/fs/cgroup/devices/probe
}

# Follows Slurm's documentation for containers; not tested. A v2 group with processes has no
# controllers to give away, so ours go into a group beside; and Slurm takes process 1's group for
# the root, so the file that tells it is covered.
open_cgroup_v2() {
    mount -o remount,bind,rw /sys/fs/cgroup
    mkdir -p /sys/fs/cgroup/host
    while read -r pid; do echo "$pid" >/sys/fs/cgroup/host/cgroup.procs || true
    done </sys/fs/cgroup/cgroup.procs
    # shellcheck disable=SC2013 # one line of words
    for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true
    done
    echo 0::/ >/run/cgroup-of-init
    mount --bind /run/cgroup-of-init /proc/1/cgroup
}

# Exit 0 where jobs can be confined to their devices; cluster.py asks before it starts a cluster.
probe() {
    open_cgroups
    mknod /dev/probe c 512 0
    said=$( (exec 3</dev/probe) 2>&1) || true
    case $said in *"No such device"*) ;; *) die "cannot open device nodes: $said" ;; esac
}

compute() {
    recorded=/opt/hpcmgr/tests/hosts/$HPCMGR_HOST
    if [ "$HPCMGR_CONFINE" != no ]; then
        open_cgroups || die "no control groups: add SYS_ADMIN, or set HPCMGR_CONFINE=no"
    fi
    inside devices "$recorded"
    inside site
    start_munged
    hpcmgr sync --host "$recorded" --node "$host"
    follow slurmd "/var/log/slurm/slurmd-$host.log"
    wait_for 180 slurmctld scontrol ping
    slurmd --conf-server "$SLURM_CONF_SERVER"
    watch /run/slurmd.pid
}

# A daemon may be between two processes (scontrol reconfigure): three looks before it is dead.
mind() {
    missed=0
    while [ -z "$stopping" ]; do
        gone=
        for pidfile in $pidfiles; do running "$pidfile" || gone=$pidfile; done
        if [ "$gone" ]; then missed=$((missed + 1)); else missed=0; fi
        [ "$missed" -ge 3 ] && die "$(basename "$gone" .pid) has died"
        sleep 1 &
        wait $! || true
    done
}

stop_daemons() { # the last started first; none has to be killed if it ends within five seconds
    for pidfile in $pidfiles; do order="$pidfile ${order:-}"; done
    for pidfile in ${order:-}; do
        running "$pidfile" || continue
        kill "$(cat "$pidfile")" || true
        for _ in $(seq 50); do
            running "$pidfile" || break
            sleep 0.1
        done
    done
}

trap 'stopping=yes' TERM INT
case ${1:-} in
controller | login | compute) "$1" ;;
probe)
    probe
    exit 0
    ;;
*)
    echo "entrypoint.sh: controller, login or compute, not '${1:-}'" >&2
    exit 2
    ;;
esac
touch /run/ready
say ready
mind
say stopping
stop_daemons
