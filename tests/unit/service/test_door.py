"""The door in a running service: its work keeps to its threads, its visitors to their limits."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpcmgr.errors import CredentialError
from hpcmgr.inventory import CpuTopology, NodeInventory
from hpcmgr.inventory.packed import digest_of, pack
from hpcmgr.profile.runtimes import Served
from hpcmgr.service import door as door_module
from hpcmgr.service.answerer import start
from hpcmgr.service.doorwire import line_of, payload_of
from hpcmgr.service.factswire import facts_of
from hpcmgr.service.journal import Journal
from hpcmgr.service.server import Server
from hpcmgr.service.sockets import listen
from hpcmgr.submit.facts import DeviceFacts, Known
from hpcmgr.submit.view import make_view
from tests.builders import A100, cluster, node, policy, submit

CREDENTIAL = "MUNGE:AwQDAADq9oFhAAAAAAAAAAAAAAAAAA==:"
SUBMISSION = b'{"v":1,"op":"submit","uid":1,"job":{}}\n'
ALICE, BOB, ROOT = 2001, 2002, 0


class House:
    """A service whose door is at ``port``."""

    def __init__(self, place: Path, **site: object) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.submit_socket = place / "submit.sock"
        self.journal = place / "journal.sqlite"
        rules = policy(
            A100,
            service={
                "socket": str(self.submit_socket),
                "state_dir": str(place),
                "door": f"127.0.0.1:{self.port}",
            },
            **site,
        )
        self.server = Server(rules, start(rules, listen(self.submit_socket)))

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        asyncio.run(self._run(scenario))

    async def _run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        running = asyncio.create_task(self.server.run())
        try:
            _, writer = await self.knock()
            writer.close()
            await scenario()
        finally:
            self.server._stop.set()
            await running

    async def knock(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(20):
            while True:
                try:
                    return await asyncio.open_connection("127.0.0.1", self.port)
                except OSError:
                    await asyncio.sleep(0.01)

    async def ask(self, body: str = "", **request: object) -> dict[str, Any]:
        return await self.say(line_of(json_credential(request), body))

    async def say(self, line: bytes) -> dict[str, Any]:
        reader, writer = await self.knock()
        writer.write(line)
        async with asyncio.timeout(20):
            answer = await reader.readline()
        writer.close()
        return dict(json.loads(answer)) if answer else {}


@pytest.fixture(name="house")
def _house(tmp_path: Path) -> House:
    return House(tmp_path)


REQUESTS: dict[str, dict[str, object]] = {}


def json_credential(request: dict[str, object]) -> str:
    """A credential for the fake munge below, which looks its request up."""
    credential = f"MUNGE:{len(REQUESTS):0>20}:"
    REQUESTS[credential] = request
    return credential


@pytest.fixture(name="visitor")
def _visitor(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Munge that vouches for ``visitor["uid"]``."""
    who = {"uid": ALICE}
    monkeypatch.setattr(
        door_module.munge,
        "decode",
        lambda credential: (who["uid"], payload_of(REQUESTS[credential])),
    )
    return who


def test_a_submission_is_answered_while_all_of_the_door_is_stuck(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Munge hangs, ten visitors wait for it, and the submit socket answers at once."""
    release, stuck = threading.Event(), threading.Semaphore(0)
    in_time: list[bool] = []

    def hang(_: str) -> tuple[int, str]:
        stuck.release()
        in_time.append(release.wait(20))
        raise CredentialError("too late")

    monkeypatch.setattr(door_module.munge, "decode", hang)

    async def scenario() -> None:
        visits = [asyncio.create_task(house.say(line_of(CREDENTIAL))) for _ in range(10)]
        await asyncio.to_thread(lambda: [stuck.acquire(timeout=15) for _ in range(2)])
        reader, writer = await asyncio.open_unix_connection(house.submit_socket)
        writer.write(SUBMISSION)
        answer = await reader.readline()
        release.set()
        assert json.loads(answer)["v"] == 1
        await asyncio.gather(*visits)

    house.run(scenario)
    assert in_time
    assert all(in_time)


def test_visitors_beyond_the_limit_of_their_host_are_shown_out(house: House) -> None:
    """Sixteen may stand there; the fourteen behind them are closed at once, and as soon as one has
    gone the next is let in."""

    async def scenario() -> None:
        mute = [await house.knock() for _ in range(30)]
        reads = [asyncio.create_task(reader.read()) for reader, _ in mute]
        async with asyncio.timeout(4):  # before the first one's time is up
            await asyncio.gather(*reads[16:], return_exceptions=True)
        standing = [read for read in reads if not read.done()]
        for _, writer in mute:
            writer.close()
        await asyncio.gather(*reads, return_exceptions=True)

        assert 15 <= len(standing) <= 16  # knock() itself was one, and may not have gone yet
        assert await house.say(b"{}\n")

    house.run(scenario)


def test_a_mute_visitor_is_shown_out_after_a_while(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nobody keeps the places of others."""
    monkeypatch.setattr(door_module, "_VISIT_SECONDS", 0.2)

    async def scenario() -> None:
        reader, writer = await house.knock()
        writer.write(b'{"v":1,"cre')
        async with asyncio.timeout(20):
            assert await reader.read() == b""
        writer.close()

    house.run(scenario)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"x" * 70_000, "bad-request"),
        (b"[" * 60_000 + b"\n", "bad-request"),
        (b"\n", "bad-request"),
        (b"\xff\x00\n", "bad-request"),
        (b'{"v":1}\n', "bad-request"),
        (b'{"v":1,"credential":"MUNGE:!!:"}\n', "credential"),
        (SUBMISSION, "bad-request"),
    ],
)
def test_garbage_is_answered_as_such(house: House, line: bytes, code: str) -> None:
    """And a submission cannot be made at the door."""

    async def scenario() -> None:
        assert (await house.say(line))["error_code"] == code

    house.run(scenario)


def test_records_are_shown_to_their_owner_and_to_administrators(
    house: House, visitor: dict[str, int]
) -> None:
    """By trace and by job; a record without an owner is an administrator's alone."""
    state = cluster(node("a1", gres={"gpu:a100": 1}))
    made = submit(state, house.server._policy, "compute:8")
    journal = Journal(house.journal)
    journal.put(replace(made, trace="t-aaaa"), uid=ALICE)
    journal.put(replace(made, trace="t-aaaa"), kind="move", job_id="77", uid=-1)
    journal.put(replace(made, trace="t-0000"), kind="bind", job_id="78", uid=-1)
    journal.close()

    async def seen(uid: int, **what: str) -> object:
        visitor["uid"] = uid
        answer = await house.ask(op="explain", **what)
        records = answer.get("records")
        return answer.get("error_code") if records is None else len(records)

    async def scenario() -> None:
        for what in ({"trace": "t-aaaa"}, {"job": "77"}):
            assert [await seen(uid, **what) for uid in (ALICE, BOB, ROOT)] == [2, "forbidden", 2]
        assert [await seen(uid, job="78") for uid in (ALICE, ROOT)] == ["forbidden", 1]
        assert await seen(BOB, trace="t-bbbb") == 0

    house.run(scenario)


def test_a_user_who_asks_too_often_is_put_off(house: House, visitor: dict[str, int]) -> None:
    """Another user of the same login node is still served."""

    async def scenario() -> None:
        codes = [
            (await house.ask(op="explain", trace="t-cccc")).get("error_code") for _ in range(40)
        ]
        visitor["uid"] = BOB
        other = await house.ask(op="explain", trace="t-cccc")
        assert codes[0] != "busy"
        assert codes.count("busy") >= 5
        assert other.get("error_code") != "busy"

    house.run(scenario)


def test_facts_of_all_nodes_are_told_in_rows_and_read_back(
    house: House, visitor: dict[str, int]
) -> None:
    """As the service has them; who knows nothing of a node says nothing."""
    del visitor
    state = cluster(*(node(f"a{i}", gres={"gpu:a100": 2}) for i in range(1, 5)))
    served = frozenset({Served(None, "12.4"), None})
    facts = {"gpu:a100": DeviceFacts(1, served, (2,), (1, 1))}
    known = Known(dict.fromkeys(("a1", "a2", "a4"), facts))

    async def scenario() -> None:
        snapshot = house.server._snapshot
        view = make_view(state, house.server._policy.library, known)
        object.__setattr__(view.state, "taken", snapshot._clock())
        snapshot.swap(view)
        answer = await house.ask(op="facts")

        assert [row["nodes"] for row in answer["facts"]] == ["a[1-2,4]"]
        assert facts_of(answer["facts"]) == known.facts

    house.run(scenario)


def test_a_quote_needs_a_picture_and_leaves_no_trace(house: House, visitor: dict[str, int]) -> None:
    """No debit, no journal record; before the first picture it says that there is none."""
    del visitor
    state = cluster(node("a1", gres={"gpu:a100": 1}))

    async def scenario() -> None:
        job = {"tres_per_node": "compute:8"}
        none = await house.ask(op="quote", job=job)
        snapshot = house.server._snapshot
        view = make_view(state, house.server._policy.library)
        object.__setattr__(view.state, "taken", snapshot._clock())
        snapshot.swap(view)
        first, second = [await house.ask(op="quote", job=job) for _ in range(2)]
        wrong = await house.ask(op="quote", job={"tres_per_node": "compute:0"})

        assert none["error_code"] == "unavailable"
        assert first["quote"] == second["quote"]
        assert first["quote"]["binding"]["gres"] == "gpu:a100"
        assert "no whole number" in wrong["quote"]["error"]
        current = snapshot.current()
        assert current
        assert current[1] == {}

    house.run(scenario)


def test_inventories_are_brought_and_fetched_by_root_only(
    tmp_path: Path, visitor: dict[str, int]
) -> None:
    """Root as often as his hosts may come; a body that is not the credential's is refused."""
    folder = tmp_path / "inventory"
    house = House(tmp_path, publish="push", inventory=folder)
    cpu = CpuTopology(sockets=1, cores_per_socket=1, threads_per_core=1)
    word = pack(NodeInventory(node="gpu01", cpu=cpu, memory_mib=1))
    sent = {"op": "publish", "node": "gpu01", "sha256": digest_of(word)}

    async def scenario() -> None:
        answers = []
        for uid in (ALICE, ROOT):
            visitor["uid"] = uid
            answers += [
                await house.ask(word, **sent),
                await house.ask(op="inventory", node="gpu01"),
            ]
        other = await house.ask(word[:-8], **sent)
        often = [await house.ask(op="inventory", node="gpu01") for _ in range(40)]

        assert [a.get("error_code") for a in answers] == ["forbidden", "forbidden", None, None]
        assert answers[2] == {"v": 1, "published": "gpu01", "devices": 0}
        assert answers[3]["inventory"] == word
        assert other["error_code"] == "bad-request"
        assert {a.get("error_code") for a in often} == {None}

    house.run(scenario)
    assert [path.name for path in folder.iterdir()] == ["gpu01.json"]


def test_a_site_with_a_shared_folder_takes_none(tmp_path: Path, visitor: dict[str, int]) -> None:
    """A node with another site.yaml must not write past the folder's owners."""
    house = House(tmp_path, inventory=tmp_path / "inventory")
    visitor["uid"] = ROOT

    async def scenario() -> None:
        answer = await house.ask(op="publish", node="gpu01", sha256="a" * 64)
        assert answer["error_code"] == "unavailable"
        assert "publish" in answer["detail"]

    house.run(scenario)
    assert not (tmp_path / "inventory").exists()


def test_a_taken_address_costs_the_door_and_not_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The submit socket answers; the log says which address could not be had."""
    house = House(tmp_path)
    with socket.create_server(("127.0.0.1", house.port)):

        async def scenario() -> None:
            async with asyncio.timeout(20):
                while "Address already in use" not in caplog.text:
                    await asyncio.sleep(0.01)
                reader, writer = await asyncio.open_unix_connection(house.submit_socket)
                writer.write(SUBMISSION)
                assert json.loads(await reader.readline())["v"] == 1

        house.run(scenario)
