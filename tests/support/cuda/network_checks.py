"""Networks on a CUDA device in each strategy, compared with the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from tests.support.recurrent.networks import Mode, Network, check, gradients, network, reference, upstream
from tests.support.tolerance import assert_close


def stacked(mode: Mode, units: int, batch: int, steps: int, dtype: Any) -> Network:
    """A network for which rounding errors do not grow from step to step: of both directions, lengths from 0 to all steps."""
    rng = np.random.default_rng(units + batch)
    lengths = [steps, 0, *rng.integers(1, steps + 1, batch)][:batch]
    net = network(rng, mode, layers=2, steps=steps, batch=batch, inputs=units, units=units, lengths=lengths, dtype=dtype)
    return net.of(params=(net.arrays["params"] * units**-0.5).astype(dtype))


def check_network(device: CudaDevice, net: Network) -> None:
    """Results and gradients are those of float64."""
    given = upstream(np.random.default_rng(1), net.desc.gradient())
    check(gradients(device, net, given), reference(net, given), net.layout, net.arrays["input"].dtype)


def resetting_gru(hidden: int, batch: int, steps: int, dtype: Any) -> tuple[dml.GRUDesc, dict[str, Any]]:
    """The one cell with a second product in each step, which stacked networks do not have; and its inputs."""
    rng, rows = np.random.default_rng(hidden), 3 * hidden
    sizes = {"input": (1, steps, batch, 8), "weight": (1, 1, rows, 8), "recurrence": (1, 1, rows, hidden), "bias": (1, 1, 1, 2 * rows)}
    arrays = {f"{name}_tensor": (rng.standard_normal(size) * size[-1] ** -0.5).astype(dtype) for name, size in sizes.items()}
    described: Any = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
    return dml.GRUDesc(
        **described, activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()], direction="FORWARD"
    ).with_outputs(), arrays


def check_resetting_gru(device: CudaDevice, hidden: int, batch: int, steps: int, dtype: Any) -> None:
    """Results are those of float64."""
    desc, arrays = resetting_gru(hidden, batch, steps, dtype)
    results = dml.compile(desc, device)(**{name: device.from_host(array) for name, array in arrays.items()})
    for name, wanted in dml.reference(desc, arrays).as_dict().items():
        assert_close(device.to_host(results.as_dict()[name]), wanted, dtype, terms=2 * hidden, what=name)
