"""Submissions while the service fails: ``python -m tests.soak_submissions --seed 1``.

On a real cluster, in rounds of at most 1,000: batches of sbatch while the service is stopped,
hangs, lies, is killed in mid-batch, cannot write its journal, or slurmctld reconfigures. Then the
service is left alone, and all of a round must be there: no submission lost, no request in neutral
units unbound, none with units and no device; some are started, and must open a device.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lightcluster.site import SOCKET, STATE_DIR, ReferenceSite

MACHINES = {"mix01": "mixed", "npu01": "npu8", "t401": "t4x4", "t402": "t4x4"}
BATCH, ROUND = 25, 1000
STARTED = 10
"""Of a hundred."""
SETTLE_SECONDS = 240
LIES = ("garbage", "half", "version", "outside", "wrongtype", "closed", "huge", "hang", "trickle")
FAULTS = ("none", "stopped", "killed", "restarted", "disk full", "reconfigured", *LIES)
NEUTRAL = (
    "--gres=compute:8", "--gres=compute:npu:8", "--gres=compute:t4:2", "--gres=compute:infer:16",
    "--gres=compute:2,vram:16G", "--gres=compute:t4:4 -N2", "--gres=compute:npu:8 --array=0-3",
    "--gres=compute:8 -n1 -c4", "--gres=compute:cuda:2 --exclusive",
)  # fmt: skip
HOPELESS = "--gres=compute:80000"
OTHERS = ("--gres=npu:ascend910b3:1", "--gres=gpu:t4:2", "-n1", HOPELESS)
"""Direct requests, one without accelerators, and one that nothing can ever serve."""


@dataclass
class Tally:
    """What came out of all rounds; the last five must stay 0."""

    submitted: int = 0
    held: int = 0
    refused: int = 0
    started: int = 0
    lost: int = 0
    unbound: int = 0
    without_device: int = 0
    ran_without: int = 0
    stuck: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        """Submissions that went wrong."""
        return self.lost + self.unbound + self.without_device + self.ran_without + self.stuck

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return (
            f"{self.submitted} submissions ({self.held} held at first, {self.refused} refused "
            f"as they must be), {self.started} started; lost {self.lost}, unbound at the end "
            f"{self.unbound}, units without a device {self.without_device}, run without a device "
            f"{self.ran_without}, never run {self.stuck}\nbatches by fault: {faults}"
        )


def soak(site: ReferenceSite, seed: int, submissions: int) -> Tally:
    """All rounds on a running site, whose service is running at the end."""
    dice, tally = random.Random(seed), Tally()
    order: list[str] = []
    site.run(["install", "-d", "-m", "1777", "/shared/out"], check=True)
    while tally.submitted < submissions:
        jobs: dict[str, str] = {}
        many = min(ROUND, submissions - tally.submitted)
        for _ in range(-(-many // BATCH)):
            order = order or dice.sample(FAULTS, len(FAULTS))
            fault = order.pop()
            tally.faults[fault] += 1
            with failing(site, fault) as midway:
                jobs |= submit(site, midway, dice, tally)
        check(site, jobs, tally)
        start_some(site, [j for j, asked in jobs.items() if asked in NEUTRAL], dice, tally)
        site.run(["scancel", "-u", "alice"], check=True)
    return tally


@contextmanager
def failing(site: ReferenceSite, fault: str) -> Iterator[str]:
    """One fault, from before a batch on, or by the command that it yields from its middle on;
    afterwards the service is well."""
    if fault in LIES:
        site.stop_service()
        script = "/opt/hpcmgr/tests/slurm/fake_service.py"
        fake = site.spawn(["python3", script, SOCKET, fault], user="slurm", log="fake.log")
        site.wait_until(lambda: "listening" in fake.log, 10, "the fake service")
        yield "true"
        fake.stop()
        site.run(["rm", "-f", SOCKET])
    elif fault == "stopped":
        site.stop_service()
        yield "true"
    elif fault == "killed":
        yield "pkill -9 -f 'hpcmgr serv[e]'"
        site.stop_service()
    elif fault == "restarted":
        site.stop_service()
        site.start_service()
        yield "true"
    elif fault == "disk full":
        site.stop_service()
        small = f"mount -t tmpfs -o size=16k,mode=777 none {STATE_DIR}"
        site.run(["sh", "-c", f"{small}; dd if=/dev/zero of={STATE_DIR}/full bs=1k 2>/dev/null"])
        site.run(["sh", "-c", f"rm -f {STATE_DIR}/full; head -c 12k /dev/zero >{STATE_DIR}/full"])
        site.start_service()
        yield "true"
        site.stop_service()
        site.run(["umount", STATE_DIR], check=True)
    elif fault == "reconfigured":
        yield "scontrol reconfigure"
    else:
        yield "true"
    if site.service is None or not site.service.alive:
        site.start_service()


def submit(site: ReferenceSite, midway: str, dice: random.Random, tally: Tally) -> dict[str, str]:
    """One batch, to begin tomorrow; returns what was asked, by job id. ``midway`` runs beside its
    second half, and has ended when this returns."""
    asked = [dice.choice(NEUTRAL if dice.randrange(4) else OTHERS) for _ in range(BATCH)]
    body = "#!/bin/sh\\necho devices $HPCMGR_DEVICES\\n"
    common = "--parsable -b now+1days -t1 -o /shared/out/%A_%a"
    site.run(["sh", "-c", f"printf '{body}' >/tmp/soak.sh"], check=True)
    lines: list[str] = []
    for half in (asked[: BATCH // 2], asked[BATCH // 2 :]):
        script = "".join(
            f"sbatch {common} {each} /tmp/soak.sh 2>&1 | tr '\\n' '~'; echo\n" for each in half
        )
        beside = site.controller.popen(["sh", "-c", midway if lines else "true"])
        lines += site.run(["sh", "-c", script], user="alice", check=True).stdout.splitlines()
        beside.communicate()
    tally.submitted += BATCH
    jobs = {}
    for each, line in zip(asked, lines, strict=True):
        # What Slurm says to the user comes on lines of its own, before or behind the number.
        number = next((part for part in line.split("~") if part.isdigit()), None)
        tally.held += "queued and held" in line
        if number:
            jobs[number] = each
        elif each == HOPELESS:
            tally.refused += 1
        else:
            tally.lost += 1
            tally.told.append(f"{each}: {line}")
    return jobs


def check(site: ReferenceSite, jobs: dict[str, str], tally: Tally) -> None:
    """Everything is there and bound, after some time."""

    def unbound() -> list[str]:
        """What nothing can serve stays held, refused."""
        return [n for n, t in queue(site).items() if "unbound" in t and jobs.get(n) != HOPELESS]

    until = time.monotonic() + SETTLE_SECONDS
    while unbound() and time.monotonic() < until:
        time.sleep(1)
    seen = queue(site)
    for number, asked in jobs.items():
        tres = seen.get(number)
        if tres is None:
            # A request that nothing serves may have been held first; it stays, refused.
            tally.lost += 1
            tally.told.append(f"job {number} ({asked}) is gone")
        elif asked == HOPELESS:
            tally.refused += 1
        elif "unbound" in tres:
            tally.unbound += 1
            tally.told.append(f"job {number} ({asked}) is unbound")
        elif "compute" in tres and not ("gpu:" in tres or "npu:" in tres):
            tally.without_device += 1
            tally.told.append(f"job {number} ({asked}) asks {tres}")


def queue(site: ReferenceSite) -> dict[str, str]:
    """GRES of every waiting job, by the number that sbatch told; one refused for good is none."""
    line = ["squeue", "-h", "-O", "ArrayJobID:20,tres-per-node:300,tres-per-socket:200"]
    return {
        words[0]: " ".join(words[1:])
        for text in site.run(line, check=True).stdout.splitlines()
        if (words := text.split())
    }


def start_some(site: ReferenceSite, jobs: list[str], dice: random.Random, tally: Tally) -> None:
    """Let some begin now; each must open a device."""
    chosen = dice.sample(jobs, len(jobs) * STARTED // 100)
    for number in chosen:
        site.run(["scontrol", "update", f"JobId={number}", "StartTime=now"], check=True)
    tally.started += len(chosen)

    until, left = time.monotonic() + SETTLE_SECONDS, set(chosen)
    while left and time.monotonic() < until:
        left &= set(site.run(["squeue", "-h", "-O", "ArrayJobID:20"]).stdout.split())
        time.sleep(0.5)
    for number in left:
        tally.stuck += 1
        tally.told.append(site.run(["scontrol", "-o", "show", "job", number]).stdout)
        chosen.remove(number)
    for number in chosen:
        shown = site.run(["sh", "-c", f"cat /shared/out/{number}_*"]).stdout
        if "devices /dev/" not in shown:
            tally.ran_without += 1
            tally.told.append(f"job {number} ran without a device: {shown!r}")


def main() -> None:
    """Run and tell; exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", default="26.05")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--submissions", type=int, default=10_000)
    options = parser.parse_args()
    started = time.monotonic()
    with ReferenceSite(options.release, MACHINES) as site:
        tally = soak(site, options.seed, options.submissions)
    for text in tally.told[:20]:
        print(text)
    print(
        f"Slurm {options.release}, seed {options.seed}, {time.monotonic() - started:.0f} s: {tally}"
    )
    sys.exit(bool(tally.wrong))


if __name__ == "__main__":
    main()
