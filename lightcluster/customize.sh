#!/bin/sh
# Runs once per root file system, as mmdebstrap's customize hook: $1 is the new tree.
# What is common to all clusters is done here, so that starting one takes seconds.
set -eu
root=$1

chroot "$root" groupadd --gid 2100 accel
for user in alice:2001 bob:2002; do
    chroot "$root" useradd --uid "${user#*:}" --user-group --groups accel \
        --create-home --shell /bin/bash "${user%:*}"
done

for place in etc/hpcmgr etc/slurm host opt/hpcmgr shared var/lib/hpcmgr \
    var/log/slurm var/spool/slurmctld var/spool/slurmd; do
    mkdir -p "$root/$place"
done
chroot "$root" chown slurm:slurm /var/log/slurm /var/spool/slurmctld /var/lib/hpcmgr
chmod 1777 "$root/shared" "$root/var/log/slurm"

# The checkout is bound at /opt/hpcmgr when a cluster starts.
cat >"$root/usr/local/bin/hpcmgr" <<'END'
#!/bin/sh
# As installed, it runs from compiled files; the checkout has no room for them.
export PYTHONPYCACHEPREFIX="${PYTHONPYCACHEPREFIX:-/tmp/pycache-$(id -u)}"
PYTHONPATH=/opt/hpcmgr${PYTHONPATH:+:$PYTHONPATH} exec python3 -m hpcmgr "$@"
END
chmod 755 "$root/usr/local/bin/hpcmgr"

# A small database on a file system in memory: no network, small files, no fsync.
cat >"$root/etc/mysql/mariadb.conf.d/90-lightcluster.cnf" <<'END'
[mariadbd]
skip-networking
skip-name-resolve
performance_schema = OFF
innodb_buffer_pool_size = 64M
innodb_log_file_size = 16M
innodb_flush_log_at_trx_commit = 0
innodb_lock_wait_timeout = 900
innodb_snapshot_isolation = OFF
innodb_buffer_pool_load_at_startup = OFF
innodb_buffer_pool_dump_at_shutdown = OFF
END
# unix_socket: the database believes the kernel that the caller is slurmdbd's user.
chroot "$root" mariadbd --bootstrap --user=mysql <<'END'
FLUSH PRIVILEGES;
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
END

rm -rf "$root"/usr/share/doc/* "$root"/usr/share/man/* "$root"/usr/share/locale/* \
    "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
