"""Errors of operators over chunked arrays."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np

import dmlpy as dml
from dmlpy.dask import map_blocks
from dmlpy.docs.error_examples.example import shows

weight, recurrence = np.zeros((1, 1, 5, 3), np.float32), np.zeros((1, 1, 5, 5), np.float32)
rnn = dml.RNNDesc(
    input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 6, 2, 3]),
    weight_tensor=dml.TensorDesc.of(weight),
    recurrence_tensor=dml.TensorDesc.of(recurrence),
    sequence_lengths_tensor=dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, 2]),
    activation_descs=[dml.ActivationTanhDesc()],
    direction="FORWARD",
).with_outputs("output_single_tensor")
constants = {"weight_tensor": weight, "recurrence_tensor": recurrence}
x = da.zeros((1, 6, 10, 3), chunks=(1, 6, 4, 3), dtype="float32")
lengths = da.full((1, 1, 1, 10), 6, chunks=(1, 1, 1, 4), dtype="uint32")


@shows("dask.axis")
def dask_axis() -> Any:
    map_blocks(rnn, input_tensor=x.rechunk({1: 3}), sequence_lengths_tensor=lengths, **constants)


@shows("dask.carry")
def dask_carry() -> Any:
    both = rnn.replace(direction="BIDIRECTIONAL", activation_descs=[dml.ActivationTanhDesc()] * 2)
    twice = {name: np.concatenate([array, array], axis=1) for name, array in constants.items()}
    both = both.replace(**{name: dml.TensorDesc.of(array) for name, array in twice.items()}).with_outputs("output_single_tensor")
    map_blocks(both, carry=True, input_tensor=x.rechunk({1: 3}), sequence_lengths_tensor=lengths, **twice)


@shows("dask.chunks")
def dask_chunks() -> Any:
    map_blocks(rnn, input_tensor=x, sequence_lengths_tensor=lengths.rechunk({3: 5}), **constants)
