"""As the service does: read the queue and decide, let something happen, then move.

python3 race.py COMMAND: the shell command is what happens in between; prints {job: why not}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from hpcmgr.service.knowledge import known_of, policy_of
from hpcmgr.service.mover import move_job
from hpcmgr.service.rebinder import plan_cycle
from hpcmgr.settings import load_site
from hpcmgr.slurm.queue import read_queue
from hpcmgr.slurm.reader import read_cluster
from hpcmgr.submit.habit import Habit
from hpcmgr.submit.view import make_view


def main() -> None:
    """A traceback is a failed test."""
    site = load_site()
    policy = policy_of(site)
    known = known_of(site, policy.library)
    view = make_view(read_cluster(time.monotonic()), policy.library, known)
    now = time.time()
    cycle = plan_cycle(read_queue(), policy, view, Habit(), now)
    subprocess.run(["sh", "-c", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
    said = {}
    for verdict in cycle.verdicts:
        if verdict.to is not None and verdict.to.candidate is not None:
            bound = cycle.queue.bound[verdict.job.job_id]
            said[bound.job.spec] = move_job(bound, verdict.to.candidate, policy, view, now)
    sys.stdout.write(json.dumps(said))


main()
