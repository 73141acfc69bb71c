"""``hpcmgr discover``: what this host (or a recorded one) has."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpcmgr.inventory import CpuTopology, Device, NodeInventory
    from hpcmgr.profile import ProfileLibrary
    from hpcmgr.settings import Site

_DEVICE_HEADERS = (
    *("INDEX", "KIND", "MODEL", "PROFILE", "UNITS", "MEMORY", "NUMA", "SOCKET", "PCI", "FILES"),
    *("SERIAL", "HEALTH"),
)


@click.command(epilog="Exit code 4: a source was broken, the list may be incomplete.")
@click.option(
    "--host",
    "place",
    type=click.Path(path_type=Path),
    help="A recorded host: folder or .tar.gz. Default: this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the inventory (hpcmgr.node/1).")
@click.pass_obj
def command(config: Path | None, place: Path | None, as_json: bool) -> int:
    """Show devices, NICs, NUMA nodes and what each source said."""
    from hpcmgr.discovery import discover, open_host
    from hpcmgr.profile.site import library_of
    from hpcmgr.settings import load_site

    site = load_site(config)
    library = library_of(site)
    inventory = discover(open_host(place), library)
    if as_json:
        click.echo(inventory.to_json(), nl=False)
    else:
        _present(inventory, library)
        say_how_to_bind(inventory, site)
    for source in inventory.broken_sources:
        click.echo(f"hpcmgr: warning: {source.name} is broken: {source.detail}", err=True)
    return 4 if inventory.broken_sources else 0


def _present(inventory: NodeInventory, library: ProfileLibrary) -> None:
    from hpcmgr.cli.console import table

    click.echo(f"{inventory.node}: {_processors(inventory)}")
    click.echo()
    if inventory.devices:
        rows = [_device_row(device, inventory.cpu, library) for device in inventory.devices]
        table(*_fitting(_DEVICE_HEADERS, rows), "Devices")
    else:
        click.echo("No devices.")
    pieces = [row for device in inventory.devices for row in _slice_rows(device, library)]
    if pieces:
        click.echo()
        table(("DEVICE", "SLICE", "PROFILE", "UNITS", "MEMORY", "FILES", "UUID"), pieces, "Slices")
    remarks = [
        f"{device.key}: {text}"
        for device in inventory.devices
        for text in (*device.health.reasons, *device.conflicts)
    ]
    for remark in remarks:
        click.echo(f"  {remark}")
    if inventory.nics:
        click.echo()
        nics = [
            (nic.name, nic.rdma or "-", nic.link_layer or "-", nic.state or "-",
             _speed(nic.speed_mbps), _or_unknown(nic.numa_node), nic.pci or "-")
            for nic in inventory.nics
        ]  # fmt: skip
        table(("NAME", "RDMA", "LAYER", "STATE", "SPEED", "NUMA", "PCI"), nics, "Network")
    click.echo()
    sources = [(source.name, source.state, source.detail) for source in inventory.sources]
    table(("SOURCE", "STATE", "DETAIL"), sources, "Sources")


def say_how_to_bind(inventory: NodeInventory, site: Site) -> None:
    """Where Slurm's sockets are too coarse for the devices, what would make them finer."""
    from hpcmgr.inventory.numa_sockets import advice
    from hpcmgr.slurm.capability import Release

    if any(group.sockets == "numa" for group in site.group_values(inventory.node.split(".")[0])):
        return
    release = Release.parse(site.slurm.version) if site.slurm.version else None
    text = advice(inventory, release)
    if text:
        click.echo(f"hpcmgr: note: {text}", err=True)


def _fitting(
    headers: tuple[str, ...], rows: list[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Without the columns that a narrow terminal has no room for; elsewhere all of them."""
    if not sys.stdout.isatty():
        return headers, rows
    room = shutil.get_terminal_size().columns
    kept = list(range(len(headers)))
    widths = [max(len(line[i]) for line in (headers, *rows)) + 3 for i in kept]
    for name in ("SERIAL", "KIND", "UNITS", "SOCKET", "PCI"):
        if sum(widths[i] for i in kept) < room:
            break
        kept.remove(headers.index(name))
    return tuple(headers[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]


def _processors(inventory: NodeInventory) -> str:
    cpu = inventory.cpu
    return (
        f"{cpu.sockets} sockets x {cpu.cores_per_socket} cores x {cpu.threads_per_core} threads, "
        f"{len(cpu.numa)} NUMA nodes, {_memory(inventory.memory_mib)}"
    )


def _device_row(device: Device, cpu: CpuTopology, library: ProfileLibrary) -> tuple[str, ...]:
    profile = library.get(device.profile) if device.profile else None
    socket = next((node.socket for node in cpu.numa if node.id == device.numa_node), None)
    return (
        _or_unknown(device.index),
        device.kind,
        device.model,
        device.profile or "-",
        _or_unknown(profile.booked_units if profile else None),
        _memory(device.memory_mib),
        _or_unknown(device.numa_node),
        _or_unknown(socket),
        device.pci or "-",
        " ".join(device.files) or "-",
        device.serial or "-",
        device.health.state,
    )


def _slice_rows(device: Device, library: ProfileLibrary) -> list[tuple[str, ...]]:
    """What a device is cut into; one that is to be cut shows as such."""
    profile = library.get(device.profile) if device.profile else None
    if device.sliced and not device.slices:
        return [(_or_unknown(device.index), "none", *("-",) * 5)]
    rows: list[tuple[str, ...]] = []
    for piece in device.slices:
        kind = library.slice_of(profile, piece.name) if profile else None
        rows.append(
            (
                _or_unknown(device.index),
                piece.name,
                kind.name if kind else "-",
                _or_unknown(kind.booked_units if kind else None),
                _memory(piece.memory_mib),
                " ".join(piece.files) or "-",
                piece.uuid or "-",
            )
        )
    return rows


def _memory(mib: int | None) -> str:
    return "?" if mib is None else f"{mib / 1024:.4g} GiB"


def _speed(mbps: int | None) -> str:
    return "-" if mbps is None else f"{mbps / 1000:g} Gb/s"


def _or_unknown(value: int | None) -> str:
    return "?" if value is None else str(value)
