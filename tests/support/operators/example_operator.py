"""An operator that dmlpy does not have, as the recipe in CONTRIBUTING adds one: a class and a function, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import numpy as np

from dmlpy.description.coercion import Float, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import In, Limits, Out, Violation, rule
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.reference.registry import Array, Inputs, defines


class PairDistanceDesc(OperatorDesc, extension="PAIR_DISTANCE"):
    """The distance of each row of A to each row of B, for each entry of a batch."""

    formula = "output[i, j] = scale * sum(|a[i] - b[j]| ** p) ** (1 / p)"
    support = (SupportRow("1_0", dims=(2, 4), T=FLOATS),)

    a_tensor: Annotated[TensorDesc, In("*batch m k")]
    """A, one point a row."""

    b_tensor: Annotated[TensorDesc, In("*batch n k")]
    """B, one point a row."""

    output_tensor: Annotated[TensorDesc | None, Out("*batch m n", required=True)] = None
    """The distances: a row for each point of A, a column for each point of B."""

    p: Annotated[Uint, Limits(least=1)] = default(2)
    """The power of the norm."""

    scale: Float = default(1.0)
    """The factor of the distances."""

    @rule("the scale is not negative")
    def positive_scale(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.scale < 0:
            yield Violation("scale", str(self.scale), "a number that is not negative")


@defines(PairDistanceDesc)
def pair_distance(desc: PairDistanceDesc, inputs: Inputs) -> Array:
    differences = np.abs(inputs["a_tensor"][..., :, None, :] - inputs["b_tensor"][..., None, :, :])
    distances: Array = desc.scale * np.sum(differences**desc.p, axis=-1) ** (1 / desc.p)
    return distances
