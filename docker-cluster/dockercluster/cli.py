"""The commands of cluster.py."""

from __future__ import annotations

import argparse
import sys
import time

from docker.errors import DockerException

from dockercluster import dockerd, image
from dockercluster.cluster import LABEL, DockerCluster
from dockercluster.composefile import RELEASES
from dockercluster.errors import DockerClusterError


def main(argv: list[str] | None = None) -> int:
    """Run a command; an error is words for a person."""
    options = _parser().parse_args(argv)
    try:
        return int(options.action(options) or 0)
    except (DockerClusterError, DockerException, OSError) as error:
        print(f"docker-cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cluster.py", description="The reference cluster in containers, one a host."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, action: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text)
        command.set_defaults(action=action)
        if name not in ("image", "status"):
            command.add_argument("--name", default="hpcmgr", help="the cluster's name")
        if name in ("image", "up", "demo", "down"):
            command.add_argument("--release", choices=RELEASES, default=RELEASES[0])
        return command

    add("image", _image, "make the image only, as docker compose needs it")
    add("up", _up, "start the cluster; returns when every host is ready")
    add("status", _status, "which clusters are up")
    logs = add("logs", _logs, "what a host has said")
    logs.add_argument("host")
    run = add("run", _run, "run a command on a host")
    run.add_argument("--user", default="root", help="root, alice, bob or slurm")
    run.add_argument("-i", "--stdin", action="store_true", help="give it what comes from stdin")
    run.add_argument("host", help="ctl, login, mix01, npu01 or t401")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD")
    add("demo", _demo, "jobs, a dead node and a cut network, told step by step")
    down = add("down", _down, "remove it, and the daemon if cluster.py started it")
    down.add_argument("--all", action="store_true", help="every cluster, whatever its name")
    down.add_argument("--cache", action="store_true", help="remove the image, too")
    return parser


def _image(options: argparse.Namespace) -> None:
    found = dockerd.ensure(install=True)
    try:
        print(image.ensure(found.client, options.release))
    finally:
        dockerd.stop(found)


def _up(options: argparse.Namespace) -> None:
    started = time.monotonic()
    cluster = DockerCluster(options.release, options.name, install=True)
    cluster.start()
    print(
        f"{options.name}: Slurm {options.release}, up in {time.monotonic() - started:.0f} s\n"
        f"  {cluster.docker.command} exec -it -u alice -w /home/alice {options.name}-login bash\n"
        f"  cluster.py run --user alice --name {options.name} login sinfo\n"
        f"  cluster.py down --name {options.name}"
    )


def _status(_: argparse.Namespace) -> None:
    found = dockerd.find()
    containers = found.client.containers.list(all=True, filters={"label": LABEL}) if found else []
    for container in sorted(containers, key=lambda each: str(each.name)):
        print(f"{container.name}\t{container.status}")
    if not containers:
        print("no cluster is up", file=sys.stderr)


def _logs(options: argparse.Namespace) -> None:
    sys.stdout.write(DockerCluster(name=options.name).attach().logs(options.host, 1000))


def _run(options: argparse.Namespace) -> int:
    cluster = DockerCluster(name=options.name).attach()
    text = sys.stdin.read() if options.stdin else None
    done = cluster.run(
        options.host, options.argv or ["hostname"], user=options.user, timeout=550, input=text
    )
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def _demo(options: argparse.Namespace) -> None:
    from dockercluster.demo import show

    with DockerCluster(options.release, options.name, install=True) as cluster:
        show(cluster)


def _down(options: argparse.Namespace) -> None:
    found = dockerd.find() if options.all else None
    if found is not None:
        things = found.client.containers.list(all=True, filters={"label": LABEL})
        for name in {each.labels[LABEL] for each in things} - {options.name}:
            DockerCluster(options.release, name).stop()
    DockerCluster(options.release, options.name).stop(cache=options.cache)
