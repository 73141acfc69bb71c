"""Proving Slurm's files: rules, then Slurm's own daemons."""
