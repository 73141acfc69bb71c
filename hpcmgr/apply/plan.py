"""What an apply would do: the files to write, the nodes that must wait, the nodes that move."""

from __future__ import annotations

import difflib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcmgr.apply.keep import keep_lines, lines_of, same_but_lines
from hpcmgr.apply.layout import NodeLayout, layouts, same
from hpcmgr.apply.live import Job, LiveCluster
from hpcmgr.apply.memory import recall
from hpcmgr.apply.workplace import FOLDER, Workplace
from hpcmgr.errors import ApplyError
from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import (
    FRAGMENT,
    GRES_FRAGMENT,
    Configuration,
    read_configuration,
)

SECRET = frozenset({".key", ".jwks", ".pem"})


@dataclass(frozen=True, slots=True)
class Waiting:
    """A node that keeps its lines, and the jobs because of which it does."""

    node: str
    jobs: tuple[Job, ...]
    what: str

    def __str__(self) -> str:
        jobs = ", ".join(str(job) for job in self.jobs) or "jobs that slurmctld counts"
        return f"{self.node} waits ({self.what}): {jobs}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs; ``old`` None: it is not there yet."""

    name: str
    old: str | None
    new: str

    def diff(self, conf_dir: Path) -> str:
        """A unified diff."""
        old = (self.old or "").splitlines(keepends=True)
        before = str(conf_dir / self.name) if self.old is not None else "/dev/null"
        lines = difflib.unified_diff(
            old, self.new.splitlines(keepends=True), before, str(conf_dir / self.name)
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Change:
    """What would be written. ``moved``: nodes whose devices or cores change place; ``touched``:
    nodes of which anything changes; ``layouts``: every node as it would be; ``gone``:
    partitions that would no longer be there."""

    files: tuple[FileChange, ...]
    waiting: tuple[Waiting, ...]
    moved: tuple[str, ...]
    touched: tuple[str, ...]
    layouts: Mapping[str, NodeLayout]
    gone: tuple[str, ...] = ()

    @property
    def texts(self) -> dict[str, str]:
        """The files to write."""
        return {change.name: change.new for change in self.files}

    @property
    def needs_reconfigure(self) -> bool:
        """Whether daemons must read their files; the shim is reloaded by its time alone."""
        return any(not change.name.endswith(".lua") for change in self.files)


def plan_change(
    place: Workplace,
    wanted: Mapping[str, str],
    live: LiveCluster | None,
    release: Release,
) -> Change:
    """Compare ``wanted`` with what lies in the configuration directory.

    Args:
        place: the configuration directory.
        wanted: rendered files and the shim's, by name below the directory.
        live: None: nothing is known about jobs, so no node waits (for showing only).
        release: of the site's Slurm.

    Raises:
        ApplyError: the lines of a waiting node cannot be kept as they are, or a partition with jobs
            would go.
    """
    current = read_configuration(place.conf_dir, release)
    memory = recall(place.folder)
    before = layouts(current)
    # Nodes whose lines were taken out of the site's own files since their slurmd read them.
    taken = {n: x for n, x in (memory.of(live) if live else {}).items() if n not in before}
    before |= taken
    if live:
        _insist_on_lines(before, live)
    with overlaid(place.conf_dir, wanted) as copy:
        copied = read_configuration(copy, release)
        after = layouts(copied)
        gone = tuple(sorted(partitions(current) - partitions(copied)))
    busy = live.jobs_in(gone) if live else ""
    if busy:
        raise ApplyError(
            f"there are jobs in partitions that would go: {busy}; slurmctld would end them, "
            "running and waiting ones",
            "keep the partition with 'options: {State: DRAIN}' until they are done, or move them "
            "(scontrol update jobid=… partition=…)",
        )
    waiting = _waiting(before, after, live) if live else ()
    names = frozenset(w.node for w in waiting)
    rendered = _rendered(wanted)
    lines = lines_of(current, sorted(names - taken.keys()), rendered)
    lines |= {name: memory.lines[name] for name in sorted(names & taken.keys())}
    files = {**wanted, **keep_lines(rendered, current, lines)}
    if names:
        with overlaid(place.conf_dir, files) as copy:
            after = layouts(read_configuration(copy, release))
        _insist(before, after, names)
    both = {*before, *after}
    touched = tuple(sorted(n for n in both if before.get(n) != after.get(n)))
    changes = tuple(
        FileChange(name, old, text)
        for name, text in files.items()
        if (old := place.read(name)) != text
        # Lines that are kept may stand in another order, or be folded otherwise: no reason to
        # bother the daemons. Those that were taken out of the site's own files must be written.
        and not (names and not (touched or taken) and old is not None and same_but_lines(old, text))
    )
    return Change(
        files=changes,
        waiting=waiting,
        moved=tuple(sorted(n for n in both if not same(before, after, n))),
        touched=touched,
        layouts=after,
        gone=gone,
    )


def _rendered(wanted: Mapping[str, str]) -> dict[str, str]:
    names = {FRAGMENT, "gres.conf", GRES_FRAGMENT}
    return {name: text for name, text in wanted.items() if name in names}


def _insist_on_lines(before: Mapping[str, NodeLayout], live: LiveCluster) -> None:
    """A node that is in no file any more goes at the reconfigure, with its jobs."""
    lost = [n for n in live.nodes if n not in before and (live.jobs_on(n) or live.holds(n))]
    if lost:
        raise ApplyError(
            f"{', '.join(sorted(lost))}: jobs run there, but no file defines the node any more, "
            "and nobody knows which devices it had in which order",
            "put its lines back, wait for the jobs, or drain it; 'hpcmgr adopt --begin' before "
            "lines are removed lets apply keep them",
        )


def _waiting(
    before: Mapping[str, NodeLayout], after: Mapping[str, NodeLayout], live: LiveCluster
) -> tuple[Waiting, ...]:
    found = []
    for name in sorted(before):
        what = _must_wait(before[name], after.get(name), live, name)
        if what:
            found.append(Waiting(name, live.jobs_on(name), what))
    return tuple(found)


def _must_wait(
    before: NodeLayout, after: NodeLayout | None, live: LiveCluster, name: str
) -> str | None:
    busy = bool(live.jobs_on(name))
    if after is None:
        return "it would go" if busy or live.devices_in_use(name) else None
    if before.moves_devices(after) and live.devices_in_use(name):
        return "its devices would move"
    if before.moves_cores(after) and busy:
        return "its cores or its address would change"
    return None


def _insist(
    before: Mapping[str, NodeLayout], after: Mapping[str, NodeLayout], names: frozenset[str]
) -> None:
    moved = sorted(name for name in names if not same(before, after, name))
    if moved:
        raise ApplyError(
            f"{', '.join(moved)}: jobs run there, and its lines cannot be kept as they are beside "
            "the new ones",
            "wait for the jobs, or use --drain-first",
        )


def partitions(configuration: Configuration) -> set[str]:
    """Names of all partitions that are defined."""
    lines = configuration.slurm.settings("partitionname")
    return {name for line in lines for name in (line.get("partitionname") or "").split(",")}


@contextmanager
def overlaid(conf_dir: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """A copy of the configuration directory with ``files`` laid over it, never its keys."""
    with tempfile.TemporaryDirectory(prefix="hpcmgr-apply-") as name:
        copy = Path(name)
        for path in sorted(conf_dir.rglob("*")):
            inner = path.relative_to(conf_dir)
            if inner.parts[0] == FOLDER or path.suffix in SECRET or not path.is_file():
                continue
            target = copy / inner
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(path, target)
            except PermissionError:
                # slurmdbd.conf and the like: nothing here needs them.
                continue
        for inner_name, text in files.items():
            target = copy / inner_name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        yield copy
