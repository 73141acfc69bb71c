"""``python docker-cluster/cluster.py``: the reference cluster in containers, from a terminal."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This file shares its name with none of the packages: what it needs lies here and in the checkout.
sys.path[:0] = [str(HERE), str(HERE.parent)]

from dockercluster.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
