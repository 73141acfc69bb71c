"""The command: options, the cluster's coming and going, staying up."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

from lightcluster import needs, rootfs, state
from lightcluster.demo.cast import MACHINES, SCRIPTS
from lightcluster.demo.screen import Screen
from lightcluster.demo.site import DemoSite, timed
from lightcluster.demo.story import Story
from lightcluster.errors import LightClusterError
from lightcluster.recipe import SUITES


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: all went well; 1: something failed, and it was said; 130: interrupted."""
    options = _parser().parse_args(argv)
    screen = Screen(picture=options.picture is not None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return _play(options, screen)
    except LightClusterError as error:
        screen.problem(f"demo: {error}")
        return 1
    except KeyboardInterrupt:
        screen.text("\nInterrupted; the cluster is gone.")
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone; there is nobody left to tell.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - Python flushes it at exit
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev demo", description="A whole site, and jobs on it.")
    parser.add_argument("--release", choices=sorted(SUITES), default=sorted(SUITES)[0],
                        help="the Slurm to show (default: %(default)s)")  # fmt: skip
    parser.add_argument("--once", action="store_true", help="end by itself, do not stay up")
    parser.add_argument("--name", default="demo", help="the cluster's name (default: %(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write an SVG of some parts")
    return parser


def _play(options: argparse.Namespace, screen: Screen) -> int:
    _refuse_second(options.name)
    began = time.monotonic()
    screen.heading(f"A Slurm {options.release} site of {len(MACHINES)} machines on this one")
    with timed(screen, "programs and root file system"):
        needs.ensure()
        rootfs.ensure(options.release)
    with DemoSite(options.release, MACHINES, options.name, screen) as site:
        for name, text in SCRIPTS.items():
            site.controller.write(f"/home/alice/{name}", text, owner="alice", mode=0o755)
        up = time.monotonic() - began
        story = Story(site, screen)
        story.tell()
        screen.heading("The end")
        took = time.monotonic() - began
        screen.text(f"up in {up:.0f} s, told in {took - up:.0f} s, {took:.0f} s in all")
        if options.picture:
            screen.save_picture(options.picture, "./dev demo")
        for title in story.failed:
            screen.problem(f"failed: {title}")
        if not options.once:
            _stay(site, screen)
    screen.text("The cluster is gone.")
    return 1 if story.failed else 0


def _refuse_second(name: str) -> None:
    found = state.load(name)
    if found is not None and found.alive:
        raise LightClusterError(
            f"a cluster called {name} runs already; this ends it: {_lightcluster('down', name)}"
        )


_BY_HAND = """
The demo's jobs are cancelled; the cluster is yours. From another terminal, in this folder:

  {alice}
      sbatch --gres=compute:8 look.sh; sleep 2; cat slurm-*.out
      squeue; sinfo -N -O NodeHost,Gres:70,GresUsed:70
      hpcmgr quote compute:npu:16
      hpcmgr explain JOBID

  {node}
      hpcmgr discover --host /host; cat /etc/slurm/gres.conf
"""


def _stay(site: DemoSite, screen: Screen) -> None:
    """Free the cluster for the person; until Enter, Ctrl-C or ``lightcluster down``."""
    site.reset()
    alice = _lightcluster("shell", site.name, "--user alice")
    node = _lightcluster("shell", site.name, "--on mix01")
    screen.text(_BY_HAND.format(alice=alice, node=node))
    screen.text("Enter or Ctrl-C ends the cluster.", "bold")
    with contextlib.suppress(KeyboardInterrupt):
        while site.alive and not select.select([sys.stdin], [], [], 0.5)[0]:
            pass


def _lightcluster(verb: str, name: str, more: str = "") -> str:
    """The command for this cluster, as it is typed from here."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    named = "" if name == "demo" else f"--name {name}"
    return " ".join(filter(None, [str(python), "-m lightcluster", verb, named, more]))
