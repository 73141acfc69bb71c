"""What Slurm should see: inventory + profiles + site → plan, the only input of the renderers.

Order is law. Slurm numbers the devices of a node by their position in its merged list, grouped by
the order of types in ``Gres=``; a changed order under running jobs hands a device out twice. So a
plan sorts devices once, by GRES name, type and the order of the runtime, and nothing after it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hpcmgr.errors import PlanError
from hpcmgr.fabric import FabricPlan, Scan, plan_fabric
from hpcmgr.inventory import CpuTopology, Device, NodeInventory
from hpcmgr.inventory.numa_sockets import by_numa
from hpcmgr.profile import DeviceProfile, ProfileLibrary
from hpcmgr.settings import NodeGroup, Sharing, Site
from hpcmgr.slurm.capability import NEWEST, Release

NEUTRAL = ("compute", "vram")
NO_ENV = ("no_gpu_env",)


@dataclass(frozen=True, slots=True)
class PlannedDevice:
    """One schedulable device: a whole one, or a slice of one. ``files`` as gres.conf names them,
    ``socket`` as Slurm counts it, ``place`` the slice's among its device's; ``sharing`` how several
    jobs use it, None: one does."""

    profile: DeviceProfile
    files: tuple[str, ...]
    socket: int | None
    index: int | None
    uuid: str | None
    place: int = 0
    sharing: Sharing | None = None

    @property
    def own_files(self) -> tuple[str, ...]:
        """Files that no other device has; slices of one GPU share its first ones."""
        return self.files[-1:] if self.profile.slice_of else self.files


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node line and its devices. ``gres`` is ordered: ``{"gpu:t4": 2, "shard": 8, …}``."""

    name: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    devices: tuple[PlannedDevice, ...]
    gres: Mapping[str, int]
    features: tuple[str, ...]
    options: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def of_name(self, name: str) -> tuple[PlannedDevice, ...]:
        """Devices of one GRES name, in Slurm's order."""
        return tuple(d for d in self.devices if d.profile.gres.name == name)

    def env_flags(self, name: str) -> tuple[str, ...]:
        """Environment flags of all records of one GRES name.

        slurmd dies of two different sets under one name, and with none at all it would set every
        brand's variable (of which AMD's runtime takes two, and then sees nothing). So where brands
        share a name, Slurm sets no variable and the TaskProlog does.
        """
        flags = {device.profile.gres.flags for device in self.of_name(name)}
        return NO_ENV if len(flags) > 1 else next(iter(flags), ())


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All nodes, sorted by name, and what they have in common."""

    nodes: tuple[NodePlan, ...]
    site: Site
    gres_types: tuple[str, ...] = field(default=())
    fabric: FabricPlan = field(default_factory=FabricPlan)
    release: Release = NEWEST

    @property
    def tracked_tres(self) -> tuple[str, ...]:
        """AccountingStorageTRES: neutral units, then each name and its types."""
        names: dict[str, set[str]] = {}
        for node in self.nodes:
            for device in node.devices:
                names.setdefault(device.profile.gres.name, set()).add(device.profile.gres.type)
                if device.sharing is not None:
                    names.setdefault(device.sharing.name, set())
        typed = [
            tres
            for name in sorted(names)
            for tres in (f"gres/{name}", *(f"gres/{name}:{t}" for t in sorted(names[name])))
        ]
        return tuple([f"gres/{name}" for name in NEUTRAL] + typed)


def make_plan(
    inventories: Iterable[NodeInventory],
    library: ProfileLibrary,
    site: Site,
    scan: Scan | None = None,
    release: Release = NEWEST,
) -> ClusterPlan:
    """Plan the cluster.

    Args:
        inventories: of all nodes.
        library: the profiles that hold.
        site: site.yaml.
        scan: of the fabric, where site.yaml names one.
        release: of the site's Slurm.

    Raises:
        PlanError: an inventory of this node cannot be planned (says which node and why).
    """
    nodes: list[NodePlan] = []
    kept: dict[str, NodeInventory] = {}
    for inventory in inventories:
        nodes.append(_plan_node(inventory, library, site))
        if scan is not None:  # else none need be held: there may be 10,000
            kept[inventory.node] = inventory
    nodes.sort(key=lambda node: node.name)
    devices = [device for node in nodes for device in node.devices]
    names = {d.profile.gres.name for d in devices}
    names |= {d.sharing.name for d in devices if d.sharing is not None}
    fabric = plan_fabric(site, scan, dict(sorted(kept.items())))
    return ClusterPlan(tuple(nodes), site, tuple(sorted({*names, *NEUTRAL})), fabric, release)


def _plan_node(inventory: NodeInventory, library: ProfileLibrary, site: Site) -> NodePlan:
    groups = site.group_values(inventory.node)
    cpu = _processors(inventory, groups)
    devices, notes = _plan_devices(inventory, library, cpu)
    devices = _with_sharing(inventory.node, devices, site)
    return NodePlan(
        name=inventory.node,
        sockets=cpu.sockets,
        cores_per_socket=cpu.cores_per_socket,
        threads_per_core=cpu.threads_per_core,
        memory_mib=_memory(inventory, groups),
        devices=devices,
        gres=_counts(devices),
        features=_features(inventory, devices, groups),
        options={k: str(v) for group in groups for k, v in group.options.items()},
        notes=tuple(notes),
    )


def _plan_devices(
    inventory: NodeInventory, library: ProfileLibrary, cpu: CpuTopology
) -> tuple[tuple[PlannedDevice, ...], list[str]]:
    """Schedulable devices in Slurm's order, and a note on each that is not."""
    planned: list[PlannedDevice] = []
    notes: list[str] = []
    sockets = {numa.id: numa.socket for numa in cpu.numa}

    def socket(device: Device) -> int | None:
        return None if device.numa_node is None else sockets.get(device.numa_node)

    for device in inventory.devices:
        profile = library.get(device.profile) if device.profile else library.match(device)
        if profile is None:
            notes.append(f"{device.key} {device.model!r}: no profile, not schedulable")
        elif device.sliced or device.slices:
            pieces, said = _slices(device, profile, library)
            planned += [replace(piece, socket=socket(device)) for piece in pieces]
            notes += said
        elif not device.files:
            notes.append(f"{device.key} {device.model!r}: no device node found, not schedulable")
        else:
            planned.append(
                PlannedDevice(profile, device.files, socket(device), device.index, device.uuid)
            )
    _refuse_shared_files(inventory.node, planned)
    planned.sort(key=lambda d: (d.profile.gres.name, d.profile.gres.type, _runtime_order(d)))
    return tuple(planned), notes


def _slices(
    device: Device, profile: DeviceProfile, library: ProfileLibrary
) -> tuple[list[PlannedDevice], list[str]]:
    """The slices of a device that is cut, and a note on each that cannot be scheduled. The device
    itself never is: a job would hold what others have slices of."""
    pieces: list[PlannedDevice] = []
    notes: list[str] = []
    if not device.slices:
        notes.append(f"{device.key} {device.model!r}: to be cut, has no slices, not schedulable")
    for place, piece in enumerate(device.slices):
        what = f"{device.key} slice {piece.name}"
        kind = library.slice_of(profile, piece.name)
        if kind is None:
            notes.append(f"{what}: not in the slicing table of {profile.name}, not schedulable")
        elif not piece.files:
            notes.append(f"{what}: no device nodes found, not schedulable")
        else:
            pieces.append(PlannedDevice(kind, piece.files, None, device.index, piece.uuid, place))
    return pieces, notes


def _runtime_order(device: PlannedDevice) -> tuple[int, int, tuple[str, ...]]:
    return (device.index if device.index is not None else 1 << 30, device.place, device.files)


def _refuse_shared_files(node: str, devices: list[PlannedDevice]) -> None:
    seen: set[str] = set()
    shared = {file for d in devices for file in d.files if file not in d.own_files}
    for device in devices:
        for file in device.own_files:
            if file in seen or file in shared:
                raise PlanError(
                    f"{node}: {file} belongs to two devices",
                    "run 'hpcmgr discover' there: two sources disagree about device nodes",
                )
            seen.add(file)


def _with_sharing(
    node: str, devices: tuple[PlannedDevice, ...], site: Site
) -> tuple[PlannedDevice, ...]:
    """Devices with how they are shared. Slices are not shared: they are shares."""
    wanted = site.sharing_on(node)
    shared = tuple(replace(d, sharing=wanted.get(d.profile.name)) for d in devices)
    sorts = {d.sharing.name for d in shared if d.sharing is not None}
    if len(sorts) > 1:
        raise PlanError(
            f"{node}: site.yaml shares some devices by shard and others by mps",
            "take one for all devices of a node: with both, Slurm gives a device to a job that "
            "others have shares of",
        )
    for device in shared:
        if device.sharing is not None and device.profile.gres.name != "gpu":
            raise PlanError(
                f"{node}: {device.profile.name} cannot be shared by {device.sharing.name}: Slurm "
                f"shares devices named gpu only, these are {device.profile.gres.name}",
                f"take {device.profile.name} out of sharing in site.yaml",
            )
    return shared


def _counts(devices: tuple[PlannedDevice, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for device in devices:
        counts[device.profile.gres_key] = counts.get(device.profile.gres_key, 0) + 1
    for sharing in (d.sharing for d in devices if d.sharing is not None):
        counts[sharing.name] = counts.get(sharing.name, 0) + sharing.shares
    neutral = [d.profile for d in devices if d.profile.booked_units is not None]
    if neutral:
        counts["compute"] = sum(p.booked_units or 0 for p in neutral)
        vram = sum(p.memory_gib or 0 for p in neutral)
        if vram:
            counts["vram"] = vram
    return counts


def _processors(inventory: NodeInventory, groups: list[NodeGroup]) -> CpuTopology:
    """Sockets as the node's slurmd counts them."""
    if next((g.sockets for g in reversed(groups) if g.sockets), "package") == "package":
        return inventory.cpu
    counted = by_numa(inventory.cpu)
    if counted is None:
        raise PlanError(
            f"{inventory.node}: its NUMA nodes cannot stand for sockets: they differ in size, or "
            "are no parts of a package",
            "take 'sockets: numa' from its group in site.yaml",
        )
    return counted


def _memory(inventory: NodeInventory, groups: list[NodeGroup]) -> int:
    reserve = next((g.reserve_mib for g in reversed(groups) if g.reserve_mib is not None), 0)
    caps = [g.memory_mib for g in groups if g.memory_mib is not None]
    memory = min([inventory.memory_mib - reserve, *caps])
    if memory < 1:
        raise PlanError(
            f"{inventory.node}: nothing of its {inventory.memory_mib} MiB is left for jobs",
            "lower reserve_mib of its group in site.yaml",
        )
    return memory


def _features(
    inventory: NodeInventory, devices: tuple[PlannedDevice, ...], groups: list[NodeGroup]
) -> tuple[str, ...]:
    words: set[str] = set()
    for device in devices:
        profile = device.profile
        words |= {profile.kind, profile.vendor, profile.runtime, profile.gres.type}
        words |= set(profile.features)
    layers = {nic.link_layer for nic in inventory.nics if nic.rdma and nic.state == "active"}
    if layers:
        words.add("rdma")
    if "Ethernet" in layers:
        words.add("roce")
    for group in groups:
        words |= {w for w in (group.pool, group.department, group.project) if w}
        words |= set(group.features)
    return tuple(sorted(words))
