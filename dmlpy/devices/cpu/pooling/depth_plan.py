"""The plan of poolings over three dimensions: of planes, and of what that gives along the depth, by the kernels of two dimensions.

A window's maximum is that of its slices' maxima, and its mean that of their means: how many elements count is a product over the axes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.cpu.pooling.plan import PoolingPlan, RowBlockPoolingPlan
from dmlpy.devices.cpu.structs import aligned
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.operators.pooling.windows import ForwardPoolingDesc

_BATCH, _DEPTH, _HEIGHT = 0, 2, 3
_PLANES, _ALONG_DEPTH = (3, 4), (2,)
"""The dimensions that are pooled at once."""
_ALONG_NOTHING = {"window_size": 1, "strides": 1, "start_padding": 0, "end_padding": 0, "dilations": 1}
"""The windows along a dimension that is not pooled."""

PlanesPlan = PoolingPlan | RowBlockPoolingPlan


class DepthPoolingPlan(PlanWithoutConstants):
    """A pooling of floats over three dimensions: over planes first, then along the depth, or one of both alone.

    Args:
        desc: a checked desc of five dimensions, without indices. Its means are of FLOAT32: others would be rounded between the two.
    """

    def __init__(self, desc: ForwardPoolingDesc) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        tensors = source, between, target = desc.input_tensor, _between(desc.input_tensor, desc.output_tensor), desc.output_tensor
        self._images, self._steps = 1, [0, 0, 0]
        if len(_axes(source, between, _PLANES)) > len(_ALONG_DEPTH) + 1 or len(_axes(between, target, _ALONG_DEPTH)) > len(_PLANES) + 1:
            # Images do not follow one another as their channels or slices do: each has launches of its own.
            self._images = source.sizes[_BATCH]
            self._steps = [tensor.element_strides[_BATCH] * tensor.data_type.numpy.itemsize for tensor in tensors]
            source, between, target = (_image_of(tensor) for tensor in tensors)
        along_depth, along_planes = _pools(desc, _ALONG_DEPTH), _pools(desc, _PLANES)
        self._planes, self._depth, size = None, None, 0
        if not along_depth:
            self._planes = _plan_of(desc, source, target, _PLANES)
        elif not along_planes:
            self._depth = _plan_of(desc, source, target, _ALONG_DEPTH)
        else:
            self._planes, self._depth = _plan_of(desc, source, between, _PLANES), _plan_of(desc, between, target, _ALONG_DEPTH)
            size = prod(tensors[1].sizes) * between.data_type.numpy.itemsize
        self._between_size = aligned(size)
        self.temporary_size = self._between_size + max(plan.temporary_size for plan in self._plans)

    @property
    def _plans(self) -> list[PlanesPlan]:
        return [plan for plan in (self._planes, self._depth) if plan is not None]

    def is_dense(self, most: int) -> bool:
        """Whether input tiles have at most `most` times as many elements as their windows read."""
        return all(plan.is_dense(most) for plan in self._plans if isinstance(plan, PoolingPlan))

    def load(self) -> None:
        for plan in self._plans:
            plan.load()

    def describe(self) -> str:
        named = (("planes", self._planes), ("depth", self._depth))
        parts = [f"{what}: {plan.describe()}" for what, plan in named if plan is not None]
        return "\n".join([*parts, *([f"{self._images} images, one after the other"] * (self._images > 1))])

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        scratch, work = temporary + self._between_size, list[Launch]()
        for image in range(self._images):
            bases = tensors["input_tensor"], temporary, tensors["output_tensor"]
            source, between, target = (base + image * step for base, step in zip(bases, self._steps, strict=True))
            if self._planes is not None:
                pooled = target if self._depth is None else between
                work.append(self._planes.bind({"input_tensor": source, "output_tensor": pooled}, scratch, None))
            if self._depth is not None:
                read = source if self._planes is None else between
                work.append(self._depth.bind({"input_tensor": read, "output_tensor": target}, scratch, None))
        return in_order(work)


def of_joined_slices(desc: ForwardPoolingDesc) -> ForwardPoolingDesc | None:
    """A desc of four dimensions, whose planes are all slices joined, if each window has all rows of all slices; else None."""
    source, target = desc.input_tensor, desc.output_tensor
    assert target is not None  # guaranteed by the check
    (*outer, depth, height, width), steps = source.sizes, source.element_strides
    whole = tuple(desc.window_size[:2]) == (depth, height) and target.sizes[_DEPTH:-1] == (1, 1) and not any(desc.start_padding[:2])
    dilated = any(size > 1 and step > 1 for size, step in zip((depth, height), getattr(desc, "dilations", ())[:2], strict=False))
    if not whole or dilated or steps[_DEPTH] != height * steps[_HEIGHT]:
        return None
    window = {name: (_ALONG_NOTHING[name], value) for name, value in _window_along(desc, _PLANES[-1]).items()}
    window["window_size"] = depth * height, desc.window_size[-1]
    steps_of_output = target.element_strides
    return desc.replace(
        input_tensor=_strided(source, (*outer, depth * height, width), (*steps[:_DEPTH], *steps[_HEIGHT:])),
        output_tensor=_strided(target, (*outer, 1, target.sizes[-1]), (*steps_of_output[:_DEPTH], *steps_of_output[_HEIGHT:])),
        **window,
    )


def _strided(tensor: TensorDesc, sizes: Sequence[int], strides: Sequence[int]) -> TensorDesc:
    """The same elements, or some of them, in other dimensions."""
    return TensorDesc(data_type=tensor.data_type, sizes=tuple(sizes), strides=tuple(strides))


def _window_along(desc: ForwardPoolingDesc, dimension: int) -> dict[str, int]:
    """The members of a desc that describe its windows along a dimension of the tensors."""
    return {name: getattr(desc, name)[dimension - _DEPTH] for name in _ALONG_NOTHING if hasattr(desc, name)}


def _pools(desc: ForwardPoolingDesc, dimensions: Sequence[int]) -> bool:
    """Whether the windows along some dimensions are more than single elements, one after the other."""
    for at in dimensions:
        window = _window_along(desc, at)
        if window["window_size"] == 1:
            window.pop("dilations", None)
        if window != {name: _ALONG_NOTHING[name] for name in window}:
            return True
    return False


def _between(source: TensorDesc, target: TensorDesc) -> TensorDesc:
    """The pooled planes of all slices, packed in the order of the output's dimensions in memory."""
    sizes = (*target.sizes[:_DEPTH], source.sizes[_DEPTH], *target.sizes[_HEIGHT:])
    order = sorted(range(len(sizes)), key=lambda at: target.element_strides[at], reverse=True)
    steps = dict(zip(order, packed_strides([sizes[at] for at in order]), strict=True))
    return _strided(target, sizes, [steps[at] for at in range(len(sizes))])


def _image_of(tensor: TensorDesc) -> TensorDesc:
    """The first image of a tensor."""
    return _strided(tensor, (1, *tensor.sizes[1:]), tensor.element_strides)


def _axes(source: TensorDesc, target: TensorDesc, pooled: Sequence[int]) -> tuple[Axis, ...]:
    """The axes that both tensors have beside those that are pooled, with the steps of the output and of the input."""
    others = [at for at in range(len(source.sizes)) if at not in pooled]
    strides = [[tensor.element_strides[at] for at in others] for tensor in (target, source)]
    return merged([source.sizes[at] for at in others], strides)


def _plan_of(desc: ForwardPoolingDesc, source: TensorDesc, target: TensorDesc, pooled: Sequence[int]) -> PlanesPlan:
    """The plan of the windows along some dimensions: of a pooling of four dimensions, of which the first two are not pooled.

    Along the depth, windows are columns of a plane whose rows are neighbours in memory, or else rows.
    """
    axes, one = list(_axes(source, target, pooled)), Axis(1, (0, 0))
    along = [Axis(0, (target.element_strides[at], source.element_strides[at])) for at in pooled]
    lengths = [(target.sizes[at], source.sizes[at]) for at in pooled]
    windows = [_window_along(desc, at) for at in pooled]
    window = {name: [each[name] for each in windows] for name in windows[0]}
    if len(pooled) == 1:
        last = axes.pop() if axes else one
        place = 1 if last.strides == (1, 1) else 0
        along.insert(place, last)
        lengths.insert(place, (last.size, last.size))
        for name, values in window.items():
            values.insert(place, _ALONG_NOTHING[name])
    outer = [*([one] * (2 - len(axes))), *axes]
    tensors = {}
    for number, (name, tensor) in enumerate((("output_tensor", target), ("input_tensor", source))):
        sizes = [*(axis.size for axis in outer), *(both[number] for both in lengths)]
        strides = [axis.strides[number] for axis in (*outer, *along)]
        tensors[name] = _strided(tensor, sizes, strides)
    planes = desc.replace(**tensors, **window)
    return RowBlockPoolingPlan.of(planes) or PoolingPlan(planes)
