"""Facts out of inventories: recorded machines and small made-up ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmgr.configure import inventory_of
from hpcmgr.discovery import open_host
from hpcmgr.inventory import NodeInventory
from hpcmgr.profile import load_library
from hpcmgr.profile.runtimes import Served
from hpcmgr.settings import Site
from hpcmgr.submit.facts import DeviceFacts, node_facts

HOSTS = Path(__file__).parents[2] / "hosts"
LIBRARY = load_library()


def inventory(host: str) -> NodeInventory:
    return inventory_of(open_host(HOSTS / host), Site())


@pytest.mark.parametrize(
    ("host", "gres", "domains", "sockets"),
    [
        ("a100x8", "gpu:a100", (8,), (4, 4)),
        ("npu8", "npu:ascend910b3", (8,), (4, 4)),
        ("t4x4", "gpu:t4", (), (2, 2)),
        ("mixed", "npu:ascend910b3", (2,), (2,)),
    ],
)
def test_link_domains_and_sockets_of_recorded_machines(
    host: str, gres: str, domains: tuple[int, ...], sockets: tuple[int, ...]
) -> None:
    """NVLink and HCCS hold all eight together; a T4 has no link of its own."""
    facts = node_facts(inventory(host), LIBRARY)[gres]

    assert (facts.domains, facts.sockets, facts.failed) == (domains, sockets, 0)


def test_what_the_drivers_serve() -> None:
    """The driver's own word for CUDA."""
    facts = node_facts(inventory("mixed"), LIBRARY)

    assert facts["gpu:a100"].served == frozenset([Served(None, "12.4")])


def test_a_failed_device_leaves_its_domain() -> None:
    """The rest counts; equal nodes have equal facts."""
    told = inventory("a100x8")
    bad = told.devices[0].model_copy(
        update={"health": told.devices[0].health.model_copy(update={"state": "failed"})}
    )
    facts = node_facts(told.model_copy(update={"devices": (bad, *told.devices[1:])}), LIBRARY)

    assert facts["gpu:a100"] == DeviceFacts(
        failed=1, served=frozenset([Served(None, "12.2")]), domains=(7,), sockets=(4, 3)
    )


def test_a_failed_gpu_fails_its_slices_and_no_whole_one() -> None:
    """GPU 0 of mig4 is cut in four; GPU 1 is whole; GPU 2 has two slices of one kind."""
    told = inventory("mig4")
    bad = told.devices[0].model_copy(
        update={"health": told.devices[0].health.model_copy(update={"state": "failed"})}
    )
    facts = node_facts(told.model_copy(update={"devices": (bad, *told.devices[1:])}), LIBRARY)

    assert {gres: each.failed for gres, each in facts.items()} == {
        "gpu:a100": 0, "gpu:a100_1g.10gb": 2, "gpu:a100_2g.20gb": 1, "gpu:a100_3g.40gb": 1,
    }  # fmt: skip
