"""Rules about slurm.conf and cgroup.conf: isolation, admission, accounting."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.slurm.capability import has
from hpcmgr.verify.configuration import LINE_KEYS, NEUTRAL, Configuration
from hpcmgr.verify.finding import Finding, Place, error, note, warning

REMOVED = {
    "accountingstorageloc": "", "accountingstorejobcomment": "AccountingStoreFlags=job_comment",
    "cachegroups": "", "checkpointtype": "", "checkpointdir": "",
    "defaultstoragehost": "AccountingStorageHost", "defaultstorageloc": "",
    "defaultstoragepass": "AccountingStoragePass", "defaultstorageport": "AccountingStoragePort",
    "defaultstoragetype": "AccountingStorageType", "defaultstorageuser": "AccountingStorageUser",
    "frontendname": "", "jobcheckpointdir": "",
    "memlimitenforce": "JobAcctGatherParams=OverMemoryKill",
    "sallocdefaultcommand": "LaunchParameters=use_interactive_step", "schedulerport": "",
    "schedulerrootfilter": "",
}  # fmt: skip
"""Keys that every supported release refuses, in lower case, and what took their place (seen on
24.11.5 and 26.05.5)."""

DEFUNCT = frozenset(
    {"accountingstorageuser", "fastschedule", "jobcredentialprivatekey",
     "jobcredentialpubliccertificate"}
)  # fmt: skip
"""Keys that do nothing any more; newer releases complain about them."""

YES = frozenset({"yes", "true", "y", "t", "1", "on", "up"})


def slurm_conf_is_there(c: Configuration) -> Iterator[Finding]:
    """Without slurm.conf little can be said; hpcmgr.conf alone is checked as far as it goes."""
    if c.fragment:
        yield note(
            "fragment",
            Place(c.slurm.path),
            "there is no slurm.conf here; hpcmgr.conf is checked alone",
            "What only slurm.conf can say (SelectType, TaskPlugin, JobSubmitPlugins, partitions) "
            "is not checked.",
            "put the site's slurm.conf into the directory",
        )
    elif not c.slurm.exists:
        yield error(
            "slurm-conf",
            Place(c.slurm.path),
            "slurm.conf is missing",
            "Nodes, GRES and partitions are defined there.",
            "name the directory that holds slurm.conf",
        )


def cluster_has_a_name(c: Configuration) -> Iterator[Finding]:
    """Without ClusterName no daemon and no command reads the file."""
    if c.slurm.exists and not c.fragment and c.slurm.entries and not c.setting("clustername"):
        yield error(
            "cluster-name",
            Place(c.slurm.path),
            "ClusterName is not set",
            "Every daemon and command refuses the file.",
            "set ClusterName",
        )


def removed_keys_are_gone(c: Configuration) -> Iterator[Finding]:
    """Keys of old releases make the whole file unreadable, or do nothing."""
    for entry in c.slurm.entries:
        if entry.head in LINE_KEYS - {"frontendname"}:
            continue
        for pair in entry.pairs:
            key = pair.key.lower()
            if key in REMOVED or (key == "fastschedule" and pair.value in {"0", "2"}):
                instead = REMOVED.get(key)
                yield error(
                    "removed-key",
                    entry.place,
                    f"Slurm no longer has {pair.key}={pair.value[:40]}",
                    "Daemons refuse to start.",
                    f"use {instead} instead" if instead else "remove it",
                )
            elif key in DEFUNCT:
                yield warning(
                    "removed-key",
                    entry.place,
                    f"{pair.key} does nothing any more",
                    "Slurm ignores it; newer releases complain.",
                    "remove it",
                )


def devices_are_constrained(c: Configuration) -> Iterator[Finding]:
    """ConstrainDevices=yes, or every job can open every device."""
    value, place = "", Place(c.cgroup.path)
    for entry in c.cgroup.entries:
        found = entry.get("constraindevices")
        if found is not None:
            value, place = found, entry.place
    if value.lower() in YES:
        return
    said = f"ConstrainDevices={value}" if value else "ConstrainDevices is not set"
    yield error(
        "constrain-devices",
        place,
        said if c.cgroup.exists else "cgroup.conf is missing, so ConstrainDevices is not set",
        "Every job could open every device of its node; the TaskProlog, which looks which device "
        "nodes a step may open, would then give all of them to everyone.",
        "set ConstrainDevices=yes in cgroup.conf",
    )


def cgroup_plugins_are_used(c: Configuration) -> Iterator[Finding]:
    """ConstrainDevices does nothing without task/cgroup, and leaks without proctrack/cgroup."""
    if c.fragment or not c.slurm.exists:
        return
    if "cgroup" not in c.plugins("taskplugin"):
        yield error(
            "task-plugin",
            c.place_of("taskplugin"),
            f"TaskPlugin={c.setting('taskplugin') or '(not set)'} does not have task/cgroup",
            "ConstrainDevices is the work of task/cgroup: without it no device is constrained.",
            "set TaskPlugin=task/affinity,task/cgroup",
        )
    if c.plugins("proctracktype", "cgroup") != ["cgroup"]:
        yield warning(
            "proctrack",
            c.place_of("proctracktype"),
            f"ProctrackType={c.setting('proctracktype')}",
            "Processes can leave a job that is not tracked by its cgroup, and keep its devices.",
            "set ProctrackType=proctrack/cgroup",
        )


def select_type_is_cons_tres(c: Configuration) -> Iterator[Finding]:
    """Only select/cons_tres hands out single devices with their cores."""
    default = "cons_tres" if has(c.release, "CONS_TRES_DEFAULT") else "linear"
    if c.fragment or not c.slurm.exists:
        return
    value = c.setting("selecttype", default)
    if c.plugins("selecttype", default) != ["cons_tres"]:
        yield error(
            "select-type",
            c.place_of("selecttype"),
            f"SelectType={value}",
            "Other selectors give out whole nodes or do not know which cores are near a device.",
            "set SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory",
        )


def gres_types_name_every_gres(c: Configuration) -> Iterator[Finding]:
    """A GRES that GresTypes does not name is dropped by every daemon."""
    known = set(c.words("grestypes"))
    uses: dict[str, Place] = {}
    for record in c.records:
        uses.setdefault(record.name.lower(), record.place)
    for shape in c.shapes:
        for item in shape.node.gres:
            uses[item.name.lower()] = shape.node.place
    for name, place in sorted(uses.items()):
        if name not in known:
            yield error(
                "gres-types",
                place,
                f"{name} is not in GresTypes={c.setting('grestypes') or '(not set)'}",
                "Slurm drops it from nodes and from gres.conf; jobs that ask for it are refused.",
                f"add {name} to GresTypes in slurm.conf, on all nodes alike",
            )


def neutral_jobs_get_devices(c: Configuration) -> Iterator[Finding]:
    """With compute configured, JobSubmitPlugins must have lua: it turns units into devices."""
    if c.fragment or not c.slurm.exists or not _has_compute(c):
        return
    if "lua" not in c.plugins("jobsubmitplugins"):
        yield error(
            "job-submit",
            c.place_of("jobsubmitplugins"),
            f"JobSubmitPlugins={c.setting('jobsubmitplugins') or '(not set)'} does not have lua",
            "A job that asks for compute would run without any device: the units are a mere "
            "count, and job_submit.lua is what turns them into devices.",
            "set JobSubmitPlugins=lua and install job_submit.lua beside slurm.conf",
        )
    if not c.setting("taskprolog"):
        yield warning(
            "task-prolog",
            Place(c.slurm.path),
            "TaskProlog is not set",
            "Jobs on devices whose variable Slurm does not set (Ascend and others) would not know "
            "which devices are theirs.",
            "include hpcmgr.conf, or set TaskProlog=/etc/hpcmgr/task_prolog.sh",
        )


def neutral_units_are_everywhere(c: Configuration) -> Iterator[Finding]:
    """Where some nodes offer units, a node with devices and none is never used by neutral jobs."""
    for unit in sorted(NEUTRAL):
        if not any(item.name == unit for s in c.shapes for item in s.node.gres):
            continue
        for shape in c.shapes:
            names = {item.name for item in shape.node.gres}
            if unit not in names and names & _device_names(c):
                yield warning(
                    "neutral-missing",
                    shape.node.place,
                    f"{shape.label}: devices, but no {unit} in Gres=",
                    f"No job that asks for {unit} can use this node.",
                    f"add {unit}:N to Gres=, or let 'hpcmgr render' write the line",
                )


def accounting_has_slurmdbd(c: Configuration) -> Iterator[Finding]:
    """AccountingStorageTRES with a GRES needs slurmdbd; slurmctld does not start without."""
    if c.fragment or not any(w.startswith("gres/") for w in c.words("accountingstoragetres")):
        return
    if c.plugins("accountingstoragetype") != ["slurmdbd"]:
        yield error(
            "accounting-slurmdbd",
            c.place_of("accountingstoragetres"),
            "AccountingStorageTRES names a GRES, but AccountingStorageType is "
            f"{c.setting('accountingstoragetype') or 'not set'}",
            "slurmctld refuses to start: only slurmdbd can keep new kinds of TRES.",
            "set AccountingStorageType=accounting_storage/slurmdbd, or 'accounting: false' in "
            "site.yaml",
        )


def billed_tres_are_tracked(c: Configuration) -> Iterator[Finding]:
    """TRESBillingWeights of an untracked GRES: slurmctld does not start."""
    tracked = set(c.words("accountingstoragetres"))
    for entry in c.slurm.settings("partitionname"):
        for part in (entry.get("tresbillingweights") or "").lower().split(","):
            tres = part.partition("=")[0].strip()
            if tres.startswith("gres/") and tres not in tracked:
                yield error(
                    "billing-untracked",
                    entry.place,
                    f"TRESBillingWeights counts {tres}, which AccountingStorageTRES does not name",
                    "slurmctld refuses to start: it knows no such TRES.",
                    f"add {tres} to AccountingStorageTRES",
                )


def partitions_are_defined_once(c: Configuration) -> Iterator[Finding]:
    """A partition or node set of two lines: one of site.yaml and one of the site's own file."""
    for key, what in (("partitionname", "partition"), ("nodeset", "node set")):
        first: dict[str, Place] = {}
        for entry in c.slurm.settings(key):
            for name in (entry.get(key) or "").split(","):
                if not name or name.upper() == "DEFAULT":
                    continue
                if name in first:
                    yield error(
                        f"{what.replace(' ', '-')}-twice",
                        entry.place,
                        f"{what} {name} is already defined at {first[name]}",
                        "slurmctld refuses to start with either twice.",
                        "keep one: the line of the site's own slurm.conf, or the one that "
                        "'hpcmgr render' makes from site.yaml",
                    )
                first.setdefault(name, entry.place)


def overrides_hide_mistakes(c: Configuration) -> Iterator[Finding]:
    """config_overrides takes slurm.conf for true, whatever the machine has."""
    if "config_overrides" in c.words("slurmdparameters"):
        yield warning(
            "config-overrides",
            c.place_of("slurmdparameters"),
            "SlurmdParameters=config_overrides",
            "Slurm then takes counts and sockets from slurm.conf, whatever the machine really "
            "has: lost devices go unnoticed.",
            "remove it outside of test clusters",
        )


def _has_compute(c: Configuration) -> bool:
    return any(item.name == "compute" for shape in c.shapes for item in shape.node.gres)


def _device_names(c: Configuration) -> set[str]:
    return {record.name for record in c.records if record.has_file or record.name == "gpu"}


RULES = (
    slurm_conf_is_there,
    cluster_has_a_name,
    removed_keys_are_gone,
    devices_are_constrained,
    cgroup_plugins_are_used,
    select_type_is_cons_tres,
    gres_types_name_every_gres,
    neutral_jobs_get_devices,
    neutral_units_are_everywhere,
    accounting_has_slurmdbd,
    billed_tres_are_tracked,
    partitions_are_defined_once,
    overrides_hide_mistakes,
)
