"""The properties of a batch normalization operator, DirectML's or TensorFlow's, in one form for the devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import ActivationDesc


class Operand(NamedTuple):
    """A tensor and its role.

    Attributes:
        name: the desc's field.
        data_type: type of its elements.
        strides: elements from one entry to the next along each dimension of the input; 0 where it repeats.
    """

    name: str
    data_type: DataType
    strides: tuple[int, ...]


@dataclass(frozen=True)
class NormalizationGeometry:
    """The tensors and the options of one operator.

    Roles of operands, those of the input's sizes: `x`, `add` (inputs), `y` (output) of the forward operators; `x`, `dy` (inputs), `dx`
    (output) of gradients. Statistics, one entry for each group: the inputs `mean`, `variance`, `scale`, `bias`, where training reads mean
    and variance as old running ones; the outputs `batch_mean`, `batch_variance` (in training those of the batch, biased; else copies of
    `mean` and `variance`), `running_mean`, `running_variance` (in training (1 - f) * old + f * batch, with the unbiased variance; else
    copies), `d_scale`, `d_bias`. A role that the desc leaves out is absent.

    Attributes:
        sizes: the sizes of the input.
        reduced: the dimensions along which every statistic repeats: what a group runs over.
        operands: the described tensors by role.
        training: whether mean and variance are (or in a gradient were) those of the batch, not constants.
        epsilon: the number added to the variance.
        average_factor: f, the weight of this batch in the running statistics.
        activation: the activation applied to y last.
        centres_anew: whether dx centres x by a recomputed mean and not by `mean`; d_scale never does.
    """

    sizes: tuple[int, ...]
    reduced: tuple[int, ...]
    operands: Mapping[str, Operand] = field(hash=False)
    training: bool
    epsilon: float
    average_factor: float = 1.0
    activation: ActivationDesc | None = None
    centres_anew: bool = False


def operand(name: str, desc: TensorDesc, dimensions: int, axis: int | None = None) -> Operand:
    """The tensor of a role; one with a single dimension lies along `axis` of the input."""
    if axis is not None:
        strides = tuple(desc.element_strides[0] if at == axis and desc.sizes[0] > 1 else 0 for at in range(dimensions))
    else:
        strides = tuple(0 if size == 1 else stride for size, stride in zip(desc.sizes, desc.element_strides, strict=True))
    return Operand(name, desc.data_type, strides)
