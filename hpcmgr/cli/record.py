"""``hpcmgr record``: this machine as a recording that others can read."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.discovery.recorder import Recording

_SHOWN = 8


@click.command(epilog="Exit code 4: a file could not be read, or a tool gave no answer in time.")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="New folder, or file ending in .tar.gz. Default: hpcmgr-HOSTNAME.tar.gz here.",
)
@click.option(
    "--anonymize",
    is_flag=True,
    help="Mask serial numbers, uuids, MAC addresses, GUIDs and host names.",
)
@click.option(
    "--host", "place", type=click.Path(path_type=Path), hidden=True, help="Record a recording."
)
@click.pass_obj
def command(config: Path | None, out: Path | None, anonymize: bool, place: Path | None) -> int:
    """Record this machine for --host of the other commands.

    Holds the answers of the vendors' tools and those files of /sys and /proc that discovery reads.
    Run as root it has the kernel's log, too.
    """
    from datetime import UTC, datetime

    from hpcmgr.discovery import open_host
    from hpcmgr.discovery.anonymize import anonymized
    from hpcmgr.discovery.recorder import differences, files, record
    from hpcmgr.discovery.recording_writer import check_place, write
    from hpcmgr.profile.site import library_of
    from hpcmgr.settings import load_site

    if out is not None:
        check_place(out)
    library = library_of(load_site(config))
    with _stoppable():
        recording = record(open_host(place), library, datetime.now(UTC).date())
        hostname = recording.hostname
        wrong = differences(recording, library)
        if anonymize:
            recording = anonymized(recording, library)
        entries = files(recording)
        top = f"hpcmgr-{recording.hostname}"
        out = out or Path(f"{top}.tar.gz")
        write(entries, out, top)
    click.echo(str(out))
    _tell(recording, len(entries))
    if anonymize:
        _tell_names(recording, hostname)
    if wrong:
        _warn(f"the recording does not tell all that was found here: {', '.join(wrong)}")
    return 4 if wrong or recording.unread or recording.hung else 0


@contextmanager
def _stoppable() -> Iterator[None]:
    """A stop from outside ends like Ctrl-C, so that nothing half is left."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell_names(recording: Recording, hostname: str) -> None:
    word = re.compile(rf"(?<![\w-]){re.escape(hostname)}(?![\w-])")
    left = [argv for argv, result in recording.commands.items() if word.search(result.stdout)]
    if left:
        tools = ", ".join(" ".join(argv) for argv in left)
        _warn(f"{hostname!r} is a word of the tools, too, and still stands in: {tools}")
    click.echo("hpcmgr: look through commands/ before you pass it on", err=True)


def _tell(recording: Recording, count: int) -> None:
    answered = len(recording.commands) - len(recording.hung)
    click.echo(f"hpcmgr: recorded {count} files, {answered} answers of tools", err=True)
    for argv in recording.hung:
        _warn(f"{' '.join(argv)}: no answer in time")
    for argv, said in recording.failed.items():
        click.echo(f"hpcmgr: note: {' '.join(argv)}: {said}", err=True)
    if recording.unread:
        more = len(recording.unread) - _SHOWN
        shown = ", ".join(recording.unread[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        _warn(f"not readable for this user (root can): {shown}")


def _warn(text: str) -> None:
    click.echo(f"hpcmgr: warning: {text}", err=True)
