"""The compiled sums of weighted gathers. Products are rounded, and added in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import intrinsic, jit, unpacked
from dmlpy.devices.cpu.indexing.weighted_gather import CHANNELS_OF_BLOCK, WeightedGatherParameters
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Isa
from dmlpy.devices.cpu.simd import ADDRESS, FLOAT, INDEX, Loop, each_count, simd_of
from dmlpy.devices.cpu.thread_pool_kernels import share_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.thread_pool import TaskBody

_WORD_BYTES = 4


class _Terms:
    """The indices and weights of the terms at one place after the other.

    Args:
        builder: where the code is appended.
        indices: the address of the addresses of the indices.
        weights: the address of those of the weights.
        first: the number of the first place.
        terms: the number of terms.
    """

    def __init__(self, builder: Any, indices: Any, weights: Any, first: Any, terms: int) -> None:
        self._builder, offset = builder, builder.mul(first, ADDRESS(_WORD_BYTES))
        self._indices, self._weights = ([self._begin(table, term, offset) for term in range(terms)] for table in (indices, weights))

    def _begin(self, table: Any, term: int, offset: Any) -> Any:
        place = self._builder.inttoptr(self._builder.add(table, ADDRESS(8 * term)), ADDRESS.as_pointer())
        return self._builder.add(self._builder.load(place, align=8), offset)

    def at(self, offset: Any, last: Any, step: Any) -> list[tuple[Any, Any]]:
        """The distance of each term's element from the first one, in bytes, and its weight, at an offset in bytes from the first place."""
        builder, terms = self._builder, []
        for indices, weights in zip(self._indices, self._weights, strict=True):
            index = builder.load(builder.inttoptr(builder.add(indices, offset), INDEX.as_pointer()), align=_WORD_BYTES)
            index = builder.zext(index, ADDRESS)
            index = builder.select(builder.icmp_unsigned("<", index, last), index, last)
            weight = builder.load(builder.inttoptr(builder.add(weights, offset), FLOAT.as_pointer()), align=FLOAT_BYTES)
            terms.append((builder.mul(index, step), weight))
        return terms


def _sum(builder: Any, products: Sequence[tuple[Any, Any]]) -> Any:
    """The sum of products."""
    total = None
    for x, y in products:
        product = builder.fmul(x, y)
        total = product if total is None else builder.fadd(total, product)
    return total


def _along_places(terms: int) -> Any:
    """The intrinsic `sum_up(source, target, count, channels, last, indices, weights, first, steps)` for a few channels.

    `steps` are those of the input's elements and channels, and of the output's places and channels.
    """

    @intrinsic
    def sum_up(source: Any, target: Any, count: Any, channels: Any, last: Any, indices: Any, weights: Any, first: Any, steps: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, target, count, channels, last, indices, weights, first, steps = arguments
            element, channel, place, out_channel = unpacked(builder, steps)
            tables = _Terms(builder, indices, weights, first, terms)
            planes = [builder.add(source, builder.mul(channel, ADDRESS(at))) for at in range(CHANNELS_OF_BLOCK)]
            results = [builder.add(target, builder.mul(out_channel, ADDRESS(at))) for at in range(CHANNELS_OF_BLOCK)]
            for channel_count in each_count(builder, channels, CHANNELS_OF_BLOCK):
                loop = Loop(builder, [ADDRESS(0), ADDRESS(0)])
                at, to = loop.values
                of_place = tables.at(builder.mul(at, ADDRESS(_WORD_BYTES)), last, element)
                for plane, result in zip(planes[:channel_count], results[:channel_count], strict=True):
                    places = [builder.inttoptr(builder.add(plane, distance), FLOAT.as_pointer()) for distance, _ in of_place]
                    products = [(builder.load(each, align=FLOAT_BYTES), weight) for each, (_, weight) in zip(places, of_place, strict=True)]
                    pointer = builder.inttoptr(builder.add(result, to), FLOAT.as_pointer())
                    builder.store(_sum(builder, products), pointer, align=FLOAT_BYTES)
                following = builder.add(at, ADDRESS(1))
                loop.repeat_while(builder.icmp_signed("<", following, count), [following, builder.add(to, place)])

        return types.void(*[types.int64] * 8, types.UniTuple(types.int64, 4)), generate

    return sum_up


def _along_channels(terms: int, isa: Isa) -> Any:
    """The intrinsic of the same arguments for contiguous channels, at least one."""
    simd, lanes = simd_of(isa), isa.lanes

    @intrinsic
    def sum_up(source: Any, target: Any, count: Any, channels: Any, last: Any, indices: Any, weights: Any, first: Any, steps: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> None:
            source, target, count, channels, last, indices, weights, first, steps = arguments
            element, _, place, _ = unpacked(builder, steps)
            tables = _Terms(builder, indices, weights, first, terms)
            rest = builder.and_(channels, ADDRESS(lanes - 1))
            whole = builder.sub(channels, rest)
            loop = Loop(builder, [ADDRESS(0), target])
            at, to = loop.values
            of_place = tables.at(builder.mul(at, ADDRESS(_WORD_BYTES)), last, element)
            rows = [(builder.add(source, distance), simd.repeated(builder, weight)) for distance, weight in of_place]
            with builder.if_then(builder.icmp_signed(">", whole, ADDRESS(0))):
                inner = Loop(builder, [ADDRESS(0)])
                offset = builder.mul(inner.values[0], ADDRESS(FLOAT_BYTES))
                total = _sum(builder, [(simd.value_of(builder, builder.add(row, offset)), weight) for row, weight in rows])
                simd.write(builder, total, builder.add(to, offset))
                following = builder.add(inner.values[0], ADDRESS(lanes))
                inner.repeat_while(builder.icmp_signed("<", following, whole), [following])
            with builder.if_then(builder.icmp_signed(">", rest, ADDRESS(0))):
                offset = builder.mul(whole, ADDRESS(FLOAT_BYTES))
                total = _sum(builder, [(simd.first_of(builder, builder.add(row, offset), rest), weight) for row, weight in rows])
                simd.write_first(builder, total, builder.add(to, offset), rest)
            following = builder.add(at, ADDRESS(1))
            loop.repeat_while(builder.icmp_signed("<", following, count), [following, builder.add(to, place)])

        return types.void(*[types.int64] * 8, types.UniTuple(types.int64, 4)), generate

    return sum_up


def build_weighted_gather(terms: int, contiguous: bool, isa: Isa) -> TaskBody:
    """Builds a thread's part of the sums, to be compiled.

    Args:
        terms: the number of terms.
        contiguous: whether the channels of the input and of the output are contiguous, and a block has all of them.
        isa: the instruction set that it is compiled for.
    """
    sum_up = _along_channels(terms, isa) if contiguous else _along_places(terms)

    @jit
    def run(p: WeightedGatherParameters, first: Any, last: Any, state: Any) -> None:
        for unit in range(first, last):
            place, others = unit % p.pieces * p.piece, unit // p.pieces
            batch, channel = others // p.blocks, others % p.blocks * p.block
            source = p.input + batch * p.input_batch + channel * p.input_channel
            target = p.output + batch * p.output_batch + place * p.output_place + channel * p.output_channel
            steps = (p.input_element, p.input_channel, p.output_place, p.output_channel)
            count, channels = min(p.piece, p.places - place), min(p.block, p.channels - channel)
            sum_up(source, target, count, channels, p.elements - 1, p.indices, p.weights, batch * p.places + place, steps)

    return share_units(WeightedGatherParameters, run)
