"""The accounts of a fresh cluster: the cluster itself, one account, alice and bob in it."""

from __future__ import annotations

import re

from lightcluster.enter import Host
from lightcluster.errors import StartError

ACCOUNT = "science"
USERS = ("alice", "bob")


def cluster_name(slurm_conf: str) -> str:
    """The ClusterName of a slurm.conf."""
    match = re.search(r"^\s*ClusterName\s*=\s*(\S+)", slurm_conf, re.MULTILINE | re.IGNORECASE)
    if not match:
        raise StartError("slurm.conf has no ClusterName, and accounting needs one")
    return match[1]


def populate(controller: Host, cluster: str) -> None:
    """Make cluster, account and users in one go."""
    commands = [
        f"add cluster {cluster}",
        f"add account {ACCOUNT} cluster={cluster} description=science organization=lightcluster",
        f"add user {','.join(USERS)} account={ACCOUNT} cluster={cluster}",
    ]
    controller.run(
        ["sacctmgr", "--immediate", "--quiet"], input="\n".join([*commands, "quit\n"]), check=True
    )
    found = controller.run(
        [
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "list",
            "assoc",
            f"cluster={cluster}",
            "format=user",
        ],
        check=True,
    ).stdout.split()
    missing = set(USERS) - set(found)
    if missing:
        raise StartError(f"sacctmgr did not add {', '.join(sorted(missing))}")
