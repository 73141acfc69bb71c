"""Inventories as the service reads them: once, again when they change, never in its way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcmgr.errors import ConfigError
from hpcmgr.inventory import NodeInventory
from hpcmgr.inventory.store import save
from hpcmgr.service.knowledge import Knowledge, policy_of
from hpcmgr.settings import Site


def machine(node: str, health: str = "ok") -> NodeInventory:
    return NodeInventory.model_validate(
        {
            "node": node,
            "cpu": {"sockets": 1, "cores_per_socket": 4, "threads_per_core": 1},
            "memory_mib": 1000,
            "devices": [
                {"vendor": "nvidia", "model": "Tesla T4", "profile": "t4", "kind": "gpu",
                 "health": {"state": health}, "files": ["/dev/nvidia0"]}
            ],
        }
    )  # fmt: skip


class House:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        fabric = {"leaf": {"nodes": "n[1-2]"}}
        site = Site.model_validate({"inventory": str(folder), "fabric": fabric})
        self.knowledge = Knowledge(site, policy_of(site).library)

    def failed(self) -> dict[str, int]:
        self.knowledge.look()
        facts = self.knowledge.known.facts
        return {node: each["gpu:t4"].failed for node, each in facts.items()}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_inventories_are_looked_at_again(house: House) -> None:
    """What changed is read anew, what is gone is forgotten."""
    save(machine("n1"), house.folder)
    path = save(machine("n2"), house.folder)
    assert house.failed() == {"n1": 0, "n2": 0}

    save(machine("n1", "failed"), house.folder)
    path.unlink()
    assert house.failed() == {"n1": 1}


def test_a_broken_file_changes_nothing_and_is_told_once(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """What was known stays."""
    path = save(machine("n1", "failed"), house.folder)
    house.failed()
    path.write_text("{")
    for second in (1, 2):
        os.utime(path, (second, second))
        assert house.failed() == {"n1": 1}

    assert caplog.text.count("is no hpcmgr.node/1") == 1


def test_equal_nodes_are_kept_once(house: House) -> None:
    """Thousands of nodes are a handful of sorts."""
    save(machine("n1"), house.folder)
    save(machine("n2"), house.folder)
    house.knowledge.look()
    facts = house.knowledge.known.facts

    assert facts["n1"] is facts["n2"]
    assert house.knowledge.known.leaves == {"n1": "leaf", "n2": "leaf"}


def test_without_inventories_nothing_is_known(tmp_path: Path) -> None:
    """The service answers from Slurm's state alone."""
    assert House(tmp_path / "none").failed() == {}


def test_a_class_names_a_workload_of_the_table(tmp_path: Path) -> None:
    """A slip of the pen gets its correction; a site's own table may hold it."""
    classes = {"train": {"workload": "resnet-50-b65"}}
    with pytest.raises(ConfigError, match="did you mean 'resnet-50-b64'"):
        policy_of(Site.model_validate({"classes": classes}))

    table = tmp_path / "own.csv"
    table.write_text("workload,profile,speed,source\nresnet-50-b65,t4,1.5,own\n")
    site = Site.model_validate({"classes": classes, "performance": [str(table)]})
    policy = policy_of(site)
    t4 = policy.library.get("t4")

    assert t4 is not None
    assert policy.speeds.of("resnet-50-b65", t4).value == 1.5
