"""Bases of normalization operators: tensors that repeat along dimensions of the input, and a fused activation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from dmlpy.description.coercion import Float, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.markers import Violation, rule
from dmlpy.description.sizes import Sizes, Term, align
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import plural
from dmlpy.operators.activation import FusedActivation, unfusable


class StatisticsDesc(OperatorDesc):
    """An operator with statistics: tensors whose sizes are the input's, or 1 where they repeat."""

    statistics: ClassVar[tuple[str, ...]] = ()
    """The tensors that may repeat along dimensions of the input."""

    @rule("each size of a statistic is 1, where it repeats, or the input's")
    def statistics_sizes(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        reported: set[str | None] = set()
        of_input = self._input_terms(symbols)
        for name in self.statistics if of_input else ():
            desc: TensorDesc | None = getattr(self, name)
            run = next(field.marker.terms[-1].symbol for field in self.tensor_fields() if field.name == name)
            if desc is None or run in reported or f"len({run})" not in symbols:
                continue
            dims, expected = symbols[f"len({run})"], len(of_input)
            if list(desc.sizes) != [symbols[f"{run}[{axis}]"] for axis in range(dims)]:
                continue  # another tensor disagrees, and this one is reported
            reported.add(run)
            remedy = self.fitting(desc.sizes, symbols)
            if dims != expected:
                wanted = f"{plural(expected, 'dimension')}, {'with ones where it repeats' if dims < expected else 'like the input'}"
                why = (symbols.why("len(sizes)"),) if "len(sizes)" in symbols else ()
                yield Violation(f"{name}.sizes", f"{list(desc.sizes)}", wanted, why, remedy)
                continue
            for axis, (size, term) in enumerate(zip(desc.sizes, of_input, strict=True)):
                value = symbols[term.symbol or ""]
                if size not in (1, value):
                    wanted = "1" if value == 1 else f"1 or {term} = {value}"
                    yield Violation(f"{name}.sizes[{axis}]", str(size), wanted, (symbols.why(term.symbol or ""),), remedy)

    def _input_terms(self, symbols: Sizes) -> tuple[Term, ...]:
        """The terms of the input's dimensions; empty if no tensor determines their number."""
        terms = self.terms(self.tensor_fields()[0])
        return align(terms, symbols.get("len(sizes)", 0) if terms[-1].run else len(terms)) or ()

    def fitting(self, sizes: Sequence[int], symbols: Sizes) -> str | None:
        """A remedy for a statistic whose one size matches another dimension of the input, the usual mistake about layouts.

        Not where only the first dimension has it, which is the batch: a statistic of each sample is hardly what is meant.
        """
        of_input = [symbols.evaluate(term) for term in self._input_terms(symbols)]
        long = [size for size in sizes if size != 1]
        if len(long) == 1 and of_input.count(long[0]) == 1 and (axis := of_input.index(long[0])) > 0:
            fitting = [size if index == axis else 1 for index, size in enumerate(of_input)]
            return f"sizes {fitting} repeat along all dimensions but {axis}; sizes name dimensions, strides alone define a layout"
        return None


class FusingDesc(OperatorDesc):
    """A normalization that applies an activation to each element of its output."""

    epsilon: Float = default(1e-5)
    """The number added to the variance, so that nothing is divided by 0."""

    fused_activation: FusedActivation = default(None)
    """The activation f, an element-wise one described without tensors. If absent, the result is unchanged."""

    @rule("a fused activation is an element-wise function that can be fused")
    def fused_activation_kind(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        why = "it is applied to single elements and has no tensors"
        yield from unfusable("fused_activation", self.fused_activation, why)
