"""Rules about the records of gres.conf by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hpcmgr.slurm.capability import has
from hpcmgr.slurm.tres import gres_id
from hpcmgr.verify.configuration import (
    ENV_FLAGS,
    NEUTRAL,
    SHARED,
    Configuration,
    GresRecord,
)
from hpcmgr.verify.finding import Finding, Place, error, warning

FLAGS = ENV_FLAGS | {"countonly", "one_sharing", "all_sharing", "explicit"}
_SAFE = re.compile(r"[a-z][a-z0-9_.-]*")


def first_key_is_node_or_name(c: Configuration) -> Iterator[Finding]:
    """A record begins with NodeName or Name, or slurmd refuses the file."""
    for entry in c.gres.entries:
        if not entry.pairs or entry.head in {"nodename", "name"}:
            continue
        if entry.head == "autodetect" and len(entry.pairs) == 1:
            continue
        yield error(
            "gres-first-key",
            entry.place,
            f"a gres.conf record begins with NodeName or Name, not with {entry.pairs[0].key}",
            "slurmd refuses the whole file.",
            "move NodeName= (or Name=) to the front of the line",
        )


def node_name_comes_first(c: Configuration) -> Iterator[Finding]:
    """Name before NodeName is a parse error."""
    for record in c.records:
        if record.entry.head == "name" and record.entry.get("nodename") is not None:
            yield error(
                "gres-first-key",
                record.place,
                "NodeName stands after Name",
                "slurmd refuses the whole file.",
                "move NodeName= to the front of the line",
            )


def no_key_twice(c: Configuration) -> Iterator[Finding]:
    """Of a key that is given twice in one record, only the last counts."""
    for record in c.records:
        keys = [pair.key.lower() for pair in record.entry.pairs]
        for key in sorted({k for k in keys if keys.count(k) > 1}):
            yield warning(
                "key-twice",
                record.place,
                f"{key} is given twice",
                "Slurm takes the last one and logs an error.",
                "keep one",
            )


def gpu_has_file(c: Configuration) -> Iterator[Finding]:
    """A gpu record without File is dropped without a word."""
    for record in c.records:
        if record.name == "gpu" and not record.has_file and not c.detecting(record):
            yield error(
                "gpu-without-file",
                record.place,
                "a gpu record without File=",
                "slurmd drops it silently; the node then has fewer GPUs than slurm.conf says "
                "and becomes invalid.",
                "add File=/dev/…, one device node for each GPU",
            )


def files_once_per_node(c: Configuration) -> Iterator[Finding]:
    """A device in two records of a node: slurmd does not start."""
    for shape in c.shapes:
        # Plugin by plugin: only files of the same name clash for Slurm, but one device under two
        # names would be handed out twice.
        seen: dict[str, GresRecord] = {}
        for record in shape.records:
            if record.name in SHARED:
                continue
            files = record.files or ()
            for file in files:
                first = seen.setdefault(file, record)
                if files.count(file) == 1 and (first is record or _slices_of_one(first, record)):
                    continue
                yield error(
                    "file-twice",
                    record.place,
                    f"{file} is already named at {first.place}"
                    if first is not record
                    else f"{file} is named twice",
                    "slurmd refuses to start, or the device is handed out twice.",
                    "name every device node once",
                )


def _slices_of_one(a: GresRecord, b: GresRecord) -> bool:
    """Slices share the device that they are of; each has a file of its own besides."""
    if not (a.multiple and b.multiple and a.files and b.files):
        return False
    return bool({*a.files} - {*b.files}) and bool({*b.files} - {*a.files})


def count_is_number_of_files(c: Configuration) -> Iterator[Finding]:
    """Count must be the number of files; MultipleFiles is one device of two files or more."""
    for record in c.records:
        text = record.entry.get("count")
        number = record.count
        if text is not None and number is None and not record.multiple:
            yield error(
                "count-form",
                record.place,
                f"Count={text} is no whole number",
                "slurmd refuses it or reads something else.",
                "write a whole number",
            )
        elif record.multiple:
            yield from _multiple_files(record, text)
        elif text is not None and record.files is not None and number != len(record.files):
            if record.name in SHARED:
                continue
            yield error(
                "count-files",
                record.place,
                f"Count={text}, but File names {len(record.files)}",
                "slurmd refuses records whose count is not the number of their files.",
                "leave Count out",
            )


def _multiple_files(record: GresRecord, count: str | None) -> Iterator[Finding]:
    if record.entry.get("file", "files") is not None:
        text, fix = "File and MultipleFiles stand in one record", "keep one of them"
    elif record.files is not None and len(record.files) < 2:
        text, fix = "MultipleFiles names one file only", "use File="
    elif count not in {None, "1"}:
        text, fix = f"MultipleFiles is one device, but Count={count}", "leave Count out"
    else:
        return
    yield error("multiple-files", record.place, text, "slurmd refuses the record.", fix)


def all_or_none(c: Configuration) -> Iterator[Finding]:
    """On one node, all records of a name have File, Type and Cores, or none has."""
    for shape in c.shapes:
        if c.detection(shape.names[0]):
            continue  # there a record may say of what is detected only what it needs
        for name in sorted({r.name for r in shape.records} - SHARED):
            records = [r for r in shape.records if r.name == name]
            yield from _mixed(shape.label, records, "File", [r.has_file for r in records])
            yield from _mixed(shape.label, records, "Type", [r.type is not None for r in records])
            yield from _mixed(shape.label, records, "Cores", [bool(r.cores) for r in records])


def _mixed(
    label: str, records: list[GresRecord], key: str, has_it: list[bool]
) -> Iterator[Finding]:
    if all(has_it) or not any(has_it):
        return
    record = records[has_it.index(False)]
    text = f"{label}: some records of {record.name} have {key}= and this one has not"
    if key == "Cores":
        yield warning(
            "mixed-cores",
            record.place,
            text,
            "Slurm logs an error and treats the device as near to all cores.",
            f"give Cores= to all records of {record.name} on a node, or to none",
        )
        return
    yield error(
        f"mixed-{key.lower()}",
        record.place,
        text,
        "slurmd refuses to start.",
        f"give {key}= to all records of {record.name} on a node, or to none",
    )


def flags_are_known(c: Configuration) -> Iterator[Finding]:
    """Slurm ignores flags it does not know, silently."""
    for record in c.records:
        for flag in record.flags:
            if flag.lower() not in FLAGS:
                yield warning(
                    "flag-unknown",
                    record.place,
                    f"Flags={flag} means nothing to Slurm",
                    "Unknown flags are ignored silently.",
                    f"use one of {', '.join(sorted(FLAGS))}",
                )
            elif flag.lower() == "env_uuid" and not has(c.release, "FLAG_ENV_UUID"):
                yield warning(
                    "flag-unknown",
                    record.place,
                    f"Flags=env_uuid is newer than Slurm {c.release}",
                    "It is ignored silently.",
                    "remove it",
                )


def env_flags_agree(c: Configuration) -> Iterator[Finding]:
    """Records of one name on one node must have the same environment flags."""
    for shape in c.shapes:
        first: dict[str, tuple[frozenset[str], Place]] = {}
        for record in shape.records:
            flags = frozenset(f.lower() for f in record.flags) & ENV_FLAGS
            if not flags:
                continue
            known, place = first.setdefault(record.name, (flags, record.place))
            if known != flags:
                yield error(
                    "env-flags",
                    record.place,
                    f"{shape.label}: Flags={','.join(sorted(flags))} of {record.name} differ from "
                    f"{','.join(sorted(known))} at {place}",
                    "slurmd refuses to start: the flags hold for all devices of a name on a node.",
                    "give the other brand a GRES name of its own",
                )


def count_only_where_it_belongs(c: Configuration) -> Iterator[Finding]:
    """Units are CountOnly; devices are not."""
    for record in c.records:
        count_only = "countonly" in {f.lower() for f in record.flags}
        if count_only and record.has_file:
            yield error(
                "count-only-file",
                record.place,
                f"Flags=CountOnly together with File= on {record.name}",
                "CountOnly makes Slurm treat the devices as a mere number in the whole cluster.",
                "remove one of the two",
            )
        elif record.name in NEUTRAL and not count_only:
            yield warning(
                "count-only",
                record.place,
                f"{record.name} has no Flags=CountOnly",
                "slurmd then looks for a plugin of that name on every node.",
                "add Flags=CountOnly",
            )


def names_are_safe(c: Configuration) -> Iterator[Finding]:
    """Lower case, no hyphen where sacctmgr cannot read it, never a number as type."""
    names = _names(c)
    for word, place in {**_types(c), **names}.items():
        yield from _unsafe(c, word, place, is_name=word in names)


def _unsafe(c: Configuration, word: str, place: Place, *, is_name: bool) -> Iterator[Finding]:
    if word.isdecimal():
        yield warning(
            "name-unsafe",
            place,
            f"{word} stands where a type belongs",
            "It is no count there: Slurm makes a type of that name. Jobs that ask for "
            f"gpu:{word} then ask for {word} devices of any type.",
            f"if a count is meant, write name:{word} in Gres= and Count or File in gres.conf; if "
            f"a type, write t{word}",
        )
    elif word != word.lower():
        make = error if is_name and not has(c.release, "UPPER_CASE_GRES") else warning
        yield make(
            "name-unsafe",
            place,
            f"{word} has capital letters",
            "Before 25.05 such a name registers wrongly."
            if is_name
            else "Slurm takes it as it is "
            "written: sbatch, sacctmgr and both files must spell it alike.",
            f"write {word.lower()}",
        )
    elif not _SAFE.fullmatch(word) or "gres" in word:
        yield warning(
            "name-unsafe",
            place,
            f"{word} is no safe GRES name or type",
            "Slurm's own parsers take names apart at such places.",
            "use small letters, digits, _ and . and begin with a letter",
        )
    elif "-" in word and not has(c.release, "HYPHEN_IN_TRES"):
        yield warning(
            "name-unsafe",
            place,
            f"{word} has a hyphen",
            f"sacctmgr of Slurm {c.release} cannot read limits on it.",
            f"write {word.replace('-', '_')}",
        )


def hashes_differ(c: Configuration) -> Iterator[Finding]:
    """Slurm knows names and types by a weak hash; two of equal hash are one to it."""
    for kind, words in (("name", _names(c)), ("type", _types(c))):
        seen: dict[int, str] = {}
        for word, place in words.items():
            other = seen.setdefault(gres_id(word), word)
            if other != word:
                yield error(
                    "hash-collision",
                    place,
                    f"Slurm cannot tell {kind} {word} from {other}",
                    "Both have the same hash, and Slurm compares hashes.",
                    f"rename one of them, for example {word}_",
                )


def _names(c: Configuration) -> dict[str, Place]:
    words = {r.name: r.place for r in reversed(c.records)}
    for shape in c.shapes:
        for item in shape.node.gres:
            words.setdefault(item.name, shape.node.place)
    return words


def _types(c: Configuration) -> dict[str, Place]:
    words = {r.type: r.place for r in reversed(c.records) if r.type}
    for shape in c.shapes:
        for item in shape.node.gres:
            if item.type:
                words.setdefault(item.type, shape.node.place)
    return words


def records_have_a_name(c: Configuration) -> Iterator[Finding]:
    """A line without Name configures nothing; often a # inside a node name cut it short."""
    for entry in c.gres.entries:
        if entry.get("name", "autodetect") is None:
            yield warning(
                "gres-no-name",
                entry.place,
                "a record without Name=",
                "Slurm logs an error and ignores the line. A # begins a comment, also inside a "
                "word.",
                "add Name=, or remove the line",
            )


def device_nodes_exist(c: Configuration) -> Iterator[Finding]:
    """Every device node is on the machine (as far as dev.txt tells)."""
    if c.devices is None:
        return
    for record in c.records:
        for file in dict.fromkeys(record.files or ()):
            if file not in c.devices:
                yield error(
                    "file-missing",
                    record.place,
                    f"{file} is not on the machine",
                    "slurmd waits 20 seconds for it, then refuses to start.",
                    "load the driver first, or take the device out of gres.conf and Gres=",
                )


def files_are_absolute(c: Configuration) -> Iterator[Finding]:
    """A device node is an absolute path."""
    for record in c.records:
        for file in record.files or ():
            if not Path(file).is_absolute() or "\0" in file:
                yield error(
                    "file-list",
                    record.place,
                    f"File={file[:60]} is no absolute path",
                    "slurmd looks for device nodes by their full path.",
                    "write /dev/…",
                )
                break


def nodes_are_known(c: Configuration) -> Iterator[Finding]:
    """gres.conf for a node that slurm.conf does not have does nothing."""
    if not c.nodes:
        return
    for record in c.records:
        unknown = [name for name in record.nodes or () if name not in c.nodes]
        if unknown:
            yield warning(
                "gres-unknown-node",
                record.place,
                f"slurm.conf has no node {unknown[0]}"
                + (f" (and {len(unknown) - 1} more of this record)" if len(unknown) > 1 else ""),
                "The record does nothing there; often the name is misspelt.",
                "correct NodeName=, or define the node in slurm.conf",
            )


RULES = (
    first_key_is_node_or_name,
    records_have_a_name,
    node_name_comes_first,
    no_key_twice,
    gpu_has_file,
    files_once_per_node,
    count_is_number_of_files,
    all_or_none,
    flags_are_known,
    env_flags_agree,
    count_only_where_it_belongs,
    names_are_safe,
    hashes_differ,
    device_nodes_exist,
    files_are_absolute,
    nodes_are_known,
)
