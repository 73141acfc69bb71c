"""The parts of the demo, in the order in which they are told. Each can fail by itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from hpcmgr.cli.root import COMMANDS
from lightcluster.demo.cast import REQUESTS, Request
from lightcluster.demo.jobs import Outcome, Place, submit
from lightcluster.demo.screen import Screen
from lightcluster.errors import LightClusterError
from lightcluster.probe import sockets
from lightcluster.site import ReferenceSite


class Story:
    """Tells the parts and remembers which failed."""

    def __init__(self, site: ReferenceSite, screen: Screen) -> None:
        self._site = site
        self._screen = screen
        self._per_socket: dict[str, int] = {}
        self.failed: list[str] = []

    def tell(self) -> None:
        """All parts."""
        self._part("What each node found (hpcmgr sync)", self._nodes)
        self._part("What hpcmgr wrote for the mixed node", self._files)
        self._part("What there is (hpcmgr capacity)", self._capacity)
        for number, request in enumerate(REQUESTS, start=1):
            with self._screen.pictured(request.pictured):
                self._part(f"{number}. {request.title}", partial(self._job, request))
        self._part("What is in use now (hpcmgr capacity)", self._capacity)
        self._part("The same in Slurm's own words (sinfo)", self._sinfo)

    def _part(self, title: str, part: Callable[[], None]) -> None:
        if not self._site.alive:
            raise LightClusterError("the cluster was ended from outside")
        self._screen.heading(title)
        try:
            part()
        except (LightClusterError, LookupError, ValueError) as error:
            self.failed.append(title)
            self._screen.problem(f"this part failed: {error}")

    def _nodes(self) -> None:
        rows = []
        for spec in self._site.nodes:
            path = f"/shared/hpcmgr/inventory/{spec.name}.json"
            found = json.loads(self._site.controller.read(path))
            self._per_socket[spec.name] = spec.cores_per_socket * spec.threads_per_core
            rows.append([spec.name, f"{spec.sockets} x {spec.cores_per_socket}", *_found(found)])
        self._screen.table(["node", "cores", "accelerators", "RDMA", "tools"], rows)

    def _files(self) -> None:
        for name in ("hpcmgr.conf", "gres.conf"):
            text = self._site.controller.read(f"/etc/slurm/{name}")
            lines = [line for line in text.splitlines() if line.startswith("NodeName=mix01 ")]
            self._screen.code("\n".join([f"# {name}", *lines]))

    def _capacity(self) -> None:
        if "capacity" not in COMMANDS:
            self._sinfo()
            return
        done = self._site.run(["hpcmgr", "capacity"], user="alice", timeout=30)
        if done.returncode not in (0, 4):
            raise LightClusterError(f"hpcmgr capacity gave exit {done.returncode}: {done.stderr}")
        self._screen.text(done.stdout.rstrip())

    def _sinfo(self) -> None:
        line = ["sinfo", "-N", "-O", "NodeHost:20,StateCompact:12,CPUsState:20,GresUsed:150"]
        rows = [row.split() for row in self._site.run(line, check=True).stdout.splitlines()]
        self._screen.table(rows[0], rows[1:])

    def _job(self, request: Request) -> None:
        self._screen.prompt(request.line)
        outcome = submit(self._site, request)
        self._screen.said(outcome.said)
        if outcome.accepted is request.refused:
            what = "was accepted" if request.refused else "was refused"
            raise LightClusterError(f"the request {what}")
        if not request.refused:
            self._show(outcome)

    def _show(self, outcome: Outcome) -> None:
        fact = self._screen.fact
        for place in outcome.places:
            fact("node", self._where(place))
            for step, seen in place.steps.items():
                of = "" if step == "batch" else f"step {step}: "
                fact("opens", of + (" ".join(seen.open) or "nothing"))
                if step == "batch":
                    fact("refused", _short(seen.refused))
                for odd in seen.odd:
                    fact("odd", odd)
        able = [c for c in outcome.candidates if "score" in c][:2]
        self._screen.table(*_terms(able))
        if len(able) > 1 and able[0]["score"] == able[1]["score"]:
            fact("tie", "the name decides")
        for other in outcome.candidates:
            if "refused" in other:
                fact("not", f"{other['profile']}: {other['refused']}")
        fact("sacct", outcome.booked)
        fact("sinfo", outcome.on_node)

    def _where(self, place: Place) -> str:
        devices = re.sub(r",?\b(compute|vram)\(CNT:\d+\)", "", place.gres)
        on = sockets(place.cpus, self._per_socket.get(place.node, 1 << 20))
        where = f"CPUs {place.cpus} of socket {', '.join(map(str, sorted(on)))}"
        return f"{place.node}, {where}, {devices}  (job {place.job_id})"


def _found(inventory: dict[str, Any]) -> list[str]:
    """Accelerators, RDMA cards and sources of an inventory, short."""
    models = Counter(str(d["profile"] or d["model"]) for d in inventory["devices"])
    layers = Counter(
        str(n["link_layer"]) for n in inventory["nics"] if n["rdma"] and n["state"] == "active"
    )
    tools = [s["name"] for s in inventory["sources"] if s["state"] == "present"]
    counted = (", ".join(f"{n} x {what}" for what, n in c.items()) for c in (models, layers))
    devices, rdma = counted
    return [devices or "none", rdma or "none", ", ".join(tools)]


def _short(files: list[str], most: int = 4) -> str:
    """A list of files, or its beginning and how many more."""
    more = f" and {len(files) - most} more" if len(files) > most else ""
    return (" ".join(files[:most]) + more) or "nothing: the node has no other device"


def _terms(able: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The winner's and the runner-up's terms, side by side."""
    names = list(able[0]["terms"]) if able else []
    rows = [
        [
            "chosen" if place == 0 else "next",
            f"{c['devices']} x {c['gres']}",
            f"{c['score']:.2f}",
            *(f"{c['terms'][name]:.2f}" for name in names),
        ]
        for place, c in enumerate(able)
    ]
    return ["why", "", "score", *names], rows
