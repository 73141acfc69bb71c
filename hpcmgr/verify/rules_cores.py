"""Rules about Cores=: Slurm's own core numbers, whole sockets, no thread siblings."""

from __future__ import annotations

from collections.abc import Iterator

from hpcmgr.slurm.capability import has
from hpcmgr.slurm.sockets import L3, how_to_split
from hpcmgr.verify.configuration import Configuration, GresRecord, Shape
from hpcmgr.verify.finding import Finding, error, warning
from hpcmgr.verify.values import Machine, format_cores, parse_cores


def cores_fit_the_node(c: Configuration) -> Iterator[Finding]:
    """Cores are within the node and cover whole sockets."""
    for shape in c.shapes:
        machine = c.machine(shape.node)
        for record in shape.records:
            if not record.cores:
                continue
            try:
                cores = parse_cores(record.cores)
            except ValueError as problem:
                yield error(
                    "cores-form",
                    record.place,
                    f"Cores={problem}",
                    "slurmd refuses the record.",
                    "write core numbers as in Cores=0-15",
                )
                continue
            if machine is None:
                yield _unknown_machine(shape, record)
            else:
                yield from _check(c, shape, record, cores, machine)


def _unknown_machine(shape: Shape, record: GresRecord) -> Finding:
    return warning(
        "cores-unchecked",
        shape.node.place,
        f"{shape.label}: the line names no Sockets and CoresPerSocket, but {record.place} has "
        f"Cores={record.cores}",
        "From CPUs alone Slurm makes sockets of one core each, and newer releases then refuse "
        "Cores=.",
        "add Sockets=, CoresPerSocket= and ThreadsPerCore= (see 'slurmd -C' on the node)",
    )


def _check(
    c: Configuration, shape: Shape, record: GresRecord, cores: set[int], machine: Machine
) -> Iterator[Finding]:
    last = machine.cores - 1
    if max(cores) > last:
        siblings = max(cores) < machine.cores * machine.threads_per_core
        yield error(
            "cores-siblings" if siblings else "cores-beyond",
            record.place,
            f"{shape.label}: Cores={record.cores}, but the node has cores 0-{last}",
            "Slurm counts cores, not threads: these are numbers of thread siblings."
            if siblings
            else "slurmd refuses the record and the node registers as invalid.",
            f"keep the numbers up to {last}: one whole socket, "
            f"for example Cores={format_cores(machine.socket_cores(0))}",
        )
        return
    yield from _sockets(c, shape, record, cores, machine)


def _sockets(
    c: Configuration, shape: Shape, record: GresRecord, cores: set[int], machine: Machine
) -> Iterator[Finding]:
    touched = sorted({core // machine.cores_per_socket for core in cores})
    whole = {core for socket in touched for core in machine.socket_cores(socket)}
    wanted = " or ".join(
        f"Cores={format_cores(machine.socket_cores(socket))}" for socket in touched[:4]
    )
    if cores != whole:
        refused = has(c.release, "CORES_BY_SOCKET")
        yield (error if refused else warning)(
            "cores-socket",
            record.place,
            f"{shape.label}: Cores={record.cores} is no whole socket "
            f"(a socket has {machine.cores_per_socket} cores)",
            "The node registers as invalid: the cores do not match socket boundaries."
            if refused
            else "Slurm 24.11.2 and newer refuse this.",
            f"write {wanted}, or let Slurm count smaller sockets: {how_to_split(c.release)}, or "
            f"{L3} in its place",
        )
    elif 1 < len(touched) < machine.sockets:
        refused = has(c.release, "CORES_ONE_SOCKET_OR_ALL")
        yield (error if refused else warning)(
            "cores-socket",
            record.place,
            f"{shape.label}: Cores={record.cores} is {len(touched)} of {machine.sockets} sockets",
            "Slurm 25.11 and newer take one socket or all cores, nothing between.",
            f"write {wanted}, or leave Cores= out",
        )


def machines_agree(c: Configuration) -> Iterator[Finding]:
    """The node line says of the machine what was found on it."""
    for shape in c.shapes:
        said = shape.node.machine
        for name in shape.names:
            found = c.machines.get(name)
            if found and said and found != said:
                yield error(
                    "machine-differs",
                    shape.node.place,
                    f"{name}: the line says {said.sockets} sockets x {said.cores_per_socket} cores "
                    f"x {said.threads_per_core} threads, the inventory says {found.sockets} x "
                    f"{found.cores_per_socket} x {found.threads_per_core}",
                    "slurmd then puts devices to wrong cores, or the node registers as invalid.",
                    "take Sockets, CoresPerSocket and ThreadsPerCore from the inventory",
                )
                break


def parameters_are_known(c: Configuration) -> Iterator[Finding]:
    """Older releases have them in SlurmdParameters alone, and their daemons do not start."""
    for shape in c.shapes:
        words = shape.node.keys.get("parameters")
        if words and not has(c.release, "NODE_LINE_PARAMETERS"):
            yield error(
                "node-parameters",
                shape.node.place,
                f"{shape.label}: Parameters={words} on the NodeName line",
                "Slurm before 25.11 does not know this key: its daemons refuse the file.",
                f"write SlurmdParameters={words} outside of the line; it holds for all nodes",
            )


def cpus_agree(c: Configuration) -> Iterator[Finding]:
    """CPUs= is the product of sockets, cores and threads, or the number of cores."""
    for shape in c.shapes:
        machine, text = shape.node.machine, shape.node.keys.get("cpus")
        if machine is None or not text or not text.isdecimal():
            continue
        if int(text) not in {machine.cores, machine.cores * machine.threads_per_core}:
            yield error(
                "cpus-differ",
                shape.node.place,
                f"{shape.label}: CPUs={text}, but Sockets x CoresPerSocket x ThreadsPerCore is "
                f"{machine.cores * machine.threads_per_core}",
                "Slurm drops the topology of the line and makes sockets of one core each.",
                "leave CPUs out",
            )


RULES = (cores_fit_the_node, machines_agree, parameters_are_known, cpus_agree)
