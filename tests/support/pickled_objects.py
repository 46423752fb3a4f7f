"""What is compiled here and used in another process: how it is sent there, and what the other process does with it."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

import dmlpy as dml
from tests.support.tensors import tensor

Array = np.ndarray[Any, np.dtype[Any]]

STEPS, BATCH, INPUTS, UNITS = 4, 3, 5, 6


def gru() -> dml.GRUDesc:
    return dml.GRUDesc(
        input_tensor=tensor(1, STEPS, BATCH, INPUTS),
        weight_tensor=tensor(1, 1, 3 * UNITS, INPUTS),
        recurrence_tensor=tensor(1, 1, 3 * UNITS, UNITS),
        bias_tensor=tensor(1, 1, 1, 6 * UNITS),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        linear_before_reset=True,
    ).with_outputs("output_sequence_tensor")


def plus_one() -> dml.Graph:
    """A graph `y = x + 1` with a constant."""
    g = dml.GraphBuilder("plus one")
    x = g.input("x", tensor(1, 1, 2, 3))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=g.constant("ones", np.ones((1, 1, 2, 3), np.float32))))
    return g.build()


def values(desc: dml.OperatorDesc) -> dict[str, Array]:
    """Random inputs of a desc, by place."""
    rng = np.random.default_rng(3)
    return {slot.place: rng.standard_normal(slot.tensor.sizes, np.float32) for slot in desc.input_slots() if slot.tensor}


def everything(device: str) -> list[tuple[Any, dict[str, Array]]]:
    """Every kind of object that travels, each with the inputs to call it with."""
    given = values(gru())
    op = dml.compile(gru(), device)
    constants = {name: given[name] for name in op.prepared_inputs}
    rest = {name: given[name] for name in given if name not in constants}
    x = {"x": np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)}
    graph = dml.compile(plus_one(), device)
    return [(op, given), (op.prepare(**constants), rest), (graph, x), (graph.prepare(), x)]


def run_all(work: list[tuple[Any, dict[str, Array]]]) -> list[Array]:
    """The first output of each. Arrays that came over a network begin anywhere, and operators need aligned ones: so they are copied."""
    return [next(iter(made(**{name: array.copy() for name, array in given.items()}))) for made, given in work]


def _answer(sender: Any, work: list[tuple[Any, dict[str, Array]]]) -> None:
    try:
        sender.send(run_all(work))
    except BaseException as error:
        sender.send(error)


def run_elsewhere(method: str, work: list[tuple[Any, dict[str, Array]]]) -> Any:
    """What `run_all` gives in a process started with `spawn`, `fork` or `forkserver`; or its error."""
    context: Any = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(sender, work))
    process.start()
    sender.close()
    assert receiver.poll(60)
    answer = receiver.recv()
    process.join()
    return answer
