"""The figures as text for Prometheus (exposition format 0.0.4).

Parts of a whole are one metric with a label ``state``, so that they can be summed: used,
free_usable, free_unusable, reserved, out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hpcmgr.capacity.picture import Picture
from hpcmgr.capacity.view import By, Data, as_data

Labels = Mapping[str, str]
_PREFIX = "hpcmgr_capacity_"
_GIB = 1 << 30


@dataclass
class Metric:
    """One metric family, all gauges."""

    name: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        """One sample."""
        self.samples.append((labels, value))

    def lines(self) -> Iterator[str]:
        """HELP, TYPE and the samples."""
        name = _PREFIX + self.name
        yield f"# HELP {name} {self.help}"
        yield f"# TYPE {name} gauge"
        for labels, value in self.samples:
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            yield f"{name}{{{inner}}} {value:.15g}" if inner else f"{name} {value:.15g}"


def exposition(picture: Picture, by: By = "type") -> str:
    """All figures by type and partition; ``by`` user, account or class adds these."""
    data = {**as_data(picture, "partition"), **as_data(picture, by)}
    metrics = [
        *_of_the_look(picture, data), *_types(data), *_waiting(data["waiting"]),
        *_partitions(data["partitions"]), *_loads(data), *_classes(data), _nodes(picture),
    ]  # fmt: skip
    return "".join(line + "\n" for metric in metrics if metric.samples for line in metric.lines())


def _of_the_look(picture: Picture, data: Data) -> Iterator[Metric]:
    info = Metric("info", "The cluster and its Slurm release.")
    info.add(1, cluster=data["cluster"], slurm=data["slurm"])
    taken = Metric("taken_timestamp_seconds", "When Slurm was asked.")
    taken.add(picture.taken)
    took = Metric("read_duration_seconds", "How long reading and counting took.")
    took.add(picture.age)
    yield from (info, taken, took)


def _types(data: Data) -> Iterator[Metric]:
    devices = Metric("devices", "Accelerators by type and state.")
    units = Metric("units", "Neutral units of accelerators by type and state.")
    memory = Metric("device_memory_bytes", "Memory of accelerators by type and state.")
    largest = Metric("largest_request_devices", "Most devices that one job can get on a node now.")
    largest_units = Metric("largest_request_units", "The same in neutral units.")
    stoppable = Metric(
        "preemptable_devices", "Estimate: devices of jobs that this QOS or partition may stop."
    )
    for each in data["types"]:
        labels = {"type": each["gres"], "vendor": each["vendor"] or ""}
        for metric, what, factor in (
            (devices, "devices", 1), (units, "units", 1), (memory, "memory_gib", _GIB),
        ):  # fmt: skip
            for state, value in _states(each[what]):
                metric.add(value * factor, **labels, state=state)
        found = each["largest"] or {"devices": 0, "units": 0}
        largest.add(found["devices"], type=each["gres"])
        largest_units.add(found["units"] or 0, type=each["gres"])
        for who, number in each["preemptable"]["by"].items():
            stoppable.add(number, type=each["gres"], by=who)
    yield from (devices, units, memory, largest, largest_units, stoppable)


def _states(tally: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    yield "used", tally["used"]
    yield "free_usable", tally["usable"]
    yield "free_unusable", tally["free"] - tally["usable"]
    yield "reserved", tally["reserved"]
    yield "out", tally["out"]


def _waiting(rows: Iterable[Data]) -> Iterator[Metric]:
    metrics = {
        what: Metric(f"waiting_{what}", f"Waiting demand: {words}, by type and what for.")
        for what, words in (("jobs", "jobs"), ("devices", "devices"), ("units", "neutral units"))
    }
    for row in rows:
        for what, metric in metrics.items():
            queued = row["queued"][what]
            metric.add(queued, type=row["gres"], reason="turn")
            metric.add(row["waiting"][what] - queued, type=row["gres"], reason="other")
    yield from metrics.values()


def _partitions(rows: Iterable[Data]) -> Iterator[Metric]:
    devices = Metric("partition_devices", "As devices; a node counts in each of its partitions.")
    for row in rows:
        for here in row["types"]:
            for state, value in _states(here["devices"]):
                devices.add(value, partition=row["name"], type=here["gres"], state=state)
    yield devices


def _loads(data: Data) -> Iterator[Metric]:
    for key, label in (("users", "user"), ("accounts", "account"), ("classes", "class")):
        for what, words in (("jobs", "Jobs"), ("devices", "Devices"), ("units", "Neutral units")):
            metric = Metric(f"{label}_{what}", f"{words} held and asked, by {label}.")
            for row in data.get(key, ()):
                for state in ("held", "waiting"):
                    metric.add(row[state][what], **{label: row["name"], "state": state})
            yield metric


def _classes(data: Data) -> Iterator[Metric]:
    devices = Metric("class_serving_devices", "As devices; those that serve the class.")
    largest = Metric("class_largest_request_units", "Units that a node gives to the class now.")
    for row in data.get("classes", ()):
        if "devices" in row:
            for state, value in _states(row["devices"]):
                devices.add(value, **{"class": row["name"], "state": state})
            largest.add((row["largest"] or {"units": 0})["units"], **{"class": row["name"]})
    yield from (devices, largest)


def _nodes(picture: Picture) -> Metric:
    nodes = Metric("nodes", "Nodes with accelerators, by whether they take jobs.")
    here = [node for node in picture.capacity.nodes if node.here]
    out = sum(1 for node in here if node.why_out)
    nodes.add(len(here) - out, takes_jobs="yes")
    nodes.add(out, takes_jobs="no")
    return nodes


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
