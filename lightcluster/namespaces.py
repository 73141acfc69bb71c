"""The caller's end of the supervisor: it holds the pipe whose end is the sign to clean up."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lightcluster.enter import Host
from lightcluster.errors import StartError
from lightcluster.layout import Layout

_END_LIMIT_S = 60
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from lightcluster.supervisor import main; main()"
)


class Namespaces:
    """A running supervisor and the hosts it made."""

    def __init__(self, layout: Layout) -> None:
        self.hosts: dict[str, Host] = {}
        with tempfile.TemporaryFile("w+") as errors:
            # -S: it needs the standard library only, and starts faster without site-packages.
            # Its own session: Ctrl-C is for the caller, who then closes the pipe.
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-B", "-c", _PROGRAM, str(Path(__file__).parents[1])],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
            try:
                answer = self._ask(layout.to_json())
            except BaseException:
                self.close()
                raise
            errors.seek(0)
            problem = {"error": errors.read().strip()}
        report: dict[str, Any] = json.loads(answer) if answer else problem
        if "error" in report:
            self.close()
            raise StartError(f"the namespaces could not be made: {report['error']}")
        for member in layout.members:
            self.hosts[member.name] = Host(
                member.name, report["members"][member.name], member.hwloc
            )

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    @property
    def alive(self) -> bool:
        """Whether the supervisor runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End everything and wait until it is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_END_LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
