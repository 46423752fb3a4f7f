"""`steps_of`: the distances in bytes between the elements of a tensor of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc

Steps = tuple[int, int, int, int, int]
"""Bytes from an image of a tensor to the next, from a channel, and along three spatial dimensions."""


def steps_of(tensor: TensorDesc) -> Steps:
    """A tensor's steps; elements lie side by side in a row of one."""
    size = tensor.data_type.numpy.itemsize
    outer, inner, *along = (stride * size for stride in tensor.element_strides)
    depth, height, width = (0,) * (3 - len(along)) + tuple(along)
    return outer, inner, depth, height, size if tensor.sizes[-1] == 1 else width
