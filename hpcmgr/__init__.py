"""hpcmgr: one pool from accelerators of several brands, on stock Slurm."""

__version__ = "0.1.0"
