"""``hpcmgr sync``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpcmgr.inventory import NodeInventory
    from hpcmgr.inventory.drift import Drift, Position
    from hpcmgr.plan import NodePlan
    from hpcmgr.profile import ProfileLibrary
    from hpcmgr.service.publishing import Place
    from hpcmgr.settings import Site

NODE_DIR = Path("/etc/hpcmgr")
STATE_DIR = Path("/var/lib/hpcmgr")
"""Node-local: what a later sync must know of this one."""


@click.command()
@click.option(
    "--host",
    type=click.Path(path_type=Path, exists=True),
    help="Take this recorded host for the machine.",
)
@click.option("--node", help="This node's name in Slurm; default: its short host name.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, write nothing.")
@click.option(
    "--accept",
    is_flag=True,
    help="Take the loss of all devices since the last sync for true, and links that are down now.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what changed as JSON.")
@click.pass_obj
def command(
    config: Path | None,
    host: Path | None,
    node: str | None,
    dry_run: bool,
    accept: bool,
    as_json: bool,
) -> int:
    """On a compute node: discover, publish the inventory, write node-local files.

    Says what changed since the last inventory, device by device. A source that is broken makes the
    result partial (exit 4): nothing is published then, so that the node keeps what it last had.

    Exit codes: 0 published, 3 all devices are gone, 4 a source is broken (nothing is published).
    """
    from hpcmgr.configure import inventory_of
    from hpcmgr.discovery import open_host
    from hpcmgr.inventory.drift import Drift
    from hpcmgr.profile.site import library_of
    from hpcmgr.service.publishing import place_of
    from hpcmgr.settings import load_site

    site = load_site(config)
    place = place_of(site)
    inventory = inventory_of(open_host(host), site, node)
    if inventory.broken_sources:
        for source in inventory.broken_sources:
            _tell(f"{source.name} is broken: {source.detail}")
        _tell("nothing published: the node keeps its last inventory ('hpcmgr doctor' says more)")
        _print(Drift(inventory.node), inventory, as_json=as_json, published=False)
        return 4
    before, readable = _before(place, inventory, site, dry_run=dry_run)
    inventory = _settled(before, inventory, accept=accept, dry_run=dry_run)
    library = library_of(site)
    plan = _plan(inventory, library, site)
    drift = _drift(before, inventory, plan, library, site)
    _say(drift)
    if not accept and not inventory.devices and (not readable or (before and before.devices)):
        _refuse(inventory.node, before)
        _print(drift, inventory, as_json=as_json, published=False)
        return 3
    _write(inventory, plan, place, accept=accept, dry_run=dry_run)
    _print(drift, inventory, as_json=as_json, published=not dry_run)
    return 0


def _tell(text: str) -> None:
    click.echo(f"hpcmgr: {text}", err=True)


def _before(
    place: Place, found: NodeInventory, site: Site, *, dry_run: bool
) -> tuple[NodeInventory | None, bool]:
    """As ``_last``. Where nobody can be asked, the jobs of this node still get what they need."""
    from hpcmgr.errors import CredentialError, ServiceError
    from hpcmgr.profile.site import library_of

    try:
        return _last(place, found.node)
    except (ServiceError, CredentialError):
        if found.devices and not dry_run:
            _write_here(_plan(found, library_of(site), site))
            _tell(f"nothing published; only the files in {NODE_DIR} were written")
        raise


def _last(place: Place, node: str) -> tuple[NodeInventory | None, bool]:
    """What was published last; and whether that could be read. A broken file is no reason to keep
    it."""
    from hpcmgr.errors import InventoryError

    try:
        return place.last(node), True
    except InventoryError as error:
        _tell(f"the last inventory cannot be compared with: {error.message}")
        return None, False


def _settled(
    before: NodeInventory | None, found: NodeInventory, *, accept: bool, dry_run: bool
) -> NodeInventory:
    """The inventory with the last state of links that are down for a moment only."""
    from hpcmgr.files import write_atomically
    from hpcmgr.inventory.flaps import WAIT, settle

    notes = STATE_DIR / f"sync-{found.node}.json"
    now = time.time()
    settled, waiting = settle(before, found, _down_since(notes), now)
    if accept:
        settled, waiting = found, {}
    if not dry_run and (waiting or notes.exists()):
        try:
            write_atomically(notes, json.dumps({"down_since": waiting}) + "\n")
        except OSError as error:
            # Without a memory a link would stay up for ever.
            _tell(f"{notes} cannot be written ({error.strerror}): links are published as they are")
            return found
    for name, since in sorted(waiting.items()):
        left = max(1, round((WAIT - (now - since)) / 60))
        _tell(
            f"{name} is down; it is published as active for {left} more minutes, since links come "
            "and go (--accept: at once)"
        )
    return settled


def _down_since(notes: Path) -> dict[str, float]:
    try:
        known: Any = json.loads(notes.read_text(encoding="utf-8"))["down_since"]
        return {str(name): float(since) for name, since in known.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _plan(inventory: NodeInventory, library: ProfileLibrary, site: Site) -> NodePlan:
    from hpcmgr.plan import make_plan

    return make_plan([inventory], library, site).nodes[0]


def _drift(
    before: NodeInventory | None,
    after: NodeInventory,
    plan: NodePlan,
    library: ProfileLibrary,
    site: Site,
) -> Drift:
    from hpcmgr.errors import PlanError
    from hpcmgr.inventory.drift import compare
    from hpcmgr.inventory.elsewhere import find

    old: tuple[Position, ...] = ()
    if before is not None:
        try:
            old = _positions(_plan(before, library, site))
        except PlanError as error:
            _tell(f"the last inventory made no valid plan: {error.message}")
    return compare(
        before,
        after,
        old_positions=old,
        new_positions=_positions(plan),
        elsewhere=lambda device: find(device, site.inventory, after.node),
    )


def _positions(plan: NodePlan) -> tuple[Position, ...]:
    """The devices as Slurm counts them: by GRES name, in the order of the plan."""
    from hpcmgr.inventory.drift import Position

    return tuple(
        Position(name, number, device.profile.gres.type, device.files)
        for name in dict.fromkeys(device.profile.gres.name for device in plan.devices)
        for number, device in enumerate(plan.of_name(name))
    )


def _say(drift: Drift) -> None:
    for change in drift.changes:
        _tell(f"{change.level}: {drift.node}: {change}")


def _refuse(node: str, before: NodeInventory | None) -> None:
    if before is None:
        said = f"{node} has no devices, and what it had before cannot be read"
    else:
        said = f"all {len(before.devices)} devices of {node} are gone since the last sync"
    _tell(f"error: {said}; nothing published")
    _tell("hint: look at the driver; if it is true, run 'hpcmgr sync --accept'")


def _write(
    inventory: NodeInventory, plan: NodePlan, place: Place, *, accept: bool, dry_run: bool
) -> None:
    from hpcmgr.render import render_node

    where = place.name(inventory.node)
    if dry_run:
        for name in (where, *(NODE_DIR / name for name in render_node(plan))):
            click.echo(f"would write {name}", err=True)
        return
    place.publish(inventory, accept=accept)
    _write_here(plan)
    click.echo(f"{inventory.node}: {len(inventory.devices)} devices, {where}", err=True)


def _write_here(plan: NodePlan) -> None:
    """What TaskProlog reads on this node."""
    from hpcmgr.files import write_atomically
    from hpcmgr.render import render_node

    for name, text in render_node(plan).items():
        write_atomically(NODE_DIR / name, text, 0o755 if name.endswith(".sh") else 0o644)


def _print(drift: Drift, inventory: NodeInventory, *, as_json: bool, published: bool) -> None:
    if as_json:
        broken = [source.model_dump(mode="json") for source in inventory.broken_sources]
        document = {**drift.as_json(published=published), "broken": broken}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
