"""What entrypoint.sh asks of Python, inside a container of the cluster.

inside.py site              write /etc/hpcmgr/site.yaml
inside.py conf              write /etc/slurm, all but what `hpcmgr render` adds
inside.py devices HOST      make the device nodes of a recorded machine
inside.py synced            exit 0 when every node has published its inventory
inside.py registered        exit 0 when slurmctld has heard of every node
inside.py answers           exit 0 when `hpcmgr serve` answers
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

import yaml  # noqa: E402

from lightcluster import cgroups, siteconf  # noqa: E402
from lightcluster.devices import (  # noqa: E402
    DeviceNode,
    majors_in_use,
    map_majors,
    parse_dev_txt,
    without_drivers,
)

SLURM_DIR = Path("/etc/slurm")
SITE_YAML = Path("/etc/hpcmgr/site.yaml")
SOCKET = "/run/hpcmgr/submit.sock"
_SLURM_UID = 64030  # Debian's fixed uid of the user slurm
_ACCEL_GID = 2100  # the group that owns devices, in the image
_KERNELS_OWN = frozenset({1, 5})  # /dev/null, /dev/tty and their like: every container has them
_CAP_MIB = 8000


def reference_site() -> dict[str, object]:
    """The reference site.yaml, as a machine needs it that poses as several large ones."""
    site = yaml.safe_load((CHECKOUT / "slurm-conf" / "site.yaml").read_text())
    # slurmd asks the kernel for its memory, whatever the recorded machine had.
    site["nodes"] = [{"nodes": ",".join(node_names()), "memory_mib": _memory_mib()}]
    site["accounting"] = True
    version = cgroups.hierarchies()[0].version
    site["cgroup"] = {
        "constrain_cores": False,
        "constrain_ram": False,
        "plugin": f"cgroup/v{version}",
        "ignore_systemd": version == 2,
    }
    return dict(site)


def _memory_mib() -> int:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return min(_CAP_MIB, int(pages * size / (1 << 20) * 0.8))


def node_names() -> list[str]:
    """The compute nodes, from HPCMGR_NODES."""
    return os.environ["HPCMGR_NODES"].split()


def slurm_files(*, confine: bool) -> dict[str, str]:
    """/etc/slurm of the controller; nodes fetch their part from it (configless)."""
    version = cgroups.hierarchies()[0].version
    files = siteconf.compose(None, [], accounting=True, cgroup_version=version)
    files["hpcmgr.conf"] = "# Rendered as soon as the nodes have published their inventories.\n"
    changes = {"SlurmctldParameters": ("enable_configless", "nodes have no files of their own")}
    if not confine:
        reason = "this Docker lets no container make control groups"
        changes["ProctrackType"] = ("proctrack/linuxproc", reason)
        changes["TaskPlugin"] = ("task/none", reason)
    files["slurm.conf"] = siteconf.with_settings(files["slurm.conf"], changes)
    return files


def recorded_devices(host: Path) -> list[DeviceNode]:
    """A recorded machine's device nodes under majors that no driver has; those that every
    container has by itself are left out."""
    listing = host / "dev.txt"
    recorded = parse_dev_txt(listing.read_text(), str(listing))
    nodes = [node for node in recorded if node.major not in _KERNELS_OWN]
    return without_drivers(nodes, map_majors(nodes, majors_in_use(_proc_devices())))


def _proc_devices() -> str:
    return Path("/proc/devices").read_text()


def _write_site() -> None:
    SITE_YAML.write_text(yaml.safe_dump(reference_site(), sort_keys=False))


def _write_conf() -> None:
    for name, text in slurm_files(confine=os.environ.get("HPCMGR_CONFINE") != "no").items():
        path = SLURM_DIR / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    secret = SLURM_DIR / "slurmdbd.conf"
    secret.chmod(0o600)
    os.chown(secret, _SLURM_UID, _SLURM_UID)


def _make_devices(host: Path) -> None:
    for node in recorded_devices(host):
        path = Path(node.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        kind = stat.S_IFCHR if node.type == "c" else stat.S_IFBLK
        os.mknod(path, kind | node.mode, os.makedev(node.major, node.minor))
        path.chmod(node.mode)  # mknod obeys the umask
        os.chown(path, 0, _ACCEL_GID)


def _synced() -> bool:
    inventory = Path(str(reference_site()["inventory"]))
    return all((inventory / f"{name}.json").exists() for name in node_names())


def _registered() -> bool:
    done = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--format=%N %T"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    states = dict(line.split() for line in done.stdout.splitlines())
    waiting = ("unknown", "down", "unk")
    return all(not states.get(name, "unk").startswith(waiting) for name in node_names())


def _answers() -> bool:
    """A job that is none of hpcmgr's is passed, from memory: the service is up."""
    with socket.socket(socket.AF_UNIX) as service:
        service.settimeout(2)
        service.connect(SOCKET)
        service.sendall(b'{"v":1,"op":"submit","uid":0,"job":{}}\n')
        answer = json.loads(service.makefile().readline())
    return answer.get("pass") is True


def main(argv: list[str]) -> int:
    """Do one thing; 1 means "not yet" for the last three."""
    match argv:
        case ["site"]:
            _write_site()
        case ["conf"]:
            _write_conf()
        case ["devices", host]:
            _make_devices(Path(host))
        case ["synced"]:
            return 0 if _synced() else 1
        case ["registered"]:
            return 0 if _registered() else 1
        case ["answers"]:
            return 0 if _answers() else 1
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (OSError, ValueError) as error:
        print(f"inside.py: {error}", file=sys.stderr)
        sys.exit(1)
