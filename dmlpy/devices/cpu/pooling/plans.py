"""The compiled plans of poolings by maxima, averages and norms, in all their versions, of gradients, and of regions and theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from dmlpy.description.enums import DataType
from dmlpy.devices.cpu.plans import on_copies, plan
from dmlpy.operators.pooling.average import AveragePooling1Desc, AveragePoolingDesc, AveragingDesc
from dmlpy.operators.pooling.lp import LPPooling1Desc, LPPoolingDesc, NormPoolingDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.indexing.plan import IndexingPlan
    from dmlpy.devices.cpu.pooling.average_gradient_plan import AverageGradientPlan
    from dmlpy.devices.cpu.pooling.plan import IndexedPoolingPlan, PoolingPlan
    from dmlpy.devices.cpu.pooling.region_gradient_plan import RegionGradientPlan
    from dmlpy.devices.cpu.pooling.region_plan import RegionsPlan
    from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
    from dmlpy.devices.plan import Plan
    from dmlpy.operators.pooling.average import AveragePoolingGradDesc
    from dmlpy.operators.pooling.maximum import IndexedPoolingDesc, MaxPoolingGradDesc, MaxUnpoolingDesc
    from dmlpy.operators.pooling.roi import ForwardRegionsDesc, ROIAlignGradDesc, ROIPoolingDesc
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc, PoolingDesc

D = TypeVar("D", bound="PoolingDesc")

_MAXIMUM, _REGIONS = "dmlpy.operators.pooling.maximum:Max", "dmlpy.operators.pooling.roi:ROI"

_BYTES = ({DataType.UINT8}, {DataType.INT8})
_FEWEST_BITS = 8
_MAX_SPARSITY = 16
"""The most elements of an input tile for each element that its windows read."""
_TOO_SPARSE = "the windows span far more of the input than they read"
_FEWEST_CHANNELS = 2
"""The fewest contiguous channels whose vectors are pooled faster than copies with contiguous columns."""
_CHANNELS_OF_A_BLOCK = 64
"""Contiguous channels that are spread at once in the gradient of averages, if an image has a multiple of them."""
_CHANNELS_OF_COPIES = 8
"""The fewest channels that copies of images and results have contiguous, so that vectors of them are pooled."""
_MOST_BYTES_OF_COPIES = 1 << 22
"""Bytes of images whose copies stay in a cache."""
_PIXELS_OF_A_RESULT = 4
"""The most elements of images that are copied for each result."""
_PLANES_DIMENSIONS = 4
"""Dimensions of the tensors of a pooling over two."""


@plan(
    AveragePoolingDesc,
    AveragePooling1Desc,
    LPPoolingDesc,
    LPPooling1Desc,
    f"{_MAXIMUM}PoolingDesc",
    f"{_MAXIMUM}Pooling1Desc",
    f"{_MAXIMUM}Pooling2Desc",
)
def pooling_plan(desc: ForwardPoolingDesc) -> Plan | str:
    """Poolings with indices, of bytes and over three dimensions have plans of their own."""
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.pooling.plan import PoolingPlan, RowBlockPoolingPlan

    assert desc.output_tensor is not None  # guaranteed by the check
    if "output_indices_tensor" in desc.tensors():
        return indexed_plan(cast("IndexedPoolingDesc", desc))
    types = {tensor.data_type for tensor in desc.tensors().values()}
    if types in _BYTES:
        from dmlpy.devices.cpu.pooling.byte_maximum_plan import ByteMaximumPlan

        return ByteMaximumPlan(desc)
    if not have_one_storage(types):
        return "compiled poolings are of floats, UINT8 or INT8"
    if desc.input_tensor.dimension_count != _PLANES_DIMENSIONS:
        return _depth_plan(desc)
    if (channels_innermost := _of_channels_innermost(desc)) is not None:
        return _depth_plan(channels_innermost)
    if row_blocks := RowBlockPoolingPlan.of(desc):
        return row_blocks
    if (on_channels := _on_contiguous_channels(desc)) is not None:
        return on_channels
    pooling = PoolingPlan(desc)
    return pooling if pooling.is_dense(_MAX_SPARSITY) else _TOO_SPARSE


def _on_contiguous_channels(desc: ForwardPoolingDesc) -> LayoutCopiesPlan | None:
    """The plan of several windows on copies whose channels are contiguous, or None: vectors of these need no horizontal sums."""
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan, dense

    source, target = desc.input_tensor, desc.output_tensor
    assert target is not None  # guaranteed by the check
    size = source.element_count * source.data_type.numpy.itemsize
    if source.sizes[1] < _CHANNELS_OF_COPIES or target.sizes[2:] == (1, 1) or size > _MOST_BYTES_OF_COPIES:
        return None
    copied = {"input_tensor": dense(source, (1,), repeats=False), "output_tensor": dense(target, (1,))}
    inner = pooling_plan(desc.replace(**copied))
    return None if isinstance(inner, str) else LayoutCopiesPlan(inner, desc, copied)


def _of_channels_innermost(desc: D, block: int | None = None) -> D | None:
    """A desc of five dimensions, the last of which are the channels, if these are contiguous; else None.

    The kernels of planes then pool columns with the channels of each, and rows of these, by whole vectors.

    Args:
        desc: a checked desc of four dimensions.
        block: the channels of a plane, of which each image has several; None for all.
    """
    from dmlpy.description.tensors import TensorDesc

    tensors = {place: tensor for place, tensor in desc.tensors().items() if tensor.sizes[1] >= _FEWEST_CHANNELS}
    if len(tensors) < len(desc.tensors()) or any(tensor.element_strides[1] != 1 for tensor in tensors.values()):
        return None
    members: dict[str, Any] = {}
    for place, tensor in tensors.items():
        (batch, channels, *spatial), (image, channel, *steps) = tensor.sizes, tensor.element_strides
        own = block or channels
        sizes, strides = (batch, channels // own, *spatial, own), (image, own, *steps, channel)
        members[place] = TensorDesc(data_type=tensor.data_type, sizes=sizes, strides=strides)
    alone = {"window_size": 1, "strides": 1, "start_padding": 0, "end_padding": 0, "dilations": 1}
    members |= {name: (*getattr(desc, name), value) for name, value in alone.items() if hasattr(desc, name)}
    return desc.replace(**members)


def _depth_plan(desc: ForwardPoolingDesc) -> Plan | str:
    """The plan of a pooling of floats over three dimensions."""
    from dmlpy.devices.cpu.float32_copies import Float32CopyPlan
    from dmlpy.devices.cpu.pooling.depth_plan import DepthPoolingPlan, of_joined_slices

    if (joined := of_joined_slices(desc)) is not None:
        return pooling_plan(joined)
    if (sums := isinstance(desc, AveragingDesc | NormPoolingDesc)) and desc.input_tensor.data_type is DataType.BFLOAT16:
        return "means and norms of BFLOAT16 over three dimensions are computed of copies in FLOAT32"
    if sums and desc.input_tensor.data_type is DataType.FLOAT16:
        return Float32CopyPlan(desc)  # between planes and depth nothing is rounded
    plan = DepthPoolingPlan(desc)
    return plan if plan.is_dense(_MAX_SPARSITY) else _TOO_SPARSE


@plan("dmlpy.operators.pooling.average:AveragePoolingGradDesc")
def average_gradient_plan(desc: AveragePoolingGradDesc) -> AverageGradientPlan | str:
    """Channels that are contiguous are spread side by side, in blocks of which several fit in a cache."""
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.pooling.average_gradient_plan import AverageGradientPlan, of_joined_rows

    if not have_one_storage({tensor.data_type for tensor in desc.tensors().values()}):
        return "compiled gradients of averages have tensors of one type of floats"
    if (joined := of_joined_rows(desc)) is not None:
        return AverageGradientPlan(joined)
    channels = desc.input_gradient_tensor.sizes[1]
    if desc.input_gradient_tensor.dimension_count == _PLANES_DIMENSIONS:
        block = _CHANNELS_OF_A_BLOCK if channels % _CHANNELS_OF_A_BLOCK == 0 else channels
        desc = _of_channels_innermost(desc, block) or desc
    return AverageGradientPlan(desc)


@plan(f"{_MAXIMUM}PoolingGradDesc")
def indexed_plan(desc: IndexedPoolingDesc | MaxPoolingGradDesc) -> PoolingPlan | ByteFloatsPlan | IndexedPoolingPlan | str:
    """The plan of a pooling with indices, or of its gradient."""
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.pooling.plan import IndexedPoolingPlan, PoolingPlan

    types = {tensor.data_type for place, tensor in desc.tensors().items() if place != "output_indices_tensor"}
    is_gradient = "output_gradient_tensor" in desc.tensors()
    if types in _BYTES and not is_gradient:
        return _byte_floats_plan(cast("IndexedPoolingDesc", desc))
    is_whole = len(types) == 1 and all(data_type.numpy.kind in "iu" and data_type.bits >= _FEWEST_BITS for data_type in types)
    if not have_one_storage(types) and (is_gradient or not is_whole):
        return "compiled poolings with indices are of floats or integers, and their gradients of floats"
    if is_whole or desc.input_tensor.dimension_count != _PLANES_DIMENSIONS:
        return IndexedPoolingPlan(desc)
    if not is_gradient and (pooling := PoolingPlan(cast("IndexedPoolingDesc", desc))).takes_indices() and pooling.is_dense(_MAX_SPARSITY):
        return pooling
    return IndexedPoolingPlan(desc)


@plan(f"{_MAXIMUM}UnpoolingDesc")
@on_copies()
def unpooling_plan(desc: MaxUnpoolingDesc) -> IndexingPlan | str:
    """A scatter into zeros."""
    from dmlpy.devices.cpu.indexing.plan import ELEMENTS, IndexingPlan, Units

    assert desc.output_tensor is not None  # guaranteed by the check
    if not all(tensor.is_packed for tensor in desc.tensors().values()):
        return "a compiled unpooling needs packed tensors"
    width, count = desc.output_tensor.data_type.numpy.itemsize, desc.input_tensor.element_count
    values = {"per_batch": 1, "columns": count, "index_step": width}
    names = ("indices_tensor", "output_tensor", "input_tensor")
    units = Units((ELEMENTS, (True, width)), 1, True, *names, [desc.output_tensor.element_count], values)
    return IndexingPlan(desc.tensors(), units, filled="")


@plan(f"{_REGIONS}AlignDesc", f"{_REGIONS}Align1Desc", f"{_REGIONS}PoolingDesc")
@on_copies("roi_tensor", "batch_indices_tensor")
def regions_plan(desc: ForwardRegionsDesc | ROIPoolingDesc) -> RegionsPlan | LayoutCopiesPlan | str:
    """Maxima of parts are those of contiguous channels, or of copies with such, where the regions are large beside the images."""
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.pooling.region_plan import RegionsPlan
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan, dense
    from dmlpy.operators.pooling.roi import ROIPoolingDesc

    tensors = desc.tensors()
    types = {tensors[place].data_type for place in ("input_tensor", "roi_tensor", "output_tensor")}
    if not have_one_storage(types):
        return "compiled poolings of regions have tensors of one type of floats"
    if not all(tensor.is_packed for place, tensor in tensors.items() if place in ("roi_tensor", "batch_indices_tensor")):
        return "compiled poolings of regions need packed regions"
    source, target = tensors["input_tensor"], tensors["output_tensor"]
    if (
        isinstance(desc, ROIPoolingDesc)
        and source.sizes[1] >= _CHANNELS_OF_COPIES
        and max(source.element_strides[1], target.element_strides[1]) > 1
        and source.element_count <= _PIXELS_OF_A_RESULT * target.element_count
    ):
        copied = {place: dense(tensors[place], (1,), repeats=False) for place in ("input_tensor", "output_tensor")}
        return LayoutCopiesPlan(RegionsPlan(desc.replace(**copied)), desc, copied)
    return RegionsPlan(desc)


@plan(f"{_REGIONS}AlignGradDesc")
@on_copies()
def region_gradient_plan(desc: ROIAlignGradDesc) -> RegionGradientPlan | str:
    from dmlpy.description.enums import ReduceFunction
    from dmlpy.devices.cpu.isa import have_one_storage
    from dmlpy.devices.cpu.pooling.region_gradient_plan import RegionGradientPlan

    if desc.output_gradient_tensor is None or desc.output_roi_gradient_tensor is not None or desc.reduction_function is ReduceFunction.MAX:
        return "of the gradients of regions that of means for the images alone has a compiled form"
    tensors = desc.tensors()
    if not have_one_storage({tensor.data_type for place, tensor in tensors.items() if place != "batch_indices_tensor"}):
        return "compiled gradients of regions have tensors of one type of floats"
    if not all(tensor.is_packed for place, tensor in tensors.items() if place not in ("input_tensor", "input_gradient_tensor")):
        return "compiled gradients of regions need packed regions and a packed result"
    return RegionGradientPlan(desc)


def _byte_floats_plan(desc: IndexedPoolingDesc) -> ByteFloatsPlan | str:
    """The plan of a pooling of bytes with indices."""
    from dmlpy.devices.cpu.quantized.float_plan import ByteFloatsPlan, floats_of

    source, target = desc.input_tensor, desc.output_tensor
    assert target is not None  # guaranteed by the check
    pooling = pooling_plan(desc.replace(input_tensor=floats_of(source), output_tensor=floats_of(target)))
    return pooling if isinstance(pooling, str) else ByteFloatsPlan(pooling, source, target)
