"""What Slurm's daemons say, turned into findings: three tables and a little code.

Exit codes prove nothing (slurmd -G ends with 0 on a device it will later refuse), so every line
with an error, a warning or a fatal is read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hpcmgr.verify.configuration import Configuration
from hpcmgr.verify.finding import Finding, Place, Severity, error
from hpcmgr.verify.proof_files import ProofCopy

_LEVEL = re.compile(r"\b(fatal|error|warning): (.*)")

HARMLESS = (
    # (pattern, why it says nothing about the configuration)
    (r"xcpuinfo_hwloc_topo_load: failed", "there is no cache of the machine at a first start"),
    (r"Could not open .* state file|NOTE: Trying backup state|No .* state file", "a first start"),
    (r"Domain socket directory .*: No such file", "slurmd makes it later"),
    (r"Unable to register: Unable to contact slurm controller", "slurmd tries again"),
    (r"mpi/pmix|pmix|libpmix", "the proof runs no MPI job"),
    (r"Configured MailProg is invalid", "the proof sends no mail"),
    (r"default partition not set", "a choice of the site"),
    (r"agent_fini|_agent_retry|agent threads", "the daemons are being ended"),
    (
        r"slurm_receive_msgs?|_conn_readable|slurm_msg_sendto|Zero Bytes were transmitted",
        "the daemons are being ended",
    ),
    (r"[Nn]odes? .* not responding", "only one node of each kind is started"),
    (r"_slurm_rpc_node_registration node=.*: Invalid argument", "its reason is told by itself"),
    (r"Setting node \S+ state to INVAL", "its reason is told by the node's state"),
    (r"cgroup|cpuset", "the proof uses no control groups"),
    (r"oom|Cannot set|setpriority|core limit|rlimit", "a matter of the proving machine"),
    (r"High latency|gettimeofday|[Cc]lock", "a busy or slow machine"),
    (r"gpu/generic|GPU frequency|CPU frequency", "no vendor library is needed here"),
    (r"Job accounting information|accounting_storage", "the proof has no accounting"),
)

CONSEQUENCES = re.compile(
    r"Unable to process configuration file|error opening/reading|slurmd initialization failed"
    r"|failed to load configuration|Invalid argument$|xcpuinfo_abs_to_mac"
    r"|[Ff]ailed to initialize"
)
"""Lines that only say that an earlier line was meant; told where there was none."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One known line: who else says it, why it matters, what to do.

    ``rules`` that already found the same make the line superfluous. Named groups of the pattern
    (``file``, ``key``, ``node``, ``cores``, ``gres``) tell where the fault is.
    """

    pattern: re.Pattern[str]
    rules: frozenset[str]
    severity: Severity
    why: str
    fix: str


def _means(
    pattern: str, rules: str, why: str, fix: str, severity: Severity = Severity.ERROR
) -> Meaning:
    return Meaning(re.compile(pattern), frozenset(rules.split()), severity, why, fix)


_INVALID = "The node registers as invalid (INVAL) and takes no new jobs."
_REFUSED = "The daemon refuses to start."

MEANINGS = (
    _means(
        r"nrecognized key: (?P<key>\S+)",
        "gres-first-key",
        _REFUSED,
        "correct the spelling, or remove the key",
    ),
    _means(
        r"duplicate device file name \((?P<file>.*)\)",
        "file-twice",
        "slurmd refuses to start.",
        "name every device node once",
    ),
    _means(
        r"Invalid GRES configured on node (?P<node>[^\s:]+)"
        r"|Ignoring gres.conf record, invalid name",
        "gres-types",
        "Slurm drops the GRES.",
        "add its name to GresTypes",
    ),
    _means(
        r"gres/(?P<name>\S+) GRES core specification (?P<cores>\S+) for node (?P<node>\S+)"
        r" doesn't match socket",
        "cores-socket machine-differs cpus-differ cores-unchecked",
        _INVALID,
        "let Cores= name one whole socket",
    ),
    _means(
        r"gres/(?P<name>[^:]+): invalid GRES core specification \((?P<cores>\S+)\)"
        r" on node (?P<node>\S+)"
        r"|Invalid GRES data for (?P<name2>\S+), Cores=(?P<cores2>\S+)",
        "cores-beyond cores-siblings cores-socket machine-differs cpus-differ",
        _INVALID,
        "let Cores= name cores that the node has, without thread siblings",
    ),
    _means(
        r"CPUs configured for only some of the records on node (?P<node>\S+)",
        "mixed-cores",
        "Slurm takes the others as near to all cores.",
        "give Cores= to all records of a name on a node, or to none",
        Severity.WARNING,
    ),
    _means(
        r"A line in gres.conf for GRES (?P<gres>\S+) has \d+ more configured",
        "type-mismatch count-high gres-extra-type gres-not-in-node count-low",
        "Slurm leaves the devices unused; a GRES without a plugin loses its File=.",
        "write the same name, type and count in gres.conf and Gres=",
        Severity.WARNING,
    ),
    _means(
        r"Ignoring file-less GPU",
        "gpu-without-file count-low type-mismatch gres-no-record count-high",
        "The node has fewer GPUs than Gres= says.",
        "add File= to the record",
        Severity.WARNING,
    ),
    _means(
        r"Node configuration differs from hardware",
        "machine-differs cpus-differ cores-unchecked",
        "The NodeName line and the machine disagree about sockets, cores or threads.",
        "take Sockets, CoresPerSocket and ThreadsPerCore from 'slurmd -C' on the node",
    ),
    _means(
        r"count reported lower than configured|count too low",
        "count-low type-mismatch gpu-without-file gres-no-record cores-beyond cores-siblings "
        "mixed-type",
        _INVALID,
        "let gres.conf have as many devices as Gres= says",
    ),
    _means(
        r"Invalid user for SlurmUser",
        "",
        "Slurm refuses this user.",
        "run 'hpcmgr verify' as another user",
    ),
    _means(
        r"lookup failure for node (?P<who>\S+)|[Ii]nvalid hostnames in switch",
        "topology-unknown-node",
        "slurm.conf defines no such node.",
        "correct the name, or define the node in slurm.conf",
    ),
    _means(
        r"No (?:switches|blocks) configured",
        "topology-empty topology-yaml",
        "With the tree plugin no job starts, with the block plugin all nodes count as equally far "
        "apart.",
        "render the topology, or remove TopologyPlugin",
        Severity.WARNING,
    ),
    _means(
        r"has invalid child|has already been defined|has neither child switches nor nodes"
        r"|children count lower than bblock|must be shorter than 64 chars",
        "topology-no-switch topology-name-twice topology-name-long topology-block-small "
        "topology-plugin unknown-key",
        _REFUSED,
        "correct the line of the switch or block",
    ),
    _means(
        r"Switch configuration is not a tree",
        "topology-circle",
        _REFUSED,
        "take the switch that is above itself out of the children",
    ),
    _means(
        r"no switch can reach all nodes",
        "topology-islands topology-node-missing topology-unknown-node",
        "No job spans switches that nothing connects.",
        "if they are connected, add a switch above them",
        Severity.NOTE,
    ),
    _means(
        r"Multiple leaf switches contain",
        "topology-node-twice",
        "Slurm counts the node in both.",
        "leave the node in one switch",
    ),
    _means(
        r"load topology\.yaml|\[topology\.yaml\] source|^slurmctld: #/|^#/",
        "topology-yaml",
        _REFUSED,
        "correct the file",
    ),
    _means(
        r"Invalid BlockSizes",
        "topology-block-sizes",
        _REFUSED,
        "make every size the first one times 1, 2, 4, 8 …",
    ),
    _means(
        r"(?:[Bb]locks|Rings|switches) lack access|missing from .* switch",
        "topology-node-missing topology-unknown-node",
        "No job starts on them in partitions that use this topology, not even on one of them "
        "alone.",
        "add the nodes",
        Severity.WARNING,
    ),
    _means(
        r"specified plugin name for|cannot (?:find|create) \S+ (?:plugin|context) for",
        "topology-plugin-release",
        "slurmctld refuses to start.",
        "name a plugin that this release has, or install its package",
    ),
    _means(
        r"env flags for previous GRES",
        "env-flags",
        _REFUSED,
        "give all records of a name on a node the same Flags",
    ),
)


@dataclass(slots=True)
class LineReader:
    """Turns lines of one proof into findings; ``known`` are those of the rules."""

    configuration: Configuration
    copy: ProofCopy
    known: list[Finding]
    unknown_keys: set[str] = field(default_factory=set)
    _said: set[object] = field(default_factory=set)

    def read(self, text: str, who: str, fallback: Place) -> list[Finding]:
        """Findings from the output of one program; ``who`` names it in the message."""
        found: list[Finding] = []
        consequences: list[str] = []
        superfluous = False
        for level, words in _faults(text):
            message = self.copy.as_site(words)
            if CONSEQUENCES.search(message):
                consequences.append(message)
                continue
            before = len(found)
            for finding in self._findings(level, message, who, fallback, words):
                found.append(finding)
                self.known.append(finding)
            superfluous |= len(found) == before
        # The rules may have told the reason already.
        told = superfluous or any(f.severity is Severity.ERROR for f in self.known)
        if consequences and not found and not told:
            found.append(_raw("fatal", consequences[0], who, fallback))
        return found

    def reason(self, name: str, state: str, reason: str, place: Place) -> list[Finding]:
        """Findings from the reason that slurmctld gives for a node's state."""
        if any(reason in finding.text for finding in self.known):
            return []
        text = f"{name} is {state}: {reason}"
        return list(self._findings("error", text, "slurmctld", place, text))

    def _findings(
        self, level: str, message: str, who: str, fallback: Place, raw: str
    ) -> Iterator[Finding]:
        parse = re.search(r"Parse error in file (\S+) line (\d+)", raw)
        if parse:
            place = self._origin(parse[1], int(parse[2]))
            if not self._told_at(place):
                yield error("slurm-parse", place, _without_file(message), _REFUSED,
                            "correct the line")  # fmt: skip
            return
        for meaning in MEANINGS:
            hit = meaning.pattern.search(message)
            if hit:
                yield from self._explained(meaning, hit, level, f"{who}: {message}", fallback)
                return
        if self._first_time(message):
            yield _raw(level, message, who, self._place_by_words(message) or fallback)

    def _explained(
        self,
        meaning: Meaning,
        hit: re.Match[str],
        level: str,
        text: str,
        fallback: Place,
    ) -> Iterator[Finding]:
        severity = Severity.ERROR if level == "fatal" else meaning.severity
        if self._told_by(meaning.rules, severity):
            return
        groups = hit.groupdict()
        key = groups.get("key")
        if key:
            yield from self._unknown_key(key, meaning)
            return
        place = self._place(groups) or self._place_by_words(text) or fallback
        # Of many nodes with the same fault one is told.
        same = frozenset((k, v) for k, v in groups.items() if k != "node")
        if self._first_time((meaning, place, same)):
            yield Finding(severity, "slurm", place, text, meaning.why, meaning.fix)

    def _first_time(self, what: object) -> bool:
        """Every daemon says the same: once is enough."""
        if what in self._said:
            return False
        self._said.add(what)
        return True

    def _unknown_key(self, key: str, meaning: Meaning) -> Iterator[Finding]:
        c = self.configuration
        self.unknown_keys.add(key.lower())
        confs = (c.gres, c.slurm, c.topology, c.cgroup)
        for conf in confs:
            for entry in conf.entries:
                written = next((p.key for p in entry.pairs if p.key.lower() == key.lower()), None)
                if written and not self._told_at(entry.place):
                    near = difflib.get_close_matches(key.lower(), _SPELLING, 1)
                    maybe = f"; did you mean {_SPELLING[near[0]]}?" if near else ""
                    yield Finding(
                        Severity.ERROR,
                        "unknown-key",
                        entry.place,
                        f"Slurm {c.release} does not know the key {written} here{maybe}",
                        meaning.why,
                        meaning.fix,
                    )

    def _place(self, groups: dict[str, str | None]) -> Place | None:
        """The line that a message means: a record by file or cores, else a node."""
        c = self.configuration
        node = c.nodes.get(groups.get("node") or "")
        cores = groups.get("cores") or groups.get("cores2")
        name = groups.get("name") or groups.get("name2")
        # Of a file that is named twice, the later record is the one too many.
        for record in reversed(c.records):
            if node and record.nodes is not None and node.name not in record.nodes:
                continue
            if name and record.name != name:
                continue
            if groups.get("file") and groups["file"] in (record.files or ()):
                return record.place
            if cores and record.cores and record.cores.strip("[]") == cores:
                return record.place
        return node.place if node else None

    def _place_by_words(self, message: str) -> Place | None:
        """The line that has a word of the message as a value, if only one line has it."""
        c = self.configuration
        entries = [e for conf in (c.slurm, c.topology, c.gres, c.cgroup) for e in conf.entries]
        for word in dict.fromkeys(re.findall(r"[A-Za-z0-9_./-]+", message)):
            places = {
                entry.place
                for entry in entries
                if any(word in re.split(r"[,:=]", pair.value) for pair in entry.pairs)
            }
            if len(places) == 1:
                return places.pop()
        if re.search(r"topology|switch|block", message, re.IGNORECASE):
            yaml = c.directory / "topology.yaml"
            return Place(yaml if yaml.exists() else c.topology.path)
        return None

    def _origin(self, path: str, line: int) -> Place:
        file = self.copy.files.get(path.rpartition("/")[2])
        return file.place(line) if file else Place()

    def _told_at(self, place: Place) -> bool:
        return any(f.place == place and f.severity is Severity.ERROR for f in self.known)

    def _told_by(self, rules: frozenset[str], severity: Severity) -> bool:
        """Whether a rule has told it, no milder than Slurm does."""
        enough = {Severity.ERROR, severity}
        return any(f.rule in rules and f.severity in enough for f in self.known)


def _faults(text: str) -> Iterator[tuple[str, str]]:
    """(level, words) of every line that complains and is not harmless."""
    for line in text.splitlines():
        found = _LEVEL.search(line)
        if found and (found[1] == "fatal" or not _is_harmless(found[2])):
            yield found[1], found[2].strip()


def _is_harmless(words: str) -> bool:
    return "Parse error" not in words and any(re.search(pattern, words) for pattern, _ in HARMLESS)


def _without_file(message: str) -> str:
    return re.sub(r"Parse error in file \S+ line \d+:", "Slurm cannot read", message)


def _raw(level: str, message: str, who: str, place: Place) -> Finding:
    severity = Severity.WARNING if level == "warning" else Severity.ERROR
    return Finding(
        severity,
        "slurm-fatal" if level == "fatal" else "slurm-log",
        place,
        f"{who}: {message}",
        "Slurm itself says so of a proof copy of these files.",
        "see Slurm's documentation of the named key",
    )


def best_excuse(texts: Iterable[str]) -> str:
    """The last fatal or error line of several logs, for a message; empty if there is none."""
    lines = [words for text in texts for _, words in _faults(text)]
    return lines[-1] if lines else ""


_SPELLING = {
    key.lower(): key
    for key in (
        "AutoDetect", "Count", "Cores", "File", "Flags", "Links", "MultipleFiles", "Name",
        "NodeName", "Type", "Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory", "Gres",
        "Features", "Weight", "CPUs", "Boards", "State", "NodeAddr", "PartitionName", "Nodes",
        "Default", "MaxTime", "DefaultTime", "SelectType", "SelectTypeParameters", "GresTypes",
        "TaskPlugin", "TaskProlog", "ProctrackType", "MpiDefault", "JobSubmitPlugins",
        "SlurmctldHost", "SlurmUser", "ClusterName", "AccountingStorageTRES",
        "AccountingStorageType", "SchedulerType", "SwitchName", "Switches", "BlockName",
        "BlockSizes", "TopologyPlugin", "TopologyParam", "ConstrainDevices", "ConstrainCores",
        "ConstrainRAMSpace", "ReturnToService", "TRESBillingWeights",
    )
}  # fmt: skip
"""Common keys by their lower case, for "did you mean"."""
