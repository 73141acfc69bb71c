"""The NVLink domain of a GPU: what makes several nodes one block (GB200 NVL72)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.unit.discovery.conftest import Recording

Make = Callable[[str], Recording]
QX = ("nvidia-smi", "-q", "-x")
CLUSTER = "5f1c7a3e-91b2-4cc0-a3f7-0d6e2b8c4411"


def told(host: Recording, state: str, cluster: str, clique: str) -> Recording:
    """Every GPU says this of its fabric."""
    text = host.text(*QX)
    assert "<fabric>" not in text
    said = (
        f"<fabric><state>{state}</state><status>Success</status><cliqueId>{clique}</cliqueId>"
        f"<clusterUuid>{cluster}</clusterUuid></fabric></gpu>"
    )
    return host.answers(QX, text.replace("</gpu>", said))


@pytest.mark.parametrize(
    ("state", "cluster", "clique", "domain"),
    [
        ("Completed", CLUSTER, "32766", f"{CLUSTER}.32766"),
        ("Completed", "00000000-0000-0000-0000-000000000000", "0", None),
        ("In Progress", CLUSTER, "32766", None),
        ("Completed", CLUSTER, "N/A", None),
        ("N/A", "N/A", "N/A", None),
    ],
)
def test_the_domain_is_cluster_and_clique(
    recording: Make, state: str, cluster: str, clique: str, domain: str | None
) -> None:
    """Zeros are the NVLink of one machine; before the fabric manager is done nobody knows."""
    inventory = told(recording("a100x8"), state, cluster, clique).discover()

    assert {device.nvlink_domain for device in inventory.devices} == {domain}


def test_an_inventory_without_one_does_not_name_it(recording: Make) -> None:
    """An older controller refuses keys that it does not know."""
    plain = recording("a100x8").discover()
    in_rack = told(recording("a100x8"), "Completed", CLUSTER, "7").discover()

    assert "nvlink_domain" not in plain.to_json()
    assert json.loads(in_rack.to_json())["devices"][0]["nvlink_domain"] == f"{CLUSTER}.7"
