"""What became of a submission, and whether hpcmgr and plain Slurm differ on purpose."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from string import Formatter

from hpcmgr.submit.messages import TEXTS
from lightcluster.errors import WaitError
from lightcluster.site import ReferenceSite
from tests.request_table.forms import Form

_FIELDS = ("TresPerJob", "TresPerNode", "TresPerTask", "TresPerSocket", "CpusPerTres", "MemPerTres")
_SETTLE_S = 5
_TELLING = 12  # characters beside the holes of a text
# Resources: the job before may still be ending.
_MOVING = {"None", "Priority", "Resources"}
# Texts that stand within others, and notes, which are no refusals.
_NO_REFUSALS = {
    "each_task", "each_socket", "each_node", "fitting", "left_out", "bound", "direct_units",
    "uncounted", "untyped", "totals_unbilled", "no_count", "more_units", "not_near",
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """``became`` and ``state`` are those of each component, joined by `` : ``."""

    code: int
    said: str
    became: str = ""
    state: str = ""


def submit(site: ReferenceSite, form: Form) -> Outcome:
    """sbatch it as alice, look what it became and whether it starts, cancel it."""
    argv = ["sbatch", "--parsable", "-o", "/dev/null", "-e", "/dev/null"]
    done = site.run(argv, user="alice", input=form.script, cwd="/tmp")
    said = _joined(done.stderr)
    if done.returncode:
        return Outcome(done.returncode, said)
    job_id = done.stdout.strip().split(";")[0]
    with contextlib.suppress(WaitError):  # the state tells
        site.wait_until(lambda: _settled(_jobs(site, job_id)), _SETTLE_S, "the job to settle")
    jobs = _jobs(site, job_id)
    site.run(["scancel", job_id])
    return Outcome(
        0, said, " : ".join(map(_became, jobs)), " : ".join(dict.fromkeys(map(_state, jobs)))
    )


def _joined(stderr: str) -> str:
    """sbatch's words without its name; a text that Slurm broke over lines is one again."""
    lines = (re.sub(r"^sbatch: (error: )?", "", line) for line in stderr.splitlines())
    return re.sub(r"\s*\n\s*", " ", "\n".join(lines)).strip()


def _jobs(site: ReferenceSite, job_id: str) -> list[dict[str, str]]:
    text = site.run(["scontrol", "show", "job", job_id]).stdout
    blocks = re.split(r"\n\s*\n", text.strip())
    return [dict(re.findall(r"(\S+?)=(\S*)", block)) for block in blocks if "JobId=" in block]


def _settled(jobs: list[dict[str, str]]) -> bool:
    return all(j["JobState"] != "PENDING" or j["Reason"] not in _MOVING for j in jobs)


def _became(job: dict[str, str]) -> str:
    parts = [f"{name}={job[name]}" for name in _FIELDS if name in job]
    if job.get("GresEnforceBind") == "Yes":
        parts.append("enforce-binding")
    return " ".join(parts)


def _state(job: dict[str, str]) -> str:
    state = job["JobState"]
    return state if state != "PENDING" else f"PENDING ({job['Reason']})"


def reason(said: str) -> str | None:
    """Which text of hpcmgr's catalogue a refusal is; None for words that are not hpcmgr's."""
    found = [name for name, text in TEXTS.items() if name not in _NO_REFUSALS and _is(text, said)]
    return min(found, key=lambda name: -len(TEXTS[name])) if found else None


def _is(text: str, said: str) -> bool:
    pieces = [re.escape(piece) for piece, *_ in Formatter().parse(text)]
    return len("".join(pieces)) > _TELLING and re.search(".*?".join(pieces), said) is not None


def verdict(form: Form, ours: Outcome, plain: Outcome) -> tuple[bool, str]:
    """Whether it is as it should be, and how the two compare."""
    why = reason(ours.said)
    if ours.code:
        if plain.code:
            return True, "refused by both"
        return why is not None, f"refused here on purpose ({why})" if why else "REFUSED here"
    if form.neutral:
        good = ours.state.startswith("RUNNING")
        return good, "runs, units made devices" if good else "WAITS"
    if plain.code:
        return False, "ACCEPTED here only"
    running = ours.state == "RUNNING"
    if running != (plain.state == "RUNNING"):
        return False, f"DIFFERS: plain Slurm {plain.state}"
    end = "runs" if running else "waits"
    if ours.became == plain.became:
        return True, f"as plain, {end}"
    if "gres/compute" in ours.became:
        return True, f"{end} as plain, units added"
    return True, f"{end} as plain, asked in another way"
