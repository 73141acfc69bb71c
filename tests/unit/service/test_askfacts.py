"""What is known of the nodes: from the door, and without it from the inventories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcmgr.errors import ServiceError
from hpcmgr.profile import ProfileLibrary
from hpcmgr.profile.runtimes import Served
from hpcmgr.service import askfacts
from hpcmgr.settings import Site
from hpcmgr.submit.facts import DeviceFacts
from tests.builders import A100

ROW = {"gres": "gpu:a100", "nodes": "g[1-2]", "failed": 1, "served": [[None, "12.4"], None],
       "domains": [4], "sockets": [2, 2]}  # fmt: skip
FACTS = {"gpu:a100": DeviceFacts(1, frozenset({Served(None, "12.4"), None}), (4,), (2, 2))}
LIBRARY = ProfileLibrary((A100,))


def site(folder: Path) -> Site:
    return Site.model_validate({"inventory": folder, "service": {"door": "ctl:7321"}})


def test_the_service_tells_in_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read here."""
    monkeypatch.setattr(askfacts, "ask", lambda *_: {"facts": [ROW]})

    assert askfacts.ask_known(site(tmp_path / "none"), LIBRARY).facts == {"g1": FACTS, "g2": FACTS}


@pytest.mark.parametrize(
    "answer",
    [{}, {"facts": None}, {"facts": [{}]}, {"facts": [{**ROW, "nodes": "g["}]},
     {"facts": [{**ROW, "served": 1}]}, {"facts": [{**ROW, "failed": "x"}]}, None],
)  # fmt: skip
def test_who_does_not_answer_as_expected_is_not_heard(
    answer: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older service, or none."""

    def ask(*_: object) -> dict[str, Any]:
        if answer is None:
            raise ServiceError("nobody there")
        return answer

    monkeypatch.setattr(askfacts, "ask", ask)

    assert askfacts.ask_known(site(tmp_path), LIBRARY).facts == {}
