"""Writing a recording: a folder or a .tar.gz, whole or not at all, never over anything."""

from __future__ import annotations

import io
import stat
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hpcmgr.discovery.recorded_files import Entry, Link
from hpcmgr.errors import HostError


def check_place(place: Path) -> None:
    """Whether a recording may be written to ``place``.

    Raises:
        HostError: something is there already, or the folder around it is missing.
    """
    if not place.absolute().parent.is_dir():
        raise HostError(f"{place}: there is no folder {place.absolute().parent}")
    if place.is_dir() and not is_archive(place):
        if any(place.iterdir()):
            raise HostError(f"{place}: is not empty", "name a new folder or a .tar.gz file")
    elif place.is_symlink() or place.exists():
        raise HostError(f"{place}: exists already", "name another place, or remove it first")


def is_archive(place: Path) -> bool:
    """Whether ``place`` is meant as an archive."""
    return place.name.endswith((".tar.gz", ".tgz"))


def write(entries: Mapping[str, Entry], place: Path, top: str) -> None:
    """Write ``entries`` beside ``place`` and give them its name at the end.

    Readable by the caller alone: a kernel's log and serial numbers are not for everybody. ``top``
    is the folder in an archive.

    Raises:
        HostError: ``place`` is taken, or it cannot be written; nothing is left behind.
    """
    check_place(place)
    try:
        with tempfile.TemporaryDirectory(dir=place.absolute().parent, prefix=".record-") as folder:
            draft = Path(folder) / "recording"
            if is_archive(place):
                _write_archive(entries, draft, top)
            else:
                _write_folder(entries, draft)
                if place.is_dir():
                    draft.chmod(stat.S_IMODE(place.stat().st_mode))
            check_place(place)
            draft.rename(place)
    except OSError as error:
        raise HostError(f"{place}: cannot be written: {error.strerror or error}") from error


def _write_folder(entries: Mapping[str, Entry], draft: Path) -> None:
    draft.mkdir(mode=0o700)
    for name, entry in entries.items():
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(entry, Link):
            path.symlink_to(entry.target)
        elif entry is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(entry)


def _write_archive(entries: Mapping[str, Entry], draft: Path, top: str) -> None:
    draft.touch(mode=0o600)
    with tarfile.open(draft, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, entry in entries.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.mode = 0o755 if entry is None else 0o644
            if isinstance(entry, Link):
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
                archive.addfile(info)
            elif entry is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry)
                archive.addfile(info, io.BytesIO(entry))
