"""A runtime that counts its calls, and the training step of a network in two device graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.runtime.interface import MatrixProduct
from dmlpy.messages.problems import DeviceError
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.recurrent.networks import Network, gradient_inputs, poisoned, upstream, values


class CountingRuntime(DryRunRuntime):
    """Counts what a `DryRunRuntime` is asked to enqueue; `fails` lets the next launch fail."""

    fails = False

    def launch(self, *arguments: Any, **named: Any) -> None:
        if self.fails:
            raise DeviceError("launch: no")
        self.counts["launch"] += 1

    def gemm(self, device: int, product: MatrixProduct, stream: int, workspace: int = 0) -> None:
        assert workspace > 0, "a product without memory to work in: while a stream is captured the library would allocate some"
        self.counts["gemm"] += 1

    def copy(self, *arguments: Any) -> None:
        self.counts["copy"] += 1

    def memset(self, *arguments: Any) -> None:
        self.counts["memset"] += 1

    def launch_graph(self, graph: Any, stream: int) -> None:
        if self.fails:
            raise DeviceError("launch_graph: no")
        self.counts["launch_graph"] += 1


class Replayed:
    """A network of layers and its gradient, bound once each."""

    def __init__(self, device: Any, net: Network) -> None:
        self.device, desc = device, net.desc.gradient()
        given = upstream(np.random.default_rng(1), desc) | gradient_inputs(net, desc)
        self.outputs = {name: poisoned(device, net.desc.tensors()[name]) for name in names(net.desc)}
        self.gradients = {name: poisoned(device, desc.tensors()[name]) for name in names(desc)}
        inputs = {name: device.from_host(array) for name, array in net.arrays.items()}
        self.offset = inputs.get("dropout_offset")
        taken = {name: device.from_host(array) for name, array in given.items()} | {"reserve_space": self.outputs["reserve_space"]}
        self.forward = dml.compile(net.desc, device).bind(inputs, self.outputs)
        self.backward = dml.compile(desc, device).bind(taken, self.gradients)

    def run(self, stream: int = 0) -> dict[str, bytes]:
        """The bytes of all results but the reserve, which has gaps."""
        self.forward(stream)
        self.backward(stream)
        return self.results()

    def results(self) -> dict[str, bytes]:
        return {name: self.device.to_host(array).tobytes() for name, array in values(self.outputs | self.gradients).items()}


def names(desc: dml.OperatorDesc) -> Iterable[str]:
    return (slot.place for slot in desc.output_slots() if slot.tensor is not None)
