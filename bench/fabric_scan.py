"""What a scanned fabric adds to a render.

    python -m bench.fabric_scan [--nodes 10000]

Nodes with eight compute rails and a storage rail, units of 32 with a leaf a rail, pods with spines,
cores. Plan and render with the scan beside the same without it, in one run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hpcmgr.fabric import ibnetdiscover, load_scan
from hpcmgr.fabric.survey import survey
from hpcmgr.plan import make_plan
from hpcmgr.profile import load_library
from hpcmgr.render import render_cluster
from hpcmgr.settings import Rails, Site
from tests import fabric_texts as texts

RAILS = [f"mlx5_{i}" for i in range(8)]
STORAGE = "mlx5_8"
T = TypeVar("T")


def cables(nodes: int) -> list[texts.Cable]:
    """The network of so many nodes."""
    found = []
    for i in range(nodes):
        found += [(f"n{i:05} {nic}", f"su{i // 32:03}-r{r}") for r, nic in enumerate(RAILS)]
        found.append((f"n{i:05} {STORAGE}", f"stor{i // 64:03}"))
    units = (nodes + 31) // 32
    for unit in range(units):
        for r in range(8):
            found += [(f"su{unit:03}-r{r}", f"pod{unit // 8:02}-s{s}") for s in range(4)]
    for pod in range((units + 7) // 8):
        found += [(f"pod{pod:02}-s{s}", f"core{c}") for s in range(4) for c in range(4)]
    return [*found, *((f"stor{k:03}", "core0") for k in range((nodes + 63) // 64))]


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    nodes = parser.parse_args().nodes
    base = texts.node("n", near=RAILS, far=[STORAGE])
    inventories = {n: base.model_copy(update={"node": n})
                   for n in (f"n{i:05}" for i in range(nodes))}  # fmt: skip
    text = texts.ibnetdiscover(cables(nodes))
    seen = timed("read ibnetdiscover", lambda: ibnetdiscover.parse(text))[0]
    found = timed("judge it", lambda: survey([seen], {}, inventories, Rails(), None))[0]
    library, site = load_library(), Site()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "fabric.json"
        path.write_text(found.scan.to_json())
        plain = timed(
            "render without it",
            lambda: render_cluster(make_plan(inventories.values(), library, site)),
        )[1]
        whole = timed(
            "render with it",
            lambda: render_cluster(make_plan(inventories.values(), library, site, load_scan(path))),
        )[1]
    print(f"with / without: {whole / plain:.2f}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB in all")


def timed(what: str, work: Callable[[], T]) -> tuple[T, float]:
    """Do it and say how long it took (CPU seconds)."""
    start = time.process_time()
    done = work()
    taken = time.process_time() - start
    print(f"{what}: {taken:.2f} s")
    return done, taken


if __name__ == "__main__":
    main()
