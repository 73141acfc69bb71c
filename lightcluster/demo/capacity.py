"""``./dev capacity``: a busy mixed cluster, its capacity beside what Slurm says of the same moment.

    python -m lightcluster.demo.capacity [--release 24.11] [--pictures docs/img]

Exit 1 if a figure differs. ``--pictures`` writes the terminal view (SVG) and the page (PNG; needs
chromium).
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lightcluster.demo.cast import MACHINES
from lightcluster.demo.crowd import crowded
from lightcluster.demo.figures import Figure, compare, pestat, told
from lightcluster.demo.screen import Screen
from lightcluster.errors import LightClusterError
from lightcluster.recipe import SUITES
from lightcluster.site import ReferenceSite

_WIDTH = 142
CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars",
)  # fmt: skip
"""A browser that loads a file and reaches no network."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: all figures agree; 1: some do not, or something failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", choices=sorted(SUITES), default=sorted(SUITES)[0])
    parser.add_argument("--pictures", type=Path, metavar="DIR")
    options = parser.parse_args(argv)
    screen = Screen()
    try:
        with ReferenceSite(options.release, MACHINES, accounting=True) as site, crowded(site):
            agrees = tell(site, screen)
            if options.pictures:
                terminal_picture(site, options.pictures / "capacity.svg")
                page_picture(site, options.pictures / "capacity.png")
    except LightClusterError as error:
        screen.problem(f"capacity: {error}")
        return 1
    return 0 if agrees else 1


def tell(site: ReferenceSite, screen: Screen) -> bool:
    """The same moment in four ways, then figure by figure; whether all agree."""
    for line in (
        ["sinfo", "-o", "%P %D %T %C %G"],
        ["sinfo", "-R", "-o", "%N %T %u %H %E"],
        ["squeue", "-o", "%i %u %T %D %b %R"],
        ["hpcmgr", "capacity"],
        ["hpcmgr", "capacity", "--by", "node"],
        ["hpcmgr", "capacity", "--by", "partition"],
        ["hpcmgr", "capacity", "--by", "class"],
        ["hpcmgr", "capacity", "--by", "user"],
        ["hpcmgr", "capacity", "--by", "account"],
    ):
        screen.heading(" ".join(line))
        screen.text(site.run(line, user="alice", check=True).stdout.rstrip())
    screen.heading("as pestat prints it")
    screen.table(["node", "state", "CPUs", "MiB", "GRES in use"], pestat(site))
    screen.heading("Slurm's nodes, raw")
    raw = site.run(["scontrol", "-o", "show", "nodes"], check=True).stdout
    for record in re.findall(r"NodeName=(\S+).*? CfgTRES=(\S+) AllocTRES=(\S*)", raw):
        screen.text("{} CfgTRES={} AllocTRES={}".format(*record))
    figures = compare(site)
    screen.heading("Figure by figure")
    screen.table(["figure", "of", "Slurm", "hpcmgr", ""], [_row(figure) for figure in figures])
    wrong = sum(1 for figure in figures if not figure.agrees)
    screen.text(f"{len(figures)} figures, {wrong} differ")
    return not wrong


def _row(figure: Figure) -> list[str]:
    words = [figure.what, figure.of, str(figure.slurm), str(figure.hpcmgr)]
    return [*words, "" if figure.agrees else "DIFFERS"]


def terminal_picture(site: ReferenceSite, path: Path) -> None:
    """The view as a terminal shows it; the SVG loads nothing from elsewhere."""
    from rich.console import Console

    from hpcmgr.cli.capacity import heading
    from hpcmgr.cli.capacity_tables import drawn, sections

    data = told(site)
    camera = Console(
        file=io.StringIO(), record=True, width=_WIDTH, force_terminal=True,
        color_system="truecolor", highlight=False, emoji=False,
    )  # fmt: skip
    camera.print(drawn(sections(data, "type"), "\n".join(heading(data)), _WIDTH))
    svg = camera.export_svg(title="hpcmgr capacity", unique_id="capacity")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg.replace("Fira Code,", "") + "\n")


def page_picture(site: ReferenceSite, path: Path) -> None:
    """The page as a browser shows it."""
    html = site.run(["hpcmgr", "capacity", "--html", "-"], user="alice", check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html)
        size = f"--window-size=1180,{_height(file, folder)}"
        _browse([size, f"--screenshot={path.absolute()}", file.as_uri()], folder)


def _height(file: Path, folder: str) -> int:
    """Pixels that the whole page takes."""
    probe = Path(folder) / "probe.html"
    ask = "<script>document.title = document.documentElement.scrollHeight</script></body>"
    probe.write_text(file.read_text().replace("</body>", ask))
    dom = _browse(["--window-size=1180,400", "--dump-dom", probe.as_uri()], folder)
    found = re.search(r"<title>(\d+)", dom)
    return int(found[1]) if found else 1400


def _browse(argv: Sequence[str], folder: str) -> str:
    try:
        done = subprocess.run(
            [*CHROMIUM, f"--user-data-dir={folder}/profile", *argv],
            capture_output=True, text=True, timeout=120, check=True,
            env={**os.environ, "HOME": folder},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise LightClusterError(f"the page's picture needs chromium: {error}") from error
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
