"""hpcmgr fabric: what is written, what is refused, what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from hpcmgr.cli import run
from hpcmgr.inventory.store import save
from tests import fabric_texts as texts

CABLES = [
    *((f"n{i} mlx5_0", f"leaf{(i + 1) // 2}") for i in range(1, 5)),
    ("n1 mlx5_9", "stor1"),
    *((f"leaf{i}", "spine1") for i in (1, 2)),
    ("stor1", "spine1"),
]
DOMAIN = "7e1f0c55-3a0e-4d7f-8a46-21f5a8f35a11.3"


class Place:
    """A site of four nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scan = folder / "fabric.json"
        for i in range(1, 5):
            domain = DOMAIN if i < 3 else None
            save(texts.node(f"n{i}", near=["mlx5_0"], far=["mlx5_9"], domain=domain),
                 folder / "inventory")  # fmt: skip
        self.config = folder / "site.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "inventory": str(folder / "inventory"),
                    "topology": {"scan": str(self.scan), "plugins": ["tree", "block"]},
                    "slurm": {"version": "26.05.5"},
                }
            )
        )

    def ibnetdiscover(self, cables: list[texts.Cable]) -> str:
        path = self.folder / "ib.txt"
        path.write_text(texts.ibnetdiscover(cables))
        return str(path)

    def run(self, *args: str) -> int:
        with pytest.raises(SystemExit) as end:
            run(["--config", str(self.config), *args])
        return int(end.value.code or 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_scan_is_written_and_rendered(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says which rails count and why; render makes both topologies of it."""
    assert place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES),
                     "--nvlink") == 0  # fmt: skip
    told = capsys.readouterr().err
    assert "mlx5_9 left out on 1 node: farther from the devices" in told
    assert "fabric.json: written" in told

    assert place.run("render") == 0
    text = capsys.readouterr().out.partition("### topology.yaml\n")[2]
    tree, block = yaml.safe_load(text)
    assert tree == {
        "topology": "tree",
        "cluster_default": True,
        "tree": {
            "switches": [
                {"switch": "leaf1", "nodes": "n[1-2]"},
                {"switch": "leaf2", "nodes": "n[3-4]"},
                {"switch": "spine1", "children": "leaf[1-2]"},
            ]
        },
    }
    assert block == {
        "topology": "block",
        "cluster_default": False,
        "block": {
            "block_sizes": [2],
            "blocks": [
                {"block": "nvl-7e1f0c55-3", "nodes": "n[1-2]"},
                {"block": "unplaced", "nodes": "n[3-4]"},
            ],
        },
    }


def test_the_same_scan_again_writes_nothing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Equal fabric, equal bytes."""
    for _ in range(2):
        place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES))

    assert "fabric.json: unchanged" in capsys.readouterr().err


def test_an_incomplete_scan_is_refused_and_the_last_one_stays(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """A node is missing: exit 4, until somebody says that it is true."""
    place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES))
    before = place.scan.read_bytes()
    fewer = place.ibnetdiscover([c for c in CABLES if not c[0].startswith("n3 ")])

    assert place.run("fabric", "scan", "--ibnetdiscover", fewer) == 4
    told = capsys.readouterr().err
    assert "no compute NIC of n3 is in the scan" in told
    assert "--accept" in told
    assert place.scan.read_bytes() == before

    assert place.run("fabric", "scan", "--ibnetdiscover", fewer, "--accept") == 0
    assert place.scan.read_bytes() != before


@pytest.mark.parametrize("accept", [[], ["--accept"]])
def test_a_scan_that_cannot_be_read_is_refused_always(
    place: Place, accept: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was cut off may hold anything; a leaf that lost its uplink is no leaf."""
    path = Path(place.ibnetdiscover(CABLES))
    path.write_text(path.read_text().partition("Ca\t")[0])
    assert place.run("fabric", "scan", "--ibnetdiscover", str(path), *accept) == 1

    lost = place.ibnetdiscover([c for c in CABLES if c != ("leaf2", "spine1")])
    assert place.run("fabric", "scan", "--ibnetdiscover", lost, *accept) == 1

    told = capsys.readouterr().err
    assert "it is cut off" in told
    assert "switch leaf2 has no cable to any other switch" in told
    assert not place.scan.exists()


def test_a_broken_last_scan_is_replaced_only_when_somebody_says_so(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows which nodes it had."""
    place.scan.write_text("switches: [")

    assert place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES)) == 1
    told = capsys.readouterr().err
    assert "the last scan cannot be read" in told
    assert "fabric.json:1: no valid YAML" in told
    assert place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES),
                     "--accept") == 0  # fmt: skip


def test_subnets_are_scanned_one_by_one(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Switches of two subnets that are called alike are told apart."""
    other = place.folder / "other.txt"
    text = texts.ibnetdiscover([("n1 mlx5_9", "leaf1"), ("n2 mlx5_9", "leaf1")])
    other.write_text(text.replace("900a8403", "900a8404"))

    assert place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES),
                     "--ibnetdiscover", str(other), "-o", "-") == 0  # fmt: skip

    switches = json.loads(capsys.readouterr().out)["switches"]
    twins = [name for name in switches if name.startswith("leaf1")]
    assert len(twins) == 2
    assert {nic for name in twins for nic in switches[name]["hosts"]} == {"mlx5_0", "mlx5_9"}


def test_lldp_of_every_node(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """One file a node; one that is missing is a gap."""
    folder = place.folder / "lldp"
    folder.mkdir()
    for i in range(1, 4):
        (folder / f"n{i}.json").write_text(texts.lldp(("ens1", f"tor{(i + 1) // 2}")))

    assert place.run("fabric", "scan", "--lldp", str(folder), "-o", "-") == 4
    assert "no compute NIC of n4" in capsys.readouterr().err

    (folder / "n4.json").write_text(texts.lldp0(("ens1", "tor2")))
    assert place.run("fabric", "scan", "--lldp", str(folder), "-o", "-") == 0
    scan = yaml.safe_load(capsys.readouterr().out)
    assert scan["switches"]["core"]["links"] == "tor[1-2]"


def test_show_tells_the_tree_the_rails_and_what_is_missing(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """As tables and as JSON; 4 where a node has come that the scan does not know."""
    place.run("fabric", "scan", "--ibnetdiscover", place.ibnetdiscover(CABLES))
    capsys.readouterr()

    assert place.run("fabric", "show") == 0
    shown = capsys.readouterr().out
    assert "leaf1   nodes     n[1-2]" in shown
    assert "mlx5_9  infiniband  no" in shown

    save(texts.node("n5", near=["mlx5_0"]), place.folder / "inventory")
    assert place.run("fabric", "show", "--json") == 4
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "hpcmgr.fabric-tree/1"
    assert document["switches"]["spine1"]["switches"] == "leaf[1-2]"
    assert document["missing"] == ["no compute NIC of n5 is in the scan (1 node)"]


def test_without_a_source_or_a_fabric_the_next_step_is_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Usage, and a site that says nothing of its network."""
    assert place.run("fabric", "scan") == 2
    assert "give --ibnetdiscover, --lldp or --nvlink" in capsys.readouterr().err
    place.config.write_text(yaml.safe_dump({"inventory": str(place.folder / "inventory")}))
    assert place.run("fabric", "show") == 1
    assert "run 'hpcmgr fabric scan'" in capsys.readouterr().err
