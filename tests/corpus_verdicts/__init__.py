"""Every real file of the corpus: what hpcmgr's rules say, beside what real Slurm says.

``python -m tests.corpus_verdicts [--release 24.11] [--only gres/012]`` prints the table as
Markdown; it needs what the light cluster needs, and the corpus (``HPCMGR_CORPUS``, else
``../shared/data``).

``frames.py`` puts a file into a small site in which it can run, ``inside.py`` runs in the cluster's
controller, ``judge.py`` compares.
"""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def corpus() -> Path:
    """Where the corpus' Slurm files lie (they may not be there)."""
    place = os.environ.get("HPCMGR_CORPUS") or CHECKOUT.parent / "shared" / "data"
    return Path(place) / "slurm"
