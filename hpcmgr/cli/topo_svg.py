"""The device graph as a picture: one self-contained SVG file.

Sockets are boxes side by side, NUMA nodes boxes in them; NICs stand above the devices. Every
direct link (or group of devices that are all linked to each other) has a line of its own below,
with its name at the left, so that no two labels meet whatever a machine has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from hpcmgr.discovery.node_graph import End, Group, NodeGraph
from hpcmgr.inventory import Nic, NumaNode

FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
CHAR = 0.62
"""Width of a character, in font sizes: the widest of the fonts has 0.602."""

_CELL_W, _CELL_H, _GAP, _PAD, _EDGE = 164, 62, 14, 12, 24
_ROW_GAP, _HEAD, _LANE = 30, 62, 22
_NEAR = ("PIX", "pix", "PXB", "pxb")
_KIND_COLOURS = {"gpu": "#dff0d8", "npu": "#fde7c7", "nic": "#dbe9f6"}
_LINE_COLOURS = ("#2e7d32", "#c2571a", "#1565c0", "#7b1fa2", "#00838f", "#ad1457")


@dataclass(slots=True)
class _Numa:
    """A NUMA node and what stands in its columns."""

    node: NumaNode | None
    devices: list[End] = field(default_factory=list)
    nics: dict[int, End] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        return max(1, len(self.devices), *(column + 1 for column in self.nics), 1)

    @property
    def width(self) -> int:
        return self.columns * (_CELL_W + _GAP) - _GAP + 2 * _PAD


def picture(graph: NodeGraph) -> str:
    """The SVG text; equal graphs give equal bytes."""
    return _Picture(graph).text()


class _Picture:
    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._groups = graph.groups()
        self._places: dict[str, tuple[float, float]] = {}
        self._svg = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": FONT})
        labels = [_lane_label(group) for group in self._groups]
        label_width = max((_width(label, 12) for label in labels), default=0.0)
        self._left: float = _EDGE + (label_width + _EDGE if labels else 0)
        self._sockets = _arranged(graph)
        rows = [numa for _, numas in self._sockets for numa in numas]
        self._has_nics = any(numa.nics for numa in rows)
        self._has_devices = any(numa.devices for numa in rows)

    def text(self) -> str:
        """Draw everything and measure the page at the end."""
        inventory = self._graph.inventory
        SubElement(self._svg, "title").text = f"Devices of {inventory.node}"
        background = SubElement(self._svg, "rect", {"fill": "#ffffff"})
        cpu = inventory.cpu
        head = (
            f"{inventory.node}: {cpu.sockets} sockets x {cpu.cores_per_socket} cores x "
            f"{cpu.threads_per_core} threads, {inventory.memory_mib / 1024:.4g} GiB"
        )
        self._write(head, self._left, _EDGE + 14, 16, bold=True)
        right, bottom = self._draw_sockets(_EDGE + 34)
        self._draw_near()
        bottom = self._draw_lanes(bottom + _EDGE)
        bottom = self._draw_legend(bottom + 8)
        width = max(right, self._left + _width(head, 16), self._legend_right) + _EDGE
        size = {"width": f"{width:.0f}", "height": f"{bottom + _EDGE / 2:.0f}"}
        background.attrib.update(size)
        self._svg.attrib.update(size | {"viewBox": f"0 0 {size['width']} {size['height']}"})
        indent(self._svg)
        return tostring(self._svg, encoding="unicode") + "\n"

    def _draw_sockets(self, top: float) -> tuple[float, float]:
        """The boxes from left to right; gives where they end."""
        rows = self._has_nics + self._has_devices
        numa_height = _HEAD + rows * _CELL_H + max(0, rows - 1) * _ROW_GAP + (_PAD if rows else 0)
        height = numa_height + 30 + _PAD
        x = self._left
        for title, numas in self._sockets:
            boxes = sum(numa.width + _PAD for numa in numas) + _PAD
            width = max(boxes, _width(title, 14) + 2 * _PAD)
            self._box(x, top, width, height, "#f4f4f4", "#777777", 8)
            self._write(title, x + _PAD, top + 21, 14, bold=True)
            inner = x + _PAD
            for numa in numas:
                self._draw_numa(numa, inner, top + 30, numa_height)
                inner += numa.width + _PAD
            x += width + _EDGE
        return x - _EDGE, top + height

    def _draw_numa(self, numa: _Numa, x: float, top: float, height: float) -> None:
        self._box(x, top, numa.width, height, "#ffffff", "#bbbbbb", 6)
        lines = _numa_lines(numa.node)
        for number, line in enumerate(lines):
            y = top + 18 + 16 * number
            self._write(line, x + _PAD, y, 11, room=numa.width - 2 * _PAD, bold=number == 0)
        y = top + _HEAD
        for column, nic in numa.nics.items():
            self._cell(nic, x + _PAD + column * (_CELL_W + _GAP), y)
        if self._has_nics:
            y += _CELL_H + _ROW_GAP
        for column, device in enumerate(numa.devices):
            self._cell(device, x + _PAD + column * (_CELL_W + _GAP), y)

    def _cell(self, end: End, x: float, y: float) -> None:
        kind = end.device.kind if end.device else "nic"
        sick = end.device is not None and end.device.health.state in ("failed", "degraded")
        line = "#c62828" if sick else "#555555"
        self._box(x, y, _CELL_W, _CELL_H, _KIND_COLOURS.get(kind, "#eeeeee"), line, 5)
        for number, text in enumerate(_cell_lines(end)):
            size = 12 if number == 0 else 11
            self._write(text, x + 8, y + 18 + 18 * number, size, _CELL_W - 16, bold=number == 0)
        self._places[end.name] = (x, y)

    def _draw_near(self) -> None:
        """Dashes between a NIC and the devices that no NIC is nearer to, behind one switch."""
        for nic, device in _near(self._graph):
            (nic_x, nic_y), (x, y) = self._places[nic.name], self._places[device.name]
            line = {"stroke": "#1565c0", "stroke-width": "1.5", "stroke-dasharray": "4 3"}
            self._line(nic_x + _CELL_W / 2, nic_y + _CELL_H, x + _CELL_W / 2, y, line)

    def _draw_lanes(self, y: float) -> float:
        """One line a group, a stub from each of its members."""
        stubs = {end.name: 0 for end in self._graph.ends}
        totals = {name: sum(name in _names(g) for g in self._groups) for name in stubs}
        colours = {kind: number for number, kind in enumerate(_kinds(self._groups))}
        for group in self._groups:
            colour = _LINE_COLOURS[colours[group.kind] % len(_LINE_COLOURS)]
            line = {"stroke": colour, "stroke-width": "2"}
            ends = []
            for end in group.ends:
                stubs[end.name] += 1
                x, top = self._places[end.name]
                x += _CELL_W * stubs[end.name] / (totals[end.name] + 1)
                ends.append(x)
                self._line(x, top + _CELL_H, x, y, line)
                dot = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3", "fill": colour}
                SubElement(self._svg, "circle", dot)
            self._line(min(ends), y, max(ends), y, line)
            self._write(_lane_label(group), _EDGE, y + 4, 12, colour=colour)
            y += _LANE
        return y

    def _draw_legend(self, y: float) -> float:
        said = [] if self._groups or not self._has_devices else ["no direct links between devices"]
        kinds = sorted({way.kind for a, b in _near(self._graph) if (way := self._graph.way(a, b))})
        if kinds:
            said.append(f"dashes: {' or '.join(kinds)}, a PCIe switch between NIC and device")
        self._legend_right = self._left
        for line in said:
            self._write(line, self._left, y + 10, 11, colour="#555555")
            self._legend_right = max(self._legend_right, self._left + _width(line, 11))
            y += 18
        return y

    def _box(
        self, x: float, y: float, width: float, height: float, fill: str, line: str, round_: int
    ) -> None:
        place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{width:.1f}"}
        look = {"height": f"{height:.1f}", "rx": str(round_), "fill": fill, "stroke": line}
        SubElement(self._svg, "rect", place | look)

    def _line(self, x1: float, y1: float, x2: float, y2: float, look: dict[str, str]) -> None:
        place = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
        SubElement(self._svg, "line", place | look)

    def _write(
        self,
        text: str,
        x: float,
        y: float,
        size: int,
        room: float | None = None,
        *,
        bold: bool = False,
        colour: str = "#222222",
    ) -> None:
        """One line of text; what does not fit is cut and stands in full under the pointer."""
        look = {"x": f"{x:.1f}", "y": f"{y:.1f}", "font-size": str(size), "fill": colour}
        element = SubElement(self._svg, "text", look | ({"font-weight": "bold"} if bold else {}))
        most = len(text) if room is None else int(room / (CHAR * size))
        element.text = text if len(text) <= most else text[: max(most - 1, 0)] + "…"
        if element.text != text:
            SubElement(element, "title").text = text


def _arranged(graph: NodeGraph) -> list[tuple[str, list[_Numa]]]:
    """Sockets in order with their NUMA nodes, then what has no known place."""
    nodes: list[NumaNode | None] = [
        node
        for node in graph.inventory.cpu.numa
        if node.cpus or any(end.numa == node.id for end in graph.ends)
    ]
    known = {node.id for node in nodes if node is not None}
    if any(end.numa not in known for end in graph.ends):
        nodes.append(None)
    sockets: dict[str, list[_Numa]] = {}
    for node in sorted(nodes, key=_order):
        numa = _filled(graph, node, known)
        sockets.setdefault(_socket_title(node), []).append(numa)
    return list(sockets.items())


def _order(node: NumaNode | None) -> tuple[bool, bool, int, int]:
    if node is None:
        return True, True, 0, 0
    return False, node.socket is None, node.socket or 0, node.id


def _socket_title(node: NumaNode | None) -> str:
    if node is None:
        return "place unknown"
    if node.socket is None:
        return "of several sockets" if node.cpus else "without CPUs"
    return f"socket {node.socket}"


def _filled(graph: NodeGraph, node: NumaNode | None, known: set[int]) -> _Numa:
    """The ends of a NUMA node; a NIC stands above a device that it is near to."""
    here = [
        end
        for end in graph.ends
        if (end.numa not in known if node is None else end.numa == node.id)
    ]
    numa = _Numa(node, [end for end in here if end.device])
    near = [(nic, numa.devices.index(d)) for nic, d in _near(graph) if d in numa.devices]
    nics = [end for end in here if end.nic]
    for nic in nics:
        wanted = [column for other, column in near if other is nic and column not in numa.nics]
        if wanted:
            numa.nics[wanted[0]] = nic
    placed = {nic.name for nic in numa.nics.values()}
    for nic in (nic for nic in nics if nic.name not in placed):
        numa.nics[next(c for c in range(len(nics) + numa.columns) if c not in numa.nics)] = nic
    return numa


def _near(graph: NodeGraph) -> list[tuple[End, End]]:
    """Each NIC with the devices that are nearest to it, if only PCIe switches lie between."""
    found = []
    devices = [end for end in graph.ends if end.device]
    for nic in (end for end in graph.ends if end.nic):
        ways = [(way.kind, d) for d in devices if (way := graph.way(nic, d)) is not None]
        best = next((word for word in _NEAR if any(kind == word for kind, _ in ways)), None)
        found += [(nic, d) for kind, d in ways if kind == best and d.numa == nic.numa]
    return found


def _numa_lines(node: NumaNode | None) -> list[str]:
    if node is None:
        return ["NUMA node unknown"]
    memory = [] if node.memory_mib is None else [f"{node.memory_mib / 1024:.4g} GiB"]
    return [f"NUMA {node.id}", f"CPUs {node.cpus or 'none'}", *memory]


def _cell_lines(end: End) -> list[str]:
    what = end.what
    if isinstance(what, Nic):
        speed = f" {what.speed_mbps / 1000:g}G" if what.speed_mbps else ""
        name = end.name if end.name == what.name else f"{end.name} {what.name}"
        down = "" if what.state in ("up", "active") else f" {what.state or '?'}"
        return [name, f"{what.link_layer or 'network'}{speed}{down}", end.pci or "-"]
    file = what.files[0].removeprefix("/dev/") if what.files else ""
    state = "" if what.health.state == "ok" else f" {what.health.state}"
    return [f"{end.name} {file}".strip(), what.model.removeprefix("NVIDIA "), f"{end.pci}{state}"]


def _lane_label(group: Group) -> str:
    return f"{group.kind} {_spelt([end.name for end in group.ends])}"


def _spelt(names: Sequence[str]) -> str:
    """GPU0, GPU1, GPU2 → ``GPU0-2``; two stay two."""
    numbers = [int(re.sub(r"\D", "", name) or -1) for name in names]
    stems = {name.rstrip("0123456789") for name in names}
    straight = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    if len(names) > 2 and len(stems) == 1 and straight:
        return f"{names[0]}-{numbers[-1]}, each with each"
    return " ".join(names)


def _names(group: Group) -> list[str]:
    return [end.name for end in group.ends]


def _kinds(groups: Sequence[Group]) -> list[str]:
    return sorted({group.kind for group in groups})


def _width(text: str, size: int) -> float:
    return len(text) * size * CHAR
