"""`Profile`: the measured times of the nodes of a graph, a model or a network, as tables and as a trace for Perfetto."""

from __future__ import annotations

import json
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, DispatchError, Problem
from dmlpy.messages.tables import Table
from dmlpy.system.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from os import PathLike

    from dmlpy.devices.device import Device
    from dmlpy.devices.plan import Launch

_MOST_SHOWN = 30
"""The nodes that `str` shows, slowest first; `table` has all."""


class ProfiledPart(NamedTuple):
    """A part of some work that can be launched and timed by itself.

    Attributes:
        name: the node's name.
        operator: the operator's short name.
        launch: enqueues it.
        flops: the operations of its formula; None where their number is unknown.
        fused: the names of the nodes that run as part of it.
    """

    name: str
    operator: str
    launch: Launch
    flops: int | None = None
    fused: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfiledNode:
    """The times of a node.

    Attributes:
        name: the node's name; `copy of y` for an output that is copied from elsewhere.
        operator: its operator: the short name of DirectML's, or ONNX's for a node on the host, or the class of a layer.
        place: where it ran: the device's name, or `host` for a node of an ONNX model that no graph has.
        runs_us: the microseconds of each run.
        flops: the operations of its formula, of products two for each multiplication; None where their number is unknown.
        fused: the names of the nodes that ran as part of it.
    """

    name: str
    operator: str
    place: str
    runs_us: tuple[float, ...]
    flops: int | None = None
    fused: tuple[str, ...] = ()

    @property
    def median_us(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs_us)


@dataclass(frozen=True)
class Profile:
    """The times of a number of runs: of the whole, and of each node by itself. `str` and a notebook show them as tables.

    The nodes are launched one by one, each followed by a wait, in separate runs: they do not overlap and are not part of a CUDA
    graph, and their sum may exceed the time of a whole run. GPUs are timed by CUDA events, processors by the system's clock.

    Attributes:
        name: the name of the graph or model.
        device: the device's name.
        nodes: the nodes in the order in which they run.
        whole_us: the microseconds of each whole run, as a dispatch or a call has them.
    """

    name: str
    device: str
    nodes: tuple[ProfiledNode, ...]
    whole_us: tuple[float, ...] = field(repr=False)

    @property
    def median_us(self) -> float:
        """The median of the whole runs."""
        return statistics.median(self.whole_us)

    @property
    def nodes_us(self) -> float:
        """The sum of the nodes' medians."""
        return sum(node.median_us for node in self.nodes)

    def table(self) -> Table:
        """The nodes, slowest first."""
        slowest = sorted(self.nodes, key=lambda node: -node.median_us)
        rows = tuple(
            (
                node.name + (f" (with {', '.join(node.fused)})" if node.fused else ""),
                node.operator,
                node.place,
                _us(node.median_us),
                _us(min(node.runs_us)),
                self._share(node.median_us),
                _rate(node.flops, node.median_us),
            )
            for node in slowest
        )
        title = f"{self.name} on {self.device}: nodes one by one"
        return Table(title, ("node", "operator", "runs on", "median us", "least us", "share", "Gflop/s"), rows)

    def by_operator(self) -> Table:
        """The operators, slowest first, each with the sum of its nodes' medians."""
        kinds: dict[tuple[str, str], list[ProfiledNode]] = {}
        for node in self.nodes:
            kinds.setdefault((node.operator, node.place), []).append(node)
        sums = {kind: sum(node.median_us for node in nodes) for kind, nodes in kinds.items()}
        rows = tuple(
            (operator, place, str(len(kinds[operator, place])), _us(sums[operator, place]), self._share(sums[operator, place]))
            for operator, place in sorted(kinds, key=lambda kind: -sums[kind])
        )
        return Table(f"{self.name} on {self.device}: operators", ("operator", "runs on", "nodes", "median us", "share"), rows)

    def summary(self) -> str:
        """The profile in one line."""
        runs = plural(len(self.whole_us), "run")
        nodes = f"{plural(len(self.nodes), 'node')} one by one {_us(self.nodes_us)} us"
        return f"{self.name} on {self.device}, {runs}: whole {_us(self.median_us)} us (median), {nodes}"

    def __str__(self) -> str:
        table = self.table()
        left = len(table.rows) - _MOST_SHOWN
        shown = Table(table.title, table.headings, table.rows[:_MOST_SHOWN])
        more = [f"and {plural(left, 'faster node')}"] if left > 0 else []
        return "\n".join([self.summary(), "", self.by_operator().to_text(), "", shown.to_text(), *more])

    def _repr_html_(self) -> str:
        return self.by_operator().to_html() + self.table().to_html()

    def to_dict(self) -> dict[str, Any]:
        """The profile as a dict for JSON."""
        nodes = [
            {
                "name": node.name,
                "operator": node.operator,
                "place": node.place,
                "flops": node.flops,
                "fused": list(node.fused),
                "runs_us": list(node.runs_us),
            }
            for node in self.nodes
        ]
        return {"name": self.name, "device": self.device, "whole_us": list(self.whole_us), "nodes": nodes}

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a file in the Chrome trace format, which https://ui.perfetto.dev and chrome://tracing open.

        One row has the whole runs, another one the nodes of each run. Durations are measured; the events of a row follow each other without
        gaps.

        Raises:
            OSError: the file cannot be written.
        """
        write_trace(path, [self])

    def _share(self, us: float) -> str:
        return f"{us / self.nodes_us:.1%}" if self.nodes_us else ""


def write_trace(path: str | PathLike[str], profiles: Iterable[Profile]) -> None:
    """Writes profiles to one file as `Profile.save` does, each as a process.

    Raises:
        OSError: the file cannot be written.
    """
    events = [event for process, profile in enumerate(profiles, 1) for event in _events(process, profile)]
    write_text(Path(path), json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, allow_nan=False))


def _events(process: int, profile: Profile) -> Iterator[dict[str, Any]]:
    rows = {1: "whole runs", 2: "nodes one by one"}
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"{profile.name} on {profile.device}"}}
    for row, text in rows.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": text}}
    begin = 0.0
    for run, whole_us in enumerate(profile.whole_us):
        common = {"ph": "X", "pid": process}
        yield {**common, "tid": 1, "name": profile.name, "cat": "run", "ts": begin, "dur": whole_us, "args": {"run": run}}
        end = begin
        for node in profile.nodes:
            us = node.runs_us[run]
            details = {"run": run, "operator": node.operator, "runs on": node.place}
            details |= {} if node.flops is None else {"flops": node.flops}
            details |= {"fused": ", ".join(node.fused)} if node.fused else {}
            yield {**common, "tid": 2, "name": node.name, "cat": node.operator, "ts": end, "dur": us, "args": details}
            end += us
        begin = max(begin + whole_us, end)


# Measuring


def checked_runs(runs: Any, method: str) -> int:
    """The number of runs to measure.

    Raises:
        DescError: it is not a number from 1 on.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
        raise DescError(method, [Problem("profile.runs", "runs", brief(runs), "a whole number, at least 1")])
    return runs


def time_us(device: Device, work: Callable[[], Any], stream: int) -> float:
    """The microseconds of some work: by the device's clock if it has one, else until it is done by the host's."""
    began = time.perf_counter_ns()
    stop = device.start_timer(stream)
    work()
    if stop is not None:
        return stop() * 1000.0
    device.synchronize(stream)
    return (time.perf_counter_ns() - began) / 1000.0


def profile_parts(device: Device, parts: Sequence[ProfiledPart], runs: int, stream: int) -> tuple[ProfiledNode, ...]:
    """The times of parts that are launched one by one, after a run that is not measured.

    Raises:
        DispatchError: the stream is being captured.
    """
    if device.is_capturing(stream):
        raise DispatchError("a stream that is being captured cannot be profiled: nothing runs until the CUDA graph is launched")
    times: list[list[float]] = [[] for _ in parts]
    for run in range(runs + 1):
        for part, of_part in zip(parts, times, strict=True):
            us = time_us(device, lambda launch=part.launch: launch(stream), stream)  # type: ignore[misc]  # mypy knows no such default
            if run:
                of_part.append(us)
    return tuple(
        ProfiledNode(part.name, part.operator, device.name, tuple(of_part), part.flops, part.fused)
        for part, of_part in zip(parts, times, strict=True)
    )


def profile_whole(device: Device, work: Callable[[], Any], runs: int, stream: int) -> tuple[float, ...]:
    """The times of whole runs, after one that is not measured.

    Raises:
        DispatchError: the stream is being captured.
    """
    if device.is_capturing(stream):
        raise DispatchError("a stream that is being captured cannot be profiled: nothing runs until the CUDA graph is launched")
    return tuple([time_us(device, work, stream) for _ in range(runs + 1)][1:])


def _us(us: float) -> str:
    return f"{us:.2f}" if us < 10 else f"{us:,.1f}"


def _rate(flops: int | None, us: float) -> str:
    return f"{flops / us / 1000:.2f}" if flops and us else ""
