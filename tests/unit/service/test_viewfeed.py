"""A view arrives whole, however often it changes, and only what is new is sent."""

from __future__ import annotations

import pickle
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmgr.service.viewfeed import ViewReader, ViewWriter, dumps
from hpcmgr.slurm.accounts import Accounts, Association
from hpcmgr.slurm.state import ClusterState, NodeState
from hpcmgr.submit.expect import Expectation
from hpcmgr.submit.facts import Known
from hpcmgr.submit.view import ClusterView, make_view
from tests.builders import A100, ASCEND, cluster, node, policy

LIBRARY = policy(A100, ASCEND).library
GPUS = {"gpu:a100": 8}


def view_of(
    *nodes: NodeState, leaves: dict[str, str] | None = None, **state: object
) -> ClusterView:
    found: ClusterState = replace(cluster(*nodes), **state)  # type: ignore[arg-type]
    return make_view(found, LIBRARY, Known({}, leaves or {}, {}))


class Wire:
    """Both ends."""

    def __init__(self) -> None:
        self.writer, self.reader = ViewWriter(LIBRARY), ViewReader(LIBRARY)
        self.bytes = 0

    def send(self, view: ClusterView) -> ClusterView:
        pieces = list(self.writer.pieces(view))
        self.bytes = sum(map(len, pieces))
        *before, last = [self.reader.take(piece) for piece in pieces]
        assert before == [None] * len(before)
        assert last is not None
        assert last[0] == "view"
        assert isinstance(last[1], ClusterView)
        return last[1]


def same(one: ClusterView, two: ClusterView) -> bool:
    """In all that admission looks at."""
    states = [
        replace(v.state, pending=(), nodes=tuple(sorted(v.state.nodes, key=lambda n: n.name)))
        for v in (one, two)
    ]
    return (
        states[0] == states[1]
        and one.types == two.types
        and one.waiting == two.waiting
        and one.release == two.release
    )


NODES = st.dictionaries(
    st.sampled_from([f"n{i}" for i in range(12)]),
    st.tuples(st.integers(0, 8), st.booleans(), st.sampled_from(["gpu:a100", "npu:ascend910b3"])),
    max_size=12,
)


@settings(max_examples=60)
@given(st.lists(NODES, min_size=1, max_size=4))
def test_whatever_changes_it_arrives_as_it_is(
    steps: list[dict[str, tuple[int, bool, str]]],
) -> None:
    """Nodes come, go, and are other nodes under an old name."""
    wire = Wire()
    for step in steps:
        nodes = [
            replace(node(name, gres={gres: 8}, used={gres: used}), usable=up)
            for name, (used, up, gres) in step.items()
        ]
        view = view_of(*nodes)
        assert same(wire.send(view), view)


def test_what_is_the_same_is_not_sent_again() -> None:
    """A thousand nodes of which one has changed are a few pieces."""
    wire = Wire()
    wire.send(view_of(*(node(f"n{i:04}", gres=GPUS) for i in range(1000))))
    first = wire.bytes
    used = [{"gpu:a100": 1} if i == 7 else {} for i in range(1000)]
    changed = [node(f"n{i:04}", gres=GPUS, used=each) for i, each in enumerate(used)]

    assert same(wire.send(view_of(*changed)), view_of(*changed))
    assert wire.bytes < first / 4


def test_no_piece_takes_long_to_read() -> None:
    """Each holds a bounded number of things: answers wait for one piece at most."""
    accounts = Accounts(
        frozenset({"limits"}),
        {(f"a{i}", "", ""): Association(f"a{i}", per_job={"cpu": i}) for i in range(3000)},
    )
    nodes = [node(f"n{i:05}", gres=GPUS) for i in range(3000)]
    leaves = {each.name: "leaf" for each in nodes}

    pieces = list(ViewWriter(LIBRARY).pieces(view_of(*nodes, leaves=leaves, accounts=accounts)))

    large = [piece for piece in pieces if len(piece) > 8192]
    # Two indices, sent when they have changed: names only.
    assert len(large) <= 2
    assert max(map(len, large), default=0) < 200_000


def test_accounts_and_switches_arrive_and_change() -> None:
    """They are known by name, and sent anew when they are others."""
    wire = Wire()
    each = node("n1", gres=GPUS)
    one = Accounts(frozenset({"limits"}), {("a", "", ""): Association("a", per_job={"cpu": 1})})
    two = Accounts(frozenset({"limits"}), {("a", "", ""): Association("a", per_job={"cpu": 2})})
    for accounts, leaf in ((one, "l1"), (one, "l2"), (two, "l2"), (None, "l2"), (one, "l1")):
        view = view_of(each, leaves={"n1": leaf}, accounts=accounts)
        got = wire.send(view)
        assert got.state.accounts == accounts
        assert same(got, view)


def test_profiles_are_those_of_the_other_end() -> None:
    """They are not sent, so that both decide by the same one."""
    got = Wire().send(view_of(node("n1", gres=GPUS)))

    assert got.types[0][0] is LIBRARY.profiles[0]


def test_what_was_worked_out_for_requests_stays_here() -> None:
    """It is made anew by whoever needs it."""
    view = view_of(node("n1", gres=GPUS))
    view.memo["form"] = object()

    assert Wire().send(view).memo == {}


def test_other_messages_pass() -> None:
    """As they are."""
    reader = ViewReader(LIBRARY)
    expected = Expectation({"gpu:a100": ((0.0, 1),)})

    assert reader.take(dumps(("expected", expected))) == ("expected", expected)
    assert pickle.loads(dumps(("granted", (1.0, [("gpu:a100", 1)]))))[1][1] == [("gpu:a100", 1)]
