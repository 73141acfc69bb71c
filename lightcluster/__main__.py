"""``python -m lightcluster``: a cluster to try things on, from a terminal."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from lightcluster import needs, rootfs, state
from lightcluster.cluster import LightCluster
from lightcluster.enter import Host
from lightcluster.errors import LightClusterError
from lightcluster.recipe import SUITES
from lightcluster.spec import CONTROLLER, NodeSpec

_DOWN_LIMIT_S = 20


def main(argv: list[str] | None = None) -> int:
    """Run a command; an error is one line for a person."""
    options = _parser().parse_args(argv)
    try:
        return int(options.command(options) or 0)
    except LightClusterError as error:
        print(f"lightcluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lightcluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    releases = sorted(SUITES)

    build = commands.add_parser("build", help="make the root file system ready")
    build.add_argument("--release", choices=releases, action="append")
    build.set_defaults(command=_build)

    up = commands.add_parser("up", help="start a cluster and keep it until Ctrl-C")
    up.add_argument("--release", choices=releases, default="24.11")
    up.add_argument("--name", default="demo")
    up.add_argument("--nodes", type=int, default=2, help="how many plain nodes (default: 2)")
    up.add_argument(
        "--host",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a recorded machine; one more node plays it",
    )
    up.add_argument(
        "--conf",
        type=Path,
        metavar="DIR",
        help="files for /etc/slurm, in place of the reference site's",
    )
    up.add_argument("--accounting", action="store_true", help="with MariaDB and slurmdbd")
    up.set_defaults(command=_up)

    status = commands.add_parser("status", help="which clusters run")
    status.set_defaults(command=_status)

    shell = commands.add_parser("shell", help="a shell in a cluster, or a command")
    shell.add_argument("--name", default="demo")
    shell.add_argument("--on", default=CONTROLLER, metavar="HOST")
    shell.add_argument("--user", default="root")
    shell.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    shell.set_defaults(command=_shell)

    down = commands.add_parser("down", help="end a cluster")
    down.add_argument("--name", default="demo")
    down.add_argument(
        "--cache",
        action="store_true",
        help="remove the cached root file systems, too; no cluster may run",
    )
    down.set_defaults(command=_down)
    return parser


def _build(options: argparse.Namespace) -> None:
    needs.ensure()
    for release in options.release or sorted(SUITES):
        print(rootfs.ensure(release))


def _up(options: argparse.Namespace) -> None:
    nodes = [NodeSpec(f"n{number}") for number in range(1, options.nodes + 1)]
    nodes += [
        NodeSpec(f"h{number}", sockets=2, cores_per_socket=16, host=host)
        for number, host in enumerate(options.host, start=1)
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cluster = LightCluster(
        options.release, nodes, options.conf, name=options.name, accounting=options.accounting
    )
    started = time.monotonic()
    with cluster:
        print(
            f"{options.name}: Slurm {options.release}, {len(nodes)} nodes, "
            f"up in {time.monotonic() - started:.1f} s"
        )
        print(f"  python -m lightcluster shell --name {options.name} --user alice")
        print("Ctrl-C ends it.", flush=True)
        while cluster.alive:
            time.sleep(0.3)


def _status(_: argparse.Namespace) -> None:
    state.remove_stale()
    clusters = state.running()
    for each in clusters:
        print(f"{each.name}: Slurm {each.release}, hosts {', '.join(each.members)}")
    if not clusters:
        print("no light cluster runs", file=sys.stderr)


def _find(name: str) -> state.State:
    found = state.load(name)
    if found is None or not found.alive:
        running = ", ".join(each.name for each in state.running()) or "none"
        raise LightClusterError(f"no light cluster {name} runs (running: {running})")
    return found


def _shell(options: argparse.Namespace) -> int:
    found = _find(options.name)
    members = found.members
    if options.on not in members:
        raise LightClusterError(f"no host {options.on}; there is {', '.join(members)}")
    host = Host(options.on, members[options.on], found.hwloc[options.on])
    command = host.command(options.argv or ["bash"], options.user)
    env = host.environment(options.user, {"TERM": os.environ.get("TERM", "dumb")})
    os.execve(command[0], command, env)  # the terminal is the shell's from here on


def _down(options: argparse.Namespace) -> None:
    found = state.load(options.name)
    if found is not None and found.alive:
        _end(found)
    elif not options.cache:
        _find(options.name)
    if options.cache:
        _remove_cache()


def _remove_cache() -> None:
    """Running clusters stand on the cached trees, and may be somebody else's."""
    state.remove_stale()
    running = ", ".join(each.name for each in state.running())
    if running:
        raise LightClusterError(
            f"{rootfs.cache_dir()} stays: it is in use by {running}; end them first"
        )
    shutil.rmtree(rootfs.cache_dir(), ignore_errors=True)


def _end(found: state.State) -> None:
    os.kill(found.supervisor, signal.SIGTERM)
    limit = time.monotonic() + _DOWN_LIMIT_S
    while found.alive:
        if time.monotonic() > limit:
            raise LightClusterError(f"{found.name} does not end")
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
