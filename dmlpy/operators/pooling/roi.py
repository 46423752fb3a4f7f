"""Pooling of regions of interest: rectangles of an image, each with a batch index, resampled to one size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from dmlpy.description.coercion import After, Bool, Float, Spelled, Uint, default
from dmlpy.description.descs import OperatorDesc, SomeOutputDesc
from dmlpy.description.enums import FeatureLevel, InterpolationMode, ReduceFunction
from dmlpy.description.markers import In, Limits, Out, Slot, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Explained, Sizes, Term, UnboundSymbolError
from dmlpy.description.support import FLOATS, UINT32, UNSIGNED_32_AND_64, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import Size2DValue

DIMS_OF = {"roi_tensor": (2, 4), "batch_indices_tensor": (1, 4)}
"""Regions and batch indices may leave out leading dimensions of size 1."""

REDUCTIONS = (ReduceFunction.AVERAGE, ReduceFunction.MAX)


class RegionsDesc(OperatorDesc):
    """The base of ROI_ALIGN, ROI_ALIGN1 and their gradient."""

    roi_tensor: Annotated[TensorDesc, In("*ones num_rois 4")]
    """The corners x1, y1, x2, y2 of each region. Leading dimensions of size 1 may be added."""

    batch_indices_tensor: Annotated[TensorDesc, In("*ones num_rois", "Index")]
    """The image of each region, from 0 to batch - 1. Leading dimensions of size 1 may be added."""

    reduction_function: Annotated[Spelled[ReduceFunction], Limits(one_of=REDUCTIONS)]
    """The function that reduces the samples of an output element."""

    interpolation_mode: Spelled[InterpolationMode]
    """How a sample between pixels is read."""

    spatial_scale_x: Float = default(1.0)
    """The factor of x1 and x2."""

    spatial_scale_y: Float = default(1.0)
    """The factor of y1 and y2."""

    minimum_samples_per_output: Uint
    """The least number of samples along an axis."""

    maximum_samples_per_output: Uint
    """The largest number of samples along an axis."""

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        declared = field.marker.terms
        if not declared[0].run:
            return declared
        # The gradient of the regions has as many dimensions as they have.
        tensor = None if field.name == "output_roi_gradient_tensor" else getattr(self, field.name)
        count = len((tensor or self.roi_tensor).sizes)
        return _with_ones(declared, min(max(count, len(declared) - 1), 4))

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        declared = slot.field.marker.terms
        if declared[0].run and slot.field.name != "output_roi_gradient_tensor":
            return _with_ones(declared, dimension_count) if dimension_count >= len(declared) - 1 else None
        return super().aligned(slot, dimension_count)

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        if field.name == "roi_tensor" and self.roi_tensor.sizes[-1:] == (5,):
            return "a region is x1, y1, x2, y2: its batch index goes into batch_indices_tensor"
        return super().size_remedy(field, symbols)

    @rule("minimum_samples_per_output is at most maximum_samples_per_output")
    def sample_bounds(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        least, most = self.minimum_samples_per_output, self.maximum_samples_per_output
        if least > most:
            yield Violation("minimum_samples_per_output", str(least), f"at most maximum_samples_per_output = {most}")


class ForwardRegionsDesc(RegionsDesc):
    """A forward pooling of regions, as opposed to a gradient."""

    input_tensor: Annotated[TensorDesc, In("batch channels height width"), After()]
    """The images."""

    output_tensor: Annotated[TensorDesc, Out("num_rois channels output_height output_width"), After("batch_indices_tensor")]
    """The samples of each region, reduced."""

    out_of_bounds_input_value: Annotated[Float, After("spatial_scale_y")] = default(0.0)
    """The value of samples outside of the image."""


class PlacedRegionsDesc(RegionsDesc):
    """The attributes by which ROI_ALIGN1 and its gradient place the samples."""

    input_pixel_offset: Annotated[Float, After("spatial_scale_y")] = default(0.5)
    """The offset subtracted from a coordinate of the input: 0.5 where a pixel's coordinates are those of its centre."""

    output_pixel_offset: Float = default(-0.5)
    """The offset subtracted from a sample's number: -0.5 for the centres."""

    align_regions_to_corners: Annotated[Bool, After("maximum_samples_per_output")] = default(False)
    """Whether the outermost samples lie on the corners of the region."""


def _with_ones(terms: tuple[Term, ...], dimension_count: int) -> tuple[Term, ...]:
    """The terms after a leading run, with ones in place of the run."""
    return (Term(1),) * (dimension_count - len(terms) + 1) + terms[1:]


class ROIAlignDesc(ForwardRegionsDesc, dml="ROI_ALIGN"):
    """DML_ROI_ALIGN_OPERATOR_DESC: samples each region of interest at output_height x output_width places.

    A region, scaled, is cut into an element for each output; n samples along either axis are read between its pixels, n being the
    region's size for an output, held within the two bounds. Their mean or maximum is the result. It is ROI_ALIGN1 with an
    input_pixel_offset of 0.5 and an output_pixel_offset of -0.5. The output's height and width are chosen by its desc.

    What DirectML's pages leave open is as in ONNX's RoiAlign: n is rounded up, and is 1 at the least. A sample no more than a pixel off the
    outermost ones has the edge's value, one beyond reads out_of_bounds_input_value. NEAREST_NEIGHBOR, which ONNX does not have, rounds
    halves down, as the example of ROI_ALIGN_GRAD does. The maximum is that of the interpolated samples. A batch index beyond the images
    is the last one's.
    """

    formula = "output[r, c, oy, ox] = reduction over samples s of input[batch_indices[r], c, y(s), x(s)]"
    support = (
        SupportRow("3_0", dims=4, dims_of=DIMS_OF, T=FLOATS, Index=UINT32),
        SupportRow("5_0", dims=4, dims_of=DIMS_OF, T=FLOATS, Index=UNSIGNED_32_AND_64),
    )


class ROIAlign1Desc(PlacedRegionsDesc, ForwardRegionsDesc, dml="ROI_ALIGN1"):
    """DML_ROI_ALIGN1_OPERATOR_DESC: as ROI_ALIGN, with explicit offsets, and samples that may reach the region's corners.

    Sample s of an axis lies at (s - output_pixel_offset) * size / (outputs * n) + start - input_pixel_offset, n being size / outputs held
    within the two bounds; output o has the samples o * n up to (o + 1) * n - 1. An empty region reads one point; an inverted one gives a
    mirrored output. Aligned to the corners, the samples are spaced size / (outputs * n - 1) from start on, and a single one is in the
    middle. ROI_ALIGN lists what else DirectML's pages leave open.
    """

    formula = "output[r, c, oy, ox] = reduction over samples s of input[batch_indices[r], c, y(s), x(s)]"
    support = (
        SupportRow("4_0", dims=4, dims_of=DIMS_OF, T=FLOATS, Index=UINT32),
        SupportRow("5_0", dims=4, dims_of=DIMS_OF, T=FLOATS, Index=UNSIGNED_32_AND_64),
    )


class ROIAlignGradDesc(PlacedRegionsDesc, SomeOutputDesc, dml="ROI_ALIGN_GRAD"):
    """DML_ROI_ALIGN_GRAD_OPERATOR_DESC: the gradients of ROI_ALIGN1 for the images, for the regions, or for both.

    A mean passes an equal share of an incoming element on to each of its samples, a maximum all of it to the first largest one; samples
    outside the image are 0 and drop their share. That of the regions follows the chain rule: a sample's slope, between its pixels, times
    its distance from the opposite corner as a part of the region, times the scale, summed over channels. Samples of NEAREST_NEIGHBOR and
    those off the outermost pixels have no slope, and the number of samples counts as fixed. DirectML's page prints code for the regions'
    gradient that leaves out the scales and the division by the output's sizes; it agrees only where the two are equal.
    """

    formula = "output_gradient[i] = sum of weight * input_gradient[o] over the samples that read i"
    support = (SupportRow("4_1", dims=4, dims_of={**DIMS_OF, "output_roi_gradient_tensor": (2, 4)}, T=FLOATS, Index=UINT32),)

    input_tensor: Annotated[TensorDesc | None, In("batch channels height width"), After()] = None
    """The images of the forward operator. MAX needs them, and so does output_roi_gradient_tensor."""

    input_gradient_tensor: Annotated[TensorDesc, In("num_rois channels output_height output_width")]
    """The upstream gradient of the forward output."""

    output_gradient_tensor: Annotated[TensorDesc | None, Out("batch channels height width"), After("batch_indices_tensor")] = None
    """The gradient of the images. Without input_tensor nothing else determines its sizes."""

    output_roi_gradient_tensor: Annotated[TensorDesc | None, Out("*ones num_rois 4")] = None
    """The gradient of the regions."""

    def applicable_outputs(self) -> tuple[str, ...]:
        return super().applicable_outputs() if self.input_tensor is not None else ("output_gradient_tensor",)

    @rule("input_tensor is given where the gradient needs the images: for that of the regions, and for MAX")
    def images_given(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        reasons = {
            "output_roi_gradient_tensor is described": self.output_roi_gradient_tensor is not None,
            "reduction_function is MAX": self.reduction_function is ReduceFunction.MAX,
        }
        if self.input_tensor is None and any(reasons.values()):
            yield Violation("input_tensor", "missing", "a tensor", tuple(text for text, holds in reasons.items() if holds))


class ROIPoolingDesc(OperatorDesc, dml="ROI_POOLING"):
    """DML_ROI_POOLING_OPERATOR_DESC: the maximum of each part of each region of interest.

    A region, scaled and rounded to whole pixels, both corners included, is cut into pooled_size parts; parts may overlap by a pixel.
    Part ox of a region of W = x2 - x1 + 1 columns has the columns from x1 + floor(ox * W / width) up to, not including,
    x1 + ceil((ox + 1) * W / width), of those inside the image; rows likewise. As in ONNX's MaxRoiPool halves are rounded away from 0, and
    a part without a pixel of the image is 0.
    """

    formula = "output[r, c, oy, ox] = max of input[batch, c] over the part (oy, ox) of region r"
    support = (SupportRow("1_0", dims=4, T=FLOATS),)

    input_tensor: Annotated[TensorDesc, In("batch channels height width")]
    """The images."""

    roi_tensor: Annotated[TensorDesc, In("1 1 num_rois 5")]
    """The batch index and the corners x1, y1, x2, y2 of each region, x2 at least x1 and y2 at least y1."""

    output_tensor: Annotated[TensorDesc | None, Out("num_rois channels pooled_height pooled_width", required=True)] = None
    """The maximum of each part."""

    spatial_scale: Float = default(1.0)
    """The factor of the coordinates."""

    pooled_size: Size2DValue
    """Width and height of the output."""

    @derived("pooled_size.height")
    def pooled_height(self, symbols: Sizes) -> Explained:
        return self._pooled(self.pooled_size.height)

    @derived("pooled_size.width")
    def pooled_width(self, symbols: Sizes) -> Explained:
        return self._pooled(self.pooled_size.width)

    def _pooled(self, size: int) -> Explained:
        if not 1 <= size <= MAX_SIZE:
            raise UnboundSymbolError("pooled_size")
        return Explained(size, f"pooled_size is {self.pooled_size}")

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        if field.name == "roi_tensor" and self.roi_tensor.sizes[-1:] == (4,):
            return "a region is batch index, x1, y1, x2, y2; ROI_ALIGN has a separate tensor for the batch indices"
        return super().size_remedy(field, symbols)

    @rule("pooled_size is at least 1 by 1")
    def pooled_size_positive(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        for name in ("width", "height"):
            if getattr(self.pooled_size, name) == 0:
                yield Violation(f"pooled_size.{name}", "0", "at least 1")
