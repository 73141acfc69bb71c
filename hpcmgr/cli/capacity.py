"""``hpcmgr capacity``."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.admit import Policy
    from hpcmgr.capacity import Picture, Rules, Viewer
    from hpcmgr.capacity.view import By


@click.command()
@click.option(
    "--by",
    type=click.Choice(["type", "node", "partition", "class", "user", "account"]),
    default="type",
    show_default=True,
    help="What one line stands for.",
)
@click.option(
    "--fit",
    "wanted",
    metavar="REQUEST",
    help="What this would get now, or when: 'compute:train:16 -N2', with sbatch's options.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="What only others may use too, and nodes without accelerators.",
)
@click.option("--watch", is_flag=True, help="Anew every few seconds, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(1, 3600),
    default=5,
    show_default=True,
    help="Seconds between two looks of --watch.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--prometheus", is_flag=True, help="As text for a Prometheus scrape.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write one self-contained page to this file (- is stdout).",
)
@click.pass_obj
def command(
    config: Path | None,
    by: By,
    wanted: str | None,
    everything: bool,
    watch: bool,
    interval: float,
    as_json: bool,
    prometheus: bool,
    html: Path | None,
) -> int:
    """Show devices, units and device memory, free and total, as Slurm has them now.

    Usable are the free devices beside which CPUs and memory are free too. What is down, drained or
    reserved stands below, with its reason. Needs no service.
    """
    from hpcmgr.errors import UsageProblem

    chosen = [name for name, given in (("--json", as_json), ("--prometheus", prometheus),
                                       ("--html", html), ("--watch", watch)) if given]  # fmt: skip
    if len(chosen) > 1:
        raise UsageProblem(f"{' and '.join(chosen)} cannot be had together", "ask for one")
    view = _View(config, by, everything=everything, page=html is not None)
    if wanted is not None:
        return _fit(view, wanted, chosen)
    if watch:
        from hpcmgr.cli.capacity_watch import watch as keep_looking

        keep_looking(view.drawn, interval)
        return 0
    picture = view.look()
    if html:
        from hpcmgr.capacity.page import page

        return _write(html, page(picture))
    if prometheus:
        from hpcmgr.capacity.prometheus import exposition

        click.echo(exposition(picture, by), nl=False)
    elif as_json:
        click.echo(json.dumps(view.data(picture), indent=2))
    else:
        _present(view, picture)
    if not picture.capacity.nodes:
        click.echo(f"hpcmgr: {_no_nodes(picture)}", err=True)
    return 0


class _View:
    """What was asked for, and how to look once."""

    def __init__(self, config: Path | None, by: By, *, everything: bool, page: bool) -> None:
        from hpcmgr.settings import load_site

        self.site = load_site(config)
        self.by = by
        self._everything = everything
        self._page = page

    def look(self, *, request: bool = False) -> Picture:
        """Ask Slurm; ``request``: for all that a decision on a job takes."""
        from hpcmgr.capacity import take
        from hpcmgr.profile.site import library_of

        rules = self._rules() if request or self._page or self.by == "class" else None
        return take(
            self.site,
            rules.policy.library if rules else library_of(self.site),
            viewer=None if self._everything else _viewer(),
            every_node=self._everything,
            rules=rules,
            devices=self._page,
        )

    def _rules(self) -> Rules:
        from hpcmgr.capacity import Rules
        from hpcmgr.service.askfacts import ask_known

        return Rules(self._policy, ask_known(self.site, self._policy.library))

    @cached_property
    def _policy(self) -> Policy:
        from hpcmgr.service.knowledge import policy_of

        return policy_of(self.site)

    def data(self, picture: Picture) -> dict[str, Any]:
        """As JSON has it."""
        from hpcmgr.capacity import as_data

        return as_data(picture, self.by)

    def drawn(self, width: int) -> Any:
        """Ask Slurm; as a terminal of that width shows it."""
        from hpcmgr.cli.capacity_tables import drawn, sections

        data = self.data(self.look())
        return drawn(sections(data, self.by), "\n".join(heading(data)), width)


def _viewer() -> Viewer | None:
    """None for root, who sees everything, and for a user without a name."""
    import grp
    import pwd

    from hpcmgr.capacity import Viewer

    uid = os.getuid()
    if uid == 0:
        return None
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        return None
    groups = []
    for gid in {os.getgid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            groups.append(grp.getgrgid(gid).gr_name)
    return Viewer(user, frozenset(groups))


def _fit(view: _View, text: str, chosen: list[str]) -> int:
    """Exit 1 where the request can never be served."""
    from hpcmgr.cli.capacity_fit import fit, present
    from hpcmgr.cli.sbatchline import read_line
    from hpcmgr.errors import UsageProblem

    if chosen not in ([], ["--json"]):
        raise UsageProblem(f"--fit and {chosen[0]} cannot be had together", "ask for one")
    wanted = read_line([text])
    told = fit(view.look(request=True), wanted)
    if chosen:
        click.echo(json.dumps(told, indent=2))
    else:
        present(told)
    return 1 if told["error"] else 0


def _present(view: _View, picture: Picture) -> None:
    from hpcmgr.cli.capacity_tables import drawn, plain, sections

    data = view.data(picture)
    parts = sections(data, view.by)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console

        console = Console(highlight=False)
        console.print(drawn(parts, "\n".join(heading(data)), console.width))
        return
    for line in heading(data):
        click.echo(f"hpcmgr: {line}", err=True)
    plain(parts)


def heading(data: dict[str, Any]) -> list[str]:
    """How old the figures are, and what about them needs a word."""
    clock = data["taken"].replace("T", " ")[:19]
    where = f"{data['cluster']}, " if data["cluster"] else ""
    lines = [f"{where}Slurm {data['slurm']}, figures of {clock}, {data['age_s']:.1f} s old"]
    total, scope = data["total"], data["scope"]
    if scope["partitions"] is not None:
        lines.append(
            f"what {scope['user']} may use: partition {', '.join(scope['partitions']) or 'none'} "
            "(--all: everything)"
        )
    if scope["nodes_of_others"]:
        lines.append(f"without nodes that others keep for themselves: {scope['nodes_of_others']}")
    if scope["no_account"]:
        lines.append(f"{scope['user']} has no account in Slurm, which takes no jobs without one")
    if total["units_unknown"]:
        lines.append(
            f"{total['units_unknown']} devices are of types without known units "
            "(units -): give them a profile"
        )
    if total["not_seen"]:
        lines.append(
            f"{total['not_seen']} devices in use are held by jobs that Slurm does not show you "
            "or does not count by type"
        )
    lines += [
        f"{each['gres']}: {share['used']} of {share['total']} {share['gres']} in use"
        for each in data["types"]
        for share in each["shares"]
    ]
    if any(each["preemptable"]["devices"] for each in data["types"]):
        lines.append(f"~ is an estimate: {data['preemption']['basis']}")
    return [*lines, *data["notes"]]


def _no_nodes(picture: Picture) -> str:
    if picture.scope.partitions is not None:
        return "no partition that you may use has nodes (--all: everything)"
    return "Slurm shows you no nodes (none defined, or PrivateData=nodes)"


def _write(path: Path, text: str) -> int:
    from hpcmgr.errors import HpcmgrError
    from hpcmgr.files import write_atomically

    if path == Path("-"):
        click.echo(text)
        return 0
    if path.exists() and not path.is_file():
        raise HpcmgrError(f"{path} is no regular file", "name a file, or - for stdout")
    try:
        write_atomically(path, text)
    except OSError as error:
        raise HpcmgrError(f"{path}: {error.strerror}", "name a file that you may write") from error
    click.echo(f"hpcmgr: wrote {path}", err=True)
    return 0
