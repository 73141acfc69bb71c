"""Every text that a user sees at submission, in one catalogue that a site can translate."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

TEXTS = {
    "bound": "{request} becomes {devices}: {units} units, {vram} GiB of device memory{per_node}",
    "more_units": "{granted} units are booked: whole devices are handed out ({asked} asked)",
    "direct_units": "{request} books {units} units, {vram} GiB of device memory{where}",
    "not_near": "cores near the devices are not enforced: {why}",
    "unsure": "whether the driver serves {needs} is not known on {nodes} of the nodes",
    "not_required": "your --constraint cannot be joined with what the class wants ({features}): "
    "add it yourself",
    "template_form": "compute:{name}:N asks for N sets of its device groups; beside it only "
    "vram:each:GiB, and not per task",
    "apart": "{request}: no node holds its groups together ({why}). On different nodes{below} it "
    "is: sbatch {line} SCRIPT (what the groups exchange then crosses the network){note}",
    "apart_free": "no node is free for it now; on different nodes{below} it could start at once: "
    "sbatch {line} SCRIPT (what the groups exchange then crosses the network){note}",
    "same_socket": "on one socket of each node",
    "same_switch": "below one switch",
    "spread": "anywhere",
    "fallback": "the class wants the devices {wanted}, which cannot be ({why}): they may lie "
    "{level}{note}",
    "topology_refused": "{request}: the class wants the devices {wanted}, which cannot be: {why}",
    "left_out": "{nodes} nodes are left out: their driver does not serve what the class needs",
    "waits": "the job waits until the nodes are back: {why}",
    "no_count": "{request}: no count given, taken as 1",
    "bad_form": "{text}: a request is compute:N, compute:SELECTOR:N, vram:GiB or vram:each:GiB",
    "bad_count": "{name}: {count!r} is no whole number from 1 to {most}",
    "bad_memory": "vram: {count!r} is no amount of memory: 80 (GiB), 80G, 1.5T or 40960M",
    "unknown_selector": "compute:{word}: no class, kind, runtime, vendor or profile of that name"
    "{maybe}; valid: {valid}",
    "ntasks_per_gpu": "--ntasks-per-gpu alone does not say how many devices: give them too, with "
    "--gpus-per-node or --gres",
    "per_task_release": "Slurm {release} loses units per task in the job's steps: ask with "
    "--gres=compute:N for each node",
    "per_task_batch": "compute per task is for sbatch only, since srun would give every task all "
    "devices: ask with --gres=compute:N for each node",
    "uncounted": "{request}: no units are booked, since Slurm {release} cannot count them beside "
    "--{option}",
    "uncounted_refused": "{request} cannot have its units beside --{option} on Slurm {release}: "
    "leave that option out",
    "unbound_word": "compute:unbound is set by the system alone; ask for compute:N",
    "vram_selector": "vram:{word}: only vram:GiB (total on a node) or vram:each:GiB",
    "twice": "{name} is asked twice; give it once",
    "mixed_gpus": "compute and vram cannot stand beside --gpus or another device request "
    "({other}): ask for compute:N alone, or for devices alone",
    "per_socket": "compute per socket is not known: ask with --gres=compute:N (each node) or "
    "--tres-per-task=gres/compute:N",
    "per_job": "compute for the whole job is not known: ask with --gres=compute:N for each node",
    "task_vram": "vram with --tres-per-task is not known: ask with --gres=compute:N,vram:M",
    "totals": "--gpus={count} needs a number of nodes that divides it (-N): its units are counted "
    "per node. Or ask per node, with --gpus-per-node or --gres",
    "totals_refused": "--gpus is not taken at this site, since units are counted per node: ask "
    "with --gpus-per-node or --gres",
    "untyped": "{name} may be {types} here, so no units are booked: name the type",
    "untyped_refused": "{name} may be {types} here: name the type, since units differ by it",
    "totals_unbilled": "--gpus={count}: no units are booked for a total over several nodes",
    # Why a device type is no candidate
    "not_asked": "not what was asked for",
    "no_slices": "class {name} allows whole devices only, no slices",
    "class_allows": "class {name} allows only {what} {allowed}",
    "no_units": "its units are not known: set units in site.yaml",
    "few_units": "{units} units a device, the class wants {least}",
    "no_memory": "its memory is not known",
    "small_memory": "{memory} GiB a device, {asked} asked",
    "too_many": "would take {count} devices, at most {most} for this request",
    "per_task_nodes": "per task it needs a number of nodes (-N)",
    "not_in_partition": "not in partition {partitions}",
    "lacks": "lacks the feature {features}",
    "few_on_node": "at most {most} on a node, {count} needed",
    "not_together": "no node has {devices} together",
    "few_cpus": "{needed} CPUs needed, a node has {cpus}",
    "few_memory": "{needed} MiB needed, a node has {memory}",
    "not_on_nodes": "not on the nodes of the request",
    "few_nodes": "{asked} nodes asked, {able} can serve",
    "nowhere": "no node has it",
    "old_driver": "its driver serves {runtime} up to {newest}, {needed} needed",
    "failed": "{failed} of {count} {gres} failed",
    "out_of_service": "{node} is {state}{reason}{more}",
    "more_out": " and {count} more are out",
    # Why cores near the devices are not enforced, or a topology cannot be had
    "may_move": "the job may still move to another device type",
    "bound_late": "the job was bound after its submission",
    "several_tasks_cores": "Slurm {release} would take all cores of a socket for several tasks",
    "no_near": "Slurm {release} cannot do it for {name} devices",
    "no_near_tasks": "Slurm {release} cannot do it for several tasks with {gres}",
    "no_socket_fits": "{devices} x {gres} do not fit on one socket",
    "no_one_socket": "Slurm {release} cannot keep several {name} devices on one socket",
    "is_per_task": "the request is per task",
    "groups_apart": "its device groups may lie on different sockets",
    "nodes_not_fixed": "the number of nodes is not fixed",
    "is_exclusive": "--exclusive takes all cores of the node",
    "both_tasks": "-n and --ntasks-per-node are both given",
    "place_unknown": "the place of the devices is not known on every node",
    "few_near": "{asked} CPUs asked, {near} are near the devices",
    "no_switch": "no switch is known",
    "few_below": "at most {most} nodes are below one switch",
    # Parts of texts
    "each_task": " per task",
    "each_socket": " per socket",
    "each_node": " on each of {nodes} nodes",
    "no_device": "no such device is in the cluster",
    "account_barred": "partition {partition} does not take account {account}",
    "qos_barred": "partition {partition} does not take QOS {qos}",
    "group_barred": "partition {partition} takes only the groups {groups}",
    "partition_closed": "partition {partition} takes no jobs (it is {state})",
    "too_long": "partition {partition} takes jobs of {most} minutes at most",
    "too_wide": "partition {partition} takes jobs of {most} nodes at most",
    "over_limit": "it takes {count} {what}; {who} {most}",
    "by_partition": "partition {partition} gives a job on a node",
    "by_qos_per_job": "QOS {qos} allows a job",
    "by_qos_per_node": "QOS {qos} allows a job on a node",
    "by_qos_per_user": "QOS {qos} allows all jobs of a user",
    "by_qos_per_account": "QOS {qos} allows all jobs of an account",
    "by_qos_group": "QOS {qos} allows all its jobs",
    "by_account_per_job": "account {account} allows a job",
    "by_account_per_node": "account {account} allows a job on a node",
    "by_account_group": "account {account} allows all its jobs",
    "by_user": "account {account} allows all jobs of {user}",
    "no_access": "the job can run nowhere: {why}",
    "owned": "its nodes serve only {accounts}, not account {account}",
    "nothing": "{request}: no device fits{partition}. {why}{fitting}",
    "fitting": " What would fit: {offers}.",
}
"""Text by id; ``{…}`` is filled by the caller."""

_texts = dict(TEXTS)


def text(key: str, **values: object) -> str:
    """The text of ``key``, filled; in the site's words where it has any."""
    return _texts[key].format(**values)


def translate(texts: Mapping[str, str]) -> None:
    """Use a site's texts from now on, in this process; those that it lacks stay."""
    _texts.clear()
    _texts.update(TEXTS, **texts)


def placeholders(text: str) -> frozenset[str]:
    """What stands in braces: ``"{units} of {count!r}"`` → units, count.

    Raises:
        ValueError: the braces do not match.
    """
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name is not None)
