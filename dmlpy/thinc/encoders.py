"""Encoders for spaCy's `Tok2Vec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import catalogue
import numpy as np
from thinc.api import Model, noop

from dmlpy.thinc.layers import LSTM

if TYPE_CHECKING:
    from thinc.types import Floats2d

# spaCy's own registry, which it also creates: spaCy need not be installed.
_architectures = catalogue.Registry(("spacy", "architectures"), entry_points=True)


@_architectures("dmlpy.BiLSTMEncoder.v1")
def BiLSTMEncoder(width: int, depth: int, dropout: float) -> Model[list[Floats2d], list[Floats2d]]:
    """Creates an encoder for `spacy.Tok2Vec.v2` with the arguments of `spacy.TorchBiLSTMEncoder.v1`; sequences are not padded.

    Args:
        width: the width of input and output, an even number.
        depth: the number of layers; 0 for none.
        dropout: the share of the weights that are zero in a training step. (In spaCy's encoder it is that of the layers' outputs.)

    Raises:
        DescError: an argument is out of its range.
    """
    if isinstance(depth, int | np.integer) and depth == 0:
        return noop()
    return LSTM(width, width, bi=True, depth=depth, dropout=dropout)
