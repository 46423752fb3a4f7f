"""Operators and their members by the names that ONNX, PyTorch, NumPy and Keras have for them, and the remedies for such names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dmlpy.messages.naming import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ALIASES = {
    "JOIN": ("it concatenates along an axis", "concat concatenate cat stack hstack vstack"),
    "GEMM": ("it is the matrix product", "matmul dot dense linear mm bmm addmm fullyconnected einsum"),
    "CONVOLUTION": (
        "it has 1 to 3 dimensions, forward or transposed",
        "conv conv1d conv2d conv3d convtranspose conv2dtranspose convtranspose2d depthwiseconv2d",
    ),
    "REDUCE": (
        "its function is SUM, AVERAGE, MAX, MIN, L1, L2, MULTIPLY or another, along its axes",
        "sum mean prod amax amin norm logsumexp reducesum reducemean reducemax reducemin reduceprod reducel1 reducel2",
    ),
    "MEAN_VARIANCE_NORMALIZATION1": (
        "its axes choose what is normalized together",
        "layernorm layernormalization groupnorm groupnormalization instancenorm instancenormalization",
    ),
    "BATCH_NORMALIZATION": ("it uses means and variances that are given", "batchnorm batchnorm1d batchnorm2d batchnorm3d"),
    "LOCAL_RESPONSE_NORMALIZATION": ("", "lrn"),
    "LP_NORMALIZATION": ("", "normalize"),
    "MAX_POOLING2": ("", "maxpool maxpool1d maxpool2d maxpool3d maxpooling2d globalmaxpool globalmaxpooling2d"),
    "AVERAGE_POOLING1": ("", "averagepool avgpool avgpool1d avgpool2d avgpool3d averagepooling2d globalaveragepool globalaveragepooling2d"),
    "PADDING1": ("", "pad zeropadding2d"),
    "ELEMENT_WISE_IF": ("it chooses elements by a condition", "where select"),
    "ELEMENT_WISE_CLIP1": ("", "clamp"),
    "ELEMENT_WISE_SUBTRACT": ("", "sub"),
    "ELEMENT_WISE_MULTIPLY": ("", "mul"),
    "ELEMENT_WISE_DIVIDE": ("", "div truediv truedivide"),
    "ELEMENT_WISE_NEGATE": ("", "neg negative"),
    "ELEMENT_WISE_RECIP": ("", "reciprocal"),
    "ELEMENT_WISE_POW": ("", "power"),
    "ELEMENT_WISE_MAX": ("it compares two tensors; REDUCE does so along an axis", "maximum"),
    "ELEMENT_WISE_MIN": ("it compares two tensors; REDUCE does so along an axis", "minimum"),
    "ELEMENT_WISE_MODULUS_FLOOR": ("", "mod remainder"),
    "ELEMENT_WISE_LOGICAL_EQUALS": ("", "eq equal"),
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": ("", "gt greater"),
    "ELEMENT_WISE_LOGICAL_LESS_THAN": ("", "lt less"),
    "RESAMPLE2": ("", "resize interpolate upsample upsampling2d zoom"),
    "GATHER": ("it reads entries by index", "take embedding index indexselect"),
    "SCATTER": ("it writes entries by index", "put scatteradd scatterelements"),
    "TOP_K1": ("with k the size of the axis it sorts", "sort argsort"),
    "NONZERO_COORDINATES": ("", "nonzero argwhere"),
    "FILL_VALUE_CONSTANT": ("", "full zeros ones constantofshape"),
    "FILL_VALUE_SEQUENCE": ("", "arange range linspace"),
    "RANDOM_GENERATOR": ("", "rand randn random randomnormal randomuniform dropout"),
    "CUMULATIVE_SUMMATION": ("", "cumsum"),
    "CUMULATIVE_PRODUCT": ("", "cumprod"),
    "MULTIHEAD_ATTENTION1": ("", "attention sdpa scaleddotproductattention selfattention"),
    "ADAM_OPTIMIZER": ("", "adam adamw"),
    "REVERSE_SUBSEQUENCES": ("", "flip reverse reversesequence"),
}
"""Other libraries' names of operators, with what the operator does where its name does not say it."""

_VIEWS = {
    "reshape view flatten squeeze unsqueeze expanddims ravel": "it needs no operator: describe the same memory with other sizes",
    "transpose permute swapaxes movedim": "it needs no operator: describe the same memory with the strides in another order",
    "expand broadcast broadcastto repeat": "it needs no operator: a stride of 0 repeats a dimension",
}
"""Functions that DirectML has no operator for, since strides express them."""

_MEMBERS = {
    "padding": ("start_padding", "end_padding"),
    "pads": ("start_padding", "end_padding"),
    "dim": ("axis", "axes"),
    "dims": ("axis", "axes"),
    "axis": ("axes",),
    "groups": ("group_count",),
    "group": ("group_count",),
    "kernel_size": ("window_size",),
    "kernel_shape": ("window_size",),
    "pool_size": ("window_size",),
    "eps": ("epsilon",),
    "bias": ("c", "c_tensor"),
    "shape": ("sizes", "output_sizes"),
    "dtype": ("data_type", "output_data_type", "value_data_type"),
}
"""Other libraries' names of members, each with the members that it may mean; an operator has some of them."""

_BY_ALIAS = {alias: (name, why) for name, (why, aliases) in _ALIASES.items() for alias in aliases.split()}
_BY_VIEW = {alias: text for aliases, text in _VIEWS.items() for alias in aliases.split()}
_AFFIXES = re.compile(r"^(DMLPY_OPERATOR_|DML_OPERATOR_|DMLPY_|DML_)|(_OPERATOR_DESC|_?DESC)$", re.IGNORECASE)
_FAMILIES = ("activation", "elementwise")


def operator_remedy(name: object, operators: Iterable[str], show: Callable[[str], str] = str, *, spelled_alike: bool = True) -> str | None:
    """The remedy for a name that no operator has: `did you mean JOIN? it concatenates along an axis`; None if nothing is like it.

    An operator of the same name in another spelling comes first, then one that other libraries call so, then one spelled alike.

    Args:
        name: the name, with or without the affixes of directml.h.
        operators: the short names of the operators that may be meant.
        show: spells a short name as the caller would.
        spelled_alike: whether a name that is only spelled like the given one is suggested too.
    """
    if not isinstance(name, str):
        return None
    known = {_plain(short): short for short in operators}
    plain = _plain(_AFFIXES.sub("", name))
    same = [known[spelling] for spelling in (plain, *(family + plain for family in _FAMILIES)) if spelling in known]
    alias, why = _BY_ALIAS.get(plain, (None, ""))
    if same:
        other = f", or {show(alias)} ({why})" if alias is not None and _plain(alias) in known else ""
        return f"did you mean {' or '.join(map(show, same))}{other}?"
    if plain in _BY_VIEW:
        return _BY_VIEW[plain]
    if alias is not None and _plain(alias) in known:
        return f"did you mean {show(alias)}?{f' {why}' if why else ''}"
    if not spelled_alike:
        return None
    # Without the family first: of RELUU the nearest is RELU, however long the whole name is.
    alone = {spelling.removeprefix(family): spelling for family in _FAMILIES for spelling in known if spelling.startswith(family)}
    close = nearest(plain, {**known, **alone})
    return f"did you mean {show(known[alone.get(close, close)])}?" if close else None


def member_remedy(name: object, members: Iterable[str]) -> str | None:
    """The remedy for a name that other libraries have for members: `did you mean start_padding and end_padding?`; None for other names."""
    known = set(members)
    suggestions = [member for member in _MEMBERS.get(name, ()) if member in known] if isinstance(name, str) else []
    return f"did you mean {' and '.join(suggestions)}?" if suggestions else None


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()
