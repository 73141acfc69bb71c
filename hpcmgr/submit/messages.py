"""Every text that a user sees at submission, in one catalogue that a site can translate."""

from __future__ import annotations

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
    "nothing": "{request}: no device fits{partition}. {why}{fitting}",
    "fitting": " What would fit: {offers}.",
}
"""Text by key; ``{…}`` is filled by the caller."""


def text(key: str, **values: object) -> str:
    """The text of ``key``, filled."""
    return TEXTS[key].format(**values)
