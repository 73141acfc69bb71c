"""The command line: a thin skin. One command a file; a command's file is imported when it is used,
so that ``hpcmgr --help`` stays fast."""

from __future__ import annotations

from hpcmgr.cli.root import run

__all__ = ["run"]
