"""Every request form on a real Slurm: what hpcmgr makes of it, beside what plain Slurm does.

``python -m tests.request_table [--release 26.05]`` prints the table as Markdown; it needs what the
light cluster needs, and for the real scripts the corpus (``HPCMGR_CORPUS``, else
``../shared/data``).

``forms.py`` has the requests, ``outcome.py`` submits one and compares two outcomes.
"""
