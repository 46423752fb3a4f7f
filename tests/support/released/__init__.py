"""Descs that released programs build, in our own words and with small sizes, each with the level at which the program uses it."""

from tests.support.released import activation, attention, convolution, elementwise, indexing, movement, normalization, quantized, reduction

RELEASED_DESCS = [
    *elementwise.ROWS,
    *activation.ROWS,
    *reduction.ROWS,
    *normalization.ROWS,
    *convolution.ROWS,
    *quantized.ROWS,
    *indexing.ROWS,
    *movement.ROWS,
    *attention.ROWS,
]
"""All of them."""
