"""python3 read_state.py READER: the cluster's state as that reader tells it, as JSON."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pydantic import TypeAdapter

from hpcmgr.slurm.backend import open_reader
from hpcmgr.slurm.state import ClusterState

state = open_reader(sys.argv[1], Path("/etc/slurm"))(time.monotonic())  # type: ignore[arg-type]
sys.stdout.buffer.write(TypeAdapter(ClusterState).dump_json(state))
