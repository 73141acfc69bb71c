"""All contact with Slurm: its words, its programs, its releases."""
