"""``python -m tests.request_table``: the table of all request forms, as Markdown."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lightcluster.site import ReferenceSite
from tests.corpus_verdicts import corpus
from tests.request_table.forms import Form, own, read_real, site_words
from tests.request_table.outcome import Outcome, submit, verdict

RELEASES = ("24.11", "26.05")
MACHINES = {
    "mix01": "mixed", "npu01": "npu8", "t401": "t4x4", "t402": "t4x4", "sxm01": "a100x8",
    "sxm02": "a100x8",
}  # fmt: skip
_WIDE = 100


@dataclass(frozen=True)
class Row:
    """A form with both outcomes."""

    form: Form
    ours: Outcome
    plain: Outcome

    @property
    def verdict(self) -> tuple[bool, str]:
        return verdict(self.form, self.ours, self.plain)


def look(release: str, forms: list[Form], totals: str) -> list[Row]:
    """Submit all, with hpcmgr and then to the same site without its plugins."""
    partitions, features = site_words(forms)
    nodes = {"nodes": ",".join(MACHINES), "features": features, "memory_mib": 8000}
    keys = {"nodes": [nodes], "direct_totals": totals}
    with ReferenceSite(release, MACHINES, site=keys) as site:
        path = site.controller.root / "etc/slurm/slurm.conf"
        lines = [f"PartitionName={name} Nodes=ALL" for name in partitions]
        conf = "\n".join([path.read_text(), "Licenses=SCRATCH:1", *lines, ""])
        _restart(site, conf)
        site.stop_service()
        site.start_service()
        site.close_breaker()
        ours = [_told(site, form) for form in forms]
        site.stop_service()
        _restart(site, re.sub(r"(?m)^(JobSubmit|CliFilter)Plugins=.*$", "", conf))
        plain = [_told(site, form) for form in forms]
    return [Row(*each) for each in zip(forms, ours, plain, strict=True)]


def _restart(site: ReferenceSite, conf: str) -> None:
    site.write_conf({"slurm.conf": conf})
    site.restart_slurm()


def _told(site: ReferenceSite, form: Form) -> Outcome:
    outcome = submit(site, form)
    sys.stderr.write(f"{site.release} {form.name}: {outcome}\n")
    return outcome


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Markdown."""
    yield "| request | exit | became | message | state | plain Slurm | verdict |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        good, text = row.verdict
        plain = row.plain.state or row.plain.said
        cells = [row.form.name, str(row.ours.code), row.ours.became, row.ours.said, row.ours.state,
                 plain, text if good else f"**{text}**"]  # fmt: skip
        yield "| " + " | ".join(map(_cell, cells)) + " |"


def summary(release: str, title: str, rows: list[Row]) -> Iterator[str]:
    """How many of each verdict."""
    counts = Counter(row.verdict[1] for row in rows)
    yield f"Slurm {release}, {title}: {len(rows)} requests"
    for text, count in counts.most_common():
        yield f"- {count} {text}"


def _cell(text: str) -> str:
    short = text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"
    return short.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Print tables and summaries; 1 where a difference is not on purpose."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", choices=RELEASES, action="append")
    parser.add_argument("--only", default="", help="forms whose name has this text")
    parser.add_argument("--totals", default="per_node", help="the site's direct_totals")
    options = parser.parse_args()
    scripts = read_real(corpus())
    if not scripts:
        sys.stderr.write(f"no real scripts in {corpus()}: set HPCMGR_CORPUS\n")
    forms = [form for form in (*scripts, *own()) if options.only in form.name]
    good = True
    for release in options.release or RELEASES:
        rows = look(release, forms, options.totals)
        sys.stdout.write("\n".join(["", f"## Slurm {release}", "", *table(rows), "", ""]))
        for title, some in (
            ("scripts of real users", [r for r in rows if r.form in scripts]),
            ("own forms", [r for r in rows if r.form not in scripts]),
        ):
            if some:
                sys.stdout.write("\n".join([*summary(release, title, some), "", ""]))
        good = good and all(row.verdict[0] for row in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
