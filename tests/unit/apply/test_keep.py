"""Which nodes must wait, and that their lines stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmgr.apply import Job, LiveCluster, LiveNode, Workplace, plan_change
from hpcmgr.apply.layout import layouts
from hpcmgr.apply.plan import Change
from hpcmgr.errors import ApplyError
from hpcmgr.slurm.capability import Release
from hpcmgr.verify.configuration import read_configuration

RELEASE = Release(24, 11, 5)
SLURM = "ClusterName=c\nInclude hpcmgr.conf\nPartitionName=p Nodes=ALL\n"
SHAPE = "Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=1000"


def hpcmgr_conf(*lines: str, types: str = "compute,gpu") -> str:
    nodes = "".join(f"NodeName={line}\n" for line in lines)
    return f"GresTypes={types}\nTaskProlog=/x\n\n{nodes}"


def gres_conf(*lines: str) -> str:
    return "# order\n\n" + "".join(f"NodeName={line}\n" for line in lines)


OLD = {
    "slurm.conf": SLURM,
    "hpcmgr.conf": hpcmgr_conf(f"n[1-3] {SHAPE} Gres=gpu:t4:4,compute:8"),
    "gres.conf": gres_conf(
        "n[1-3] Name=gpu Type=t4 File=/dev/nvidia[0-3]",
        "n[1-3] Name=compute Count=8 Flags=CountOnly",
    ),
}
FEWER = {
    "hpcmgr.conf": hpcmgr_conf(f"n[1-3] {SHAPE} Gres=gpu:t4:3,compute:6"),
    "gres.conf": gres_conf(
        "n[1-3] Name=gpu Type=t4 File=/dev/nvidia[1-3]",
        "n[1-3] Name=compute Count=6 Flags=CountOnly",
    ),
}


def live(*busy: str, state: str = "R", used: dict[str, int] | None = None) -> LiveCluster:
    counts = {"gpu:t4": 1, "compute": 2} if used is None else used
    nodes = {n: LiveNode(n, "MIXED", used=counts if n in busy else {}) for n in ("n1", "n2", "n3")}
    return LiveCluster(nodes, tuple(Job("7", state, "alice", (n,)) for n in busy))


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Workplace:
    write(tmp_path, OLD)
    return Workplace(tmp_path)


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def change(place: Workplace, wanted: dict[str, str], cluster: LiveCluster) -> Change:
    return plan_change(place, wanted, cluster, RELEASE)


def test_a_busy_node_keeps_its_lines_word_for_word(place: Workplace) -> None:
    """The others change; the next plan with the same jobs finds nothing to do."""
    planned = change(place, FEWER, live("n2"))

    assert [w.node for w in planned.waiting] == ["n2"]
    assert planned.moved == ("n1", "n3")
    texts = planned.texts
    assert f"NodeName=n2 {SHAPE} Gres=gpu:t4:4,compute:8\n" in texts["hpcmgr.conf"]
    assert f"NodeName=n[1,3] {SHAPE} Gres=gpu:t4:3,compute:6\n" in texts["hpcmgr.conf"]
    assert "NodeName=n2 Name=gpu Type=t4 File=/dev/nvidia[0-3]\n" in texts["gres.conf"]
    write(place.conf_dir, texts)
    again = change(place, FEWER, live("n2"))
    assert again.files == ()
    assert [w.node for w in again.waiting] == ["n2"]
    write(place.conf_dir, change(place, FEWER, live()).texts)
    assert (place.conf_dir / "gres.conf").read_text() == FEWER["gres.conf"]
    assert (place.conf_dir / "hpcmgr.conf").read_text() == FEWER["hpcmgr.conf"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("compute:8", "compute:16"),
        ("Gres=", "Features=a,b Weight=3 Gres="),
        ("RealMemory=1000", "RealMemory=2000"),
        ("n[1-3]", "n1,n[2-3]"),
    ],
)
def test_counts_features_and_folding_change_under_jobs(
    place: Workplace, old: str, new: str
) -> None:
    """None of them moves a device."""
    wanted = {
        "hpcmgr.conf": OLD["hpcmgr.conf"].replace(old, new),
        "gres.conf": OLD["gres.conf"].replace("Count=8", "Count=16"),
    }
    planned = change(place, wanted, live("n1", "n2", "n3"))

    assert planned.waiting == ()
    assert planned.moved == ()
    assert planned.texts["hpcmgr.conf"] == wanted["hpcmgr.conf"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("hpcmgr.conf", "gpu:t4:4", "gpu:t4:5"),
        ("hpcmgr.conf", "gpu:t4:4", "gpu:t4:3,gpu:bad:1"),
        ("gres.conf", "Type=t4", "Type=t5"),
        ("gres.conf", "File=/dev/nvidia[0-3]", "File=/dev/nvidia3,/dev/nvidia[0-2]"),
        ("gres.conf", "[0-3]", "[0-3] Cores=0-7"),
        ("gres.conf", "[0-3]", "[0-3] Flags=one_sharing"),
        ("gres.conf", "# order", "AutoDetect=nvml"),
    ],
)
def test_what_could_move_a_device_waits(place: Workplace, name: str, old: str, new: str) -> None:
    """Counts, types, order, files, cores, flags, detection."""
    wanted = {n: OLD[n] for n in ("hpcmgr.conf", "gres.conf")}
    wanted[name] = wanted[name].replace(old, new)
    if "AutoDetect" in new:
        with pytest.raises(Exception, match="cannot be kept"):
            change(place, wanted, live("n2"))
        return
    planned = change(place, wanted, live("n2"))

    assert [w.node for w in planned.waiting] == ["n2"]


def test_a_split_record_is_no_change(place: Workplace) -> None:
    """The same files in the same order, written in two records."""
    wanted = {
        "hpcmgr.conf": OLD["hpcmgr.conf"],
        "gres.conf": gres_conf(
            "n[1-3] Name=gpu Type=t4 File=/dev/nvidia[0-1]",
            "n[1-3] Name=compute Count=8 Flags=CountOnly",
            "n[1-3] Name=gpu Type=t4 File=/dev/nvidia[2-3]",
        ),
    }
    assert change(place, wanted, live("n1", "n2")).waiting == ()


def test_two_ways_to_write_the_same_are_no_change(place: Workplace) -> None:
    """Flags that only set variables, cores as a list, CPUs beside sockets, an address that is the
    name."""
    hand = {
        "hpcmgr.conf": OLD["hpcmgr.conf"].replace(SHAPE, f"CPUs=16 NodeAddr=n1 {SHAPE}"),
        "gres.conf": OLD["gres.conf"].replace("[0-3]", "[0-3] Flags=nvidia_gpu_env"),
    }
    hand = {name: text.replace("n[1-3]", "n1") for name, text in hand.items()}
    one = {name: text.replace("n[1-3]", "n1") for name, text in OLD.items()}
    write(place.conf_dir, one)

    assert change(place, hand, live("n1")).waiting == ()


def test_a_job_without_devices_lets_devices_change_but_not_cores_nor_the_node_go(
    place: Workplace,
) -> None:
    """It has cores there, no devices."""
    cpu_job = live("n2", used={"gpu:t4": 0, "compute": 0})
    cores = {n: t.replace("CoresPerSocket=8", "CoresPerSocket=4") for n, t in OLD.items()}
    gone = {n: t.replace("n[1-3]", "n[1,3]") for n, t in OLD.items()}
    del cores["slurm.conf"], gone["slurm.conf"]

    assert change(place, FEWER, cpu_job).waiting == ()
    assert [w.node for w in change(place, cores, cpu_job).waiting] == ["n2"]
    planned = change(place, gone, cpu_job)
    assert [w.node for w in planned.waiting] == ["n2"]
    assert planned.files == ()


@pytest.mark.parametrize("state", ["S", "CG", "CF", "ST"])
def test_a_job_that_is_not_simply_running_counts_whatever_it_holds(
    place: Workplace, state: str
) -> None:
    """slurmctld's count of used devices may be ahead of its epilog."""
    cluster = live("n2", state=state, used={})

    assert [w.node for w in change(place, FEWER, cluster).waiting] == ["n2"]


def test_names_and_tracked_tres_of_kept_lines_stay_known(place: Workplace) -> None:
    """A name that only a waiting node still has stays in GresTypes; what was tracked, tracked."""
    old = OLD["hpcmgr.conf"].replace("TaskProlog", "AccountingStorageTRES=gres/compute,gres/gpu,"
                                     "gres/gpu:t4\nTaskProlog")  # fmt: skip
    write(place.conf_dir, {"hpcmgr.conf": old})
    wanted = {
        "hpcmgr.conf": hpcmgr_conf(f"n[1-3] {SHAPE} Gres=dcu:z100:4", types="dcu").replace(
            "TaskProlog", "AccountingStorageTRES=gres/dcu,gres/dcu:z100\nTaskProlog"
        ),
        "gres.conf": gres_conf("n[1-3] Name=dcu Type=z100 File=/dev/dri/card[0-3]"),
    }
    text = change(place, wanted, live("n2")).texts["hpcmgr.conf"]

    assert "GresTypes=compute,dcu,gpu\n" in text
    tracked = "gres/dcu,gres/dcu:z100,gres/compute,gres/gpu,gres/gpu:t4"
    assert f"AccountingStorageTRES={tracked}\n" in text


def test_a_line_of_the_sites_own_file_is_not_copied(place: Workplace) -> None:
    """A waiting node whose NodeName stands in slurm.conf keeps it there."""
    own = SLURM.replace("Include", f"NodeName=n2 {SHAPE} Gres=gpu:t4:4\nInclude")
    write(place.conf_dir, {"slurm.conf": own, "hpcmgr.conf": hpcmgr_conf(f"n1 {SHAPE}")})
    wanted = {
        "hpcmgr.conf": hpcmgr_conf(f"n1 {SHAPE}"),
        "gres.conf": gres_conf("n2 Name=gpu Type=t4 File=/dev/nvidia[1-3]"),
    }
    planned = change(place, wanted, live("n2"))

    assert "n2" not in planned.texts.get("hpcmgr.conf", "")


_nodes = st.sets(st.sampled_from(["n1", "n2", "n3"]))
_gpus = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)


@given(busy=_nodes, gone=_nodes, old=_gpus, new=_gpus)
def test_whatever_is_wanted_a_busy_node_stays_as_it_is(
    tmp_path_factory: pytest.TempPathFactory,
    busy: set[str],
    gone: set[str],
    old: list[int],
    new: list[int],
) -> None:
    """For any old and new devices: the layout of a node with jobs is the same before and after."""
    folder = tmp_path_factory.mktemp("conf")

    def files(numbers: list[int], names: list[str]) -> dict[str, str]:
        paths = ",".join(f"/dev/nvidia{n}" for n in numbers)
        listed = ",".join(names)
        if not names:
            return {"hpcmgr.conf": hpcmgr_conf(), "gres.conf": "# order\n"}
        return {
            "hpcmgr.conf": hpcmgr_conf(f"{listed} {SHAPE} Gres=gpu:t4:{len(numbers)}"),
            "gres.conf": gres_conf(f"{listed} Name=gpu Type=t4 File={paths}"),
        }

    write(folder, {"slurm.conf": SLURM, **files(old, ["n1", "n2", "n3"])})
    before = layouts(read_configuration(folder, RELEASE))
    left = sorted({"n1", "n2", "n3"} - gone)

    planned = plan_change(Workplace(folder), files(new, left), live(*busy), RELEASE)
    write(folder, planned.texts)
    after = layouts(read_configuration(folder, RELEASE))

    for name in busy:
        assert after[name].devices == before[name].devices
        assert after[name].shape == before[name].shape
    assert set(after) == {*left, *busy}


class TestPartitionsThatGo:
    """slurmctld ends every job, running or waiting, whose partition is not there any more."""

    NEW = "PartitionName=q Nodes=n[1-2]\n"

    def test_one_with_jobs_stops_the_apply(self, place: Workplace) -> None:
        """It says which and what to do; without jobs, or renamed by the site, all is well."""
        gone = {"hpcmgr.conf": OLD["hpcmgr.conf"]}
        write(place.conf_dir, {"hpcmgr.conf": OLD["hpcmgr.conf"] + self.NEW})
        jobs = replace(live(), partitions={"p": 5, "q": 2})

        with pytest.raises(ApplyError, match=r"would go: q \(2\)"):
            change(place, gone, jobs)

        assert change(place, gone, live()).gone == ("q",)
        kept = {"hpcmgr.conf": OLD["hpcmgr.conf"] + self.NEW.replace("n[1-2]", "n1")}
        assert change(place, kept, jobs).gone == ()
