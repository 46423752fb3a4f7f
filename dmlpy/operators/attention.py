"""Multi-head attention: softmax(scale * Q K^T + bias, masked) V for each head, with cached keys and values of earlier steps.

Sizes: B = batch_size, S = sequence_length, of the queries; L = key_value_sequence_length, of the new keys and values; P =
past_sequence_length, of the cached ones; T = P + L, of all. Query, key and value hold the heads side by side in their last dimension:
heads * head_size. Tensors of fewer dimensions than they may have can have ones in front.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Float, Spelled, Uint, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel, MultiheadAttentionMaskType
from dmlpy.description.markers import In, Limits, Out, Slot, TensorField, Violation, derived, rule
from dmlpy.description.sizes import MAX_SIZE, Explained, Sizes, Term, UnboundSymbolError, parse
from dmlpy.description.support import FLOATS, INT32, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import alternatives

# The parts of query, key and value that each input provides.
_GIVES = {
    "query_tensor": ("query",),
    "key_tensor": ("key",),
    "value_tensor": ("value",),
    "stacked_query_key_tensor": ("query", "key"),
    "stacked_key_value_tensor": ("key", "value"),
    "stacked_query_key_value_tensor": ("query", "key", "value"),
}

_MASKS = {
    MultiheadAttentionMaskType.KEY_SEQUENCE_LENGTH: parse("1 batch_size"),
    MultiheadAttentionMaskType.KEY_SEQUENCE_END_START: parse("2 batch_size"),
    MultiheadAttentionMaskType.KEY_QUERY_SEQUENCE_LENGTH_START_END: parse("mask_length"),
}

# Tensors whose heads are those of the keys and values, where these have fewer than the queries.
_KEY_VALUE_HEADED = {
    "key_tensor",
    "value_tensor",
    "stacked_key_value_tensor",
    "past_key_tensor",
    "past_value_tensor",
    "output_present_key_tensor",
    "output_present_value_tensor",
}

_KEPT = ("past_key_tensor", "past_value_tensor", "output_present_key_tensor", "output_present_value_tensor")

# The divisor of each last size, by the number of heads.
_WIDTHS = {
    "hidden_size": "head_size",
    "key_hidden_size": "head_size",
    "value_hidden_size": "value_head_size",
    "output_hidden_size": "value_head_size",
}


class AttentionDesc(OperatorDesc):
    """The inputs that both structs begin with, and the relations between their sizes."""

    head_counts: ClassVar[tuple[str, str]]
    """The attributes that give the number of heads of the queries, and of the keys and values."""

    query_tensor: Annotated[TensorDesc | None, In("batch_size sequence_length hidden_size")] = None
    """The queries, the heads side by side in the last dimension. Leading dimensions of size 1 may be added."""

    key_tensor: Annotated[TensorDesc | None, In("batch_size key_value_sequence_length key_hidden_size")] = None
    """The keys, the heads side by side in the last dimension. Leading dimensions of size 1 may be added."""

    value_tensor: Annotated[TensorDesc | None, In("batch_size key_value_sequence_length value_hidden_size")] = None
    """The values, the heads side by side in the last dimension. Leading dimensions of size 1 may be added."""

    stacked_query_key_tensor: Annotated[TensorDesc | None, In("batch_size sequence_length heads 2 head_size")] = None
    """Queries and keys, of equal sequence lengths and head counts."""

    stacked_key_value_tensor: Annotated[TensorDesc | None, In("batch_size key_value_sequence_length heads 2 head_size")] = None
    """Keys and values."""

    stacked_query_key_value_tensor: Annotated[TensorDesc | None, In("batch_size sequence_length heads 3 head_size")] = None
    """Queries, keys and values, of equal sequence lengths and head counts."""

    bias_tensor: Annotated[TensorDesc | None, In("bias_size")] = None
    """The bias of query, key and value, in this order. If absent, 0."""

    mask_tensor: Annotated[TensorDesc | None, In("*mask_sizes", INT32)] = None
    """The keys that count, in the form that mask_type selects. A size of a BOOLEAN mask may also be 1."""

    relative_position_bias_tensor: Annotated[TensorDesc | None, In("*position_bias_sizes")] = None
    """The bias of the scores. Each size may also be 1. If absent, 0."""

    past_key_tensor: Annotated[TensorDesc | None, In("batch_size heads past_sequence_length head_size")] = None
    """The keys of earlier steps, given together with past_value_tensor."""

    past_value_tensor: Annotated[TensorDesc | None, In("batch_size heads past_sequence_length value_head_size")] = None
    """The values of earlier steps."""

    output_tensor: Annotated[TensorDesc | None, Out("batch_size sequence_length output_hidden_size", required=True)] = None
    """The result of all heads, side by side."""

    output_present_key_tensor: Annotated[TensorDesc | None, Out("batch_size heads total_sequence_length head_size")] = None
    """The keys as they were used, past ones first. If absent, they are not stored."""

    output_present_value_tensor: Annotated[TensorDesc | None, Out("batch_size heads total_sequence_length value_head_size")] = None
    """The values as they were used, past ones first. If absent, they are not stored."""

    scale: Float
    """The factor of the products of queries and keys, usually 1 / sqrt(head_size)."""

    mask_filter_value: Float
    """The number added to a score that the mask filters out, usually a large negative one."""

    mask_type: Spelled[MultiheadAttentionMaskType] = default(MultiheadAttentionMaskType.NONE)
    """The form of the mask. KEY_SEQUENCE_LENGTH: how many keys count. KEY_SEQUENCE_END_START: end and start of the keys that count.
    KEY_QUERY_SEQUENCE_LENGTH_START_END: B lengths of keys, where each of B queries starts and the last ends, where each of B lines of keys
    starts and the last ends; only the lengths matter. BOOLEAN: 1 for each score that counts.
    """

    @cached_property
    def _counts(self) -> tuple[int, int] | None:
        """The heads of the queries, and of keys and values; None if the attributes, or all tensors, show that these are wrong."""
        queries, keys = (getattr(self, name) for name in self.head_counts)
        if not (1 <= queries <= MAX_SIZE and 1 <= keys <= MAX_SIZE):
            return None
        return None if self._widths and all(width % (keys if index else queries) for _, width, index in self._widths) else (queries, keys)

    @cached_property
    def _widths(self) -> tuple[tuple[str, int, int], ...]:
        """The last sizes of query, key and value: the field, the size, and the index in `head_counts` of its divisor."""
        tensors = [(name, getattr(self, name), index) for index, name in ((0, "query_tensor"), (1, "key_tensor"), (1, "value_tensor"))]
        return tuple((name, tensor.sizes[-1], index) for name, tensor, index in tensors if tensor is not None and tensor.sizes)

    @cached_property
    def _patterns(self) -> dict[str, tuple[Term, ...]]:
        """The patterns, by field, that attributes or other tensors change."""
        patterns = {"mask_tensor": _MASKS[self.mask_type]} if self.mask_type in _MASKS else {}
        # Keys stacked with the queries have the queries' sequence length.
        symbols = {"key_value_sequence_length": "sequence_length"} if self._keys_beside_queries else {}
        for field in self.tensor_fields():
            terms = [Term(term.factor, symbols.get(term.symbol or "", term.symbol), term.run) for term in field.marker.terms]
            if field.name in _KEY_VALUE_HEADED and self.head_counts[0] != self.head_counts[1]:
                terms = [Term(1, "key_value_heads") if term.symbol == "heads" else term for term in terms]
            if self._counts is not None and terms[-1].symbol in _WIDTHS:
                like_keys = terms[-1].symbol == "output_hidden_size" and self._values_like_keys
                symbol = "head_size" if like_keys else _WIDTHS[terms[-1].symbol]
                terms[-1] = Term(self._counts[field.name in _KEY_VALUE_HEADED], symbol)
            if terms[-1].symbol == "value_head_size" and field.name in _KEPT and self._values_like_keys:
                terms[-1] = Term(1, "head_size")
            patterns.setdefault(field.name, tuple(terms))
        return patterns

    @property
    def _keys_beside_queries(self) -> bool:
        return self.stacked_query_key_tensor is not None or self.stacked_query_key_value_tensor is not None

    @property
    def _keys_of_past(self) -> bool:
        """Returns whether the past holds all keys and values: cross-attention, whose keys stay the same from step to step."""
        new = [name for name, parts in _GIVES.items() if parts != ("query",) and getattr(self, name) is not None]
        return not new and self.past_key_tensor is not None and self.past_value_tensor is not None

    @property
    def _values_like_keys(self) -> bool:
        """Returns whether the values' heads have the size of the keys' heads: if they are stacked with the keys, or come from the past."""
        stacked = self.stacked_key_value_tensor is not None or self.stacked_query_key_value_tensor is not None
        return stacked or self._keys_of_past

    @property
    def key_lengths(self) -> tuple[int, int, int]:
        """P, L and T of a checked desc: earlier keys, new keys, and places for keys in the scores and the present tensors.

        T is P + L, or with past_sequence_lengths_tensor the length of the present tensors.
        """
        new, past = 0, 0 if self.past_key_tensor is None else self.past_key_tensor.sizes[-2]
        if self.key_tensor is not None:
            new = self.key_tensor.sizes[-2]
        for stacked in (self.stacked_query_key_tensor, self.stacked_key_value_tensor, self.stacked_query_key_value_tensor):
            new = new if stacked is None else stacked.sizes[1]
        presents = (self.output_present_key_tensor, self.output_present_value_tensor)
        return past, new, next((tensor.sizes[-2] for tensor in presents if tensor is not None), past + new)

    @property
    def head_sizes(self) -> tuple[int, int]:
        """Elements of a head of a checked desc: of its queries and keys, and of its values."""
        assert self.output_tensor is not None
        heads = getattr(self, self.head_counts[0])
        stacked = (self.stacked_query_key_tensor, self.stacked_query_key_value_tensor)
        size = self.query_tensor.sizes[-1] // heads if self.query_tensor else next(tensor.sizes[-1] for tensor in stacked if tensor)
        return size, self.output_tensor.sizes[-1] // heads

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        return self._patterns[field.name]

    def aligned(self, slot: Slot, dimension_count: int) -> tuple[Term, ...] | None:
        terms = self.terms(slot.field)
        if terms[-1].run:
            return super().aligned(slot, dimension_count)
        return (Term(1),) * (dimension_count - len(terms)) + terms if dimension_count >= len(terms) else None

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        """A remedy for heads in a separate dimension or of a wrong size, and for inputs that another head count would fit."""
        tensor = getattr(self, field.name)
        if self._counts is None or tensor is None:
            return None
        index = int(field.name in _KEY_VALUE_HEADED)
        count, sizes = self._counts[index], tensor.sizes
        if field.name.endswith(_KEPT) and len(sizes) == 4 and sizes[2] == count != sizes[1]:
            return f"heads come before positions: sizes {[sizes[0], count, sizes[1], sizes[3]]}"
        if field.marker.terms[-1].symbol not in _WIDTHS:
            return None
        if len(sizes) == 4 and sizes[0] > 1 and count in sizes[1:3]:
            length = sizes[2] if sizes[1] == count else sizes[1]
            return f"heads lie side by side in the last dimension: sizes {[sizes[0], length, count * sizes[3]]}"
        name, size = self.head_counts[index], symbols.get("head_size")
        if size is None or field.name not in ("query_tensor", "key_tensor"):
            return None
        fitting = {divmod(width, size) for place, width, at in self._widths if self.head_counts[at] == name and place != "value_tensor"}
        fitting_count, rest = fitting.pop()
        return f"{name}={fitting_count} fits" if not fitting and rest == 0 and fitting_count not in (0, count) else None

    @derived("the number of query heads, by the attribute")
    def heads(self, symbols: Sizes) -> Explained:
        return self._count(0)

    @derived("the number of key and value heads, by the attribute")
    def key_value_heads(self, symbols: Sizes) -> Explained:
        return self._count(1)

    def _count(self, index: int) -> Explained:
        name = self.head_counts[index]
        if self._counts is None:
            raise UnboundSymbolError(name)
        return Explained(self._counts[index], f"{name} is {self._counts[index]}")

    @derived("heads * head_size + key_value_heads * (head_size + value_head_size)")
    def bias_size(self, symbols: Sizes) -> Explained:
        heads, groups, size = symbols["heads"], symbols["key_value_heads"], symbols["head_size"]
        of_value = size if self._values_like_keys else symbols["value_head_size"]
        reason = f"query, key and value: {heads} * {size} + {groups} * {size} + {groups} * {of_value}"
        return Explained(heads * size + groups * (size + of_value), reason)

    @derived("3 * batch_size + 2")
    def mask_length(self, symbols: Sizes) -> int:
        return 3 * symbols["batch_size"] + 2

    @derived("past_sequence_length + key_value_sequence_length")
    def total_sequence_length(self, symbols: Sizes) -> Explained:
        return self._joined_length(symbols)

    def _joined_length(self, symbols: Sizes) -> Explained:
        symbol = "sequence_length" if self._keys_beside_queries else "key_value_sequence_length"
        lengths = {tensor.sizes[-2:-1] for tensor in (self.past_key_tensor, self.past_value_tensor) if tensor is not None}
        if not lengths:
            return Explained(symbols[symbol], f"{symbol}, without a past")
        if len(lengths) > 1:  # one of them is wrong: only it is reported, not a tensor that depends on it
            raise UnboundSymbolError("past_sequence_length")
        if self._keys_of_past:
            return Explained(symbols["past_sequence_length"], "past_sequence_length, without new keys")
        past, new = symbols["past_sequence_length"], symbols[symbol]
        return Explained(past + new, f"past_sequence_length + {symbol} = {past} + {new}")

    @rule("query, key and value are each given once, alone or stacked; key and value also by the past alone")
    def attention_inputs(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        provided: dict[str, str] = {}
        for name, parts in _GIVES.items():
            if getattr(self, name) is None:
                continue
            others = dict.fromkeys(provided[part] for part in parts if part in provided)
            if others:
                why = (f"it holds {' and '.join(parts)}",)
                yield Violation(name, f"given beside {' and '.join(others)}", "query, key and value each once", why)
            provided = dict.fromkeys(parts, name) | provided
        for part in ("query", "key", "value"):
            if part not in provided and not (self._keys_of_past and part != "query"):
                places = [name for name, parts in _GIVES.items() if part in parts]
                yield Violation(places[0], "missing", f"a {part}: {', '.join(places[:-1])} or {places[-1]}")

    @rule("the widths of query, key and value are multiples of the numbers of heads")
    def head_count_divides(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        counts = [getattr(self, name) for name in self.head_counts]
        if self._counts is not None or not all(1 <= count <= MAX_SIZE for count in counts):
            return
        reported = set()
        for name, width, index in self._widths:
            if self.head_counts[index] not in reported:
                reported.add(self.head_counts[index])
                yield Violation(self.head_counts[index], str(counts[index]), f"a divisor of {width}, the last size of {name}")

    @rule("a mask is given if and only if mask_type is not NONE")
    def mask_with_type(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        if self.mask_tensor is None and self.mask_type is not MultiheadAttentionMaskType.NONE:
            yield Violation("mask_tensor", "missing", "a mask", (f"mask_type is {self.mask_type}",), "mask_type=NONE is without a mask")
        if self.mask_tensor is not None and self.mask_type is MultiheadAttentionMaskType.NONE:
            names = [item for item in MultiheadAttentionMaskType.spellings() if item != "NONE"]
            yield Violation("mask_type", "NONE", alternatives(names), ("there is a mask_tensor",))

    @rule("past keys and past values are both given or both absent")
    def past_pair(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        absent = [name for name in ("past_key_tensor", "past_value_tensor") if getattr(self, name) is None]
        if len(absent) == 1:
            other = "past_value_tensor" if absent == ["past_key_tensor"] else "past_key_tensor"
            yield Violation(absent[0], "missing", f"a tensor: {other} is given", ("each key has a value",))

    @rule("a relative position bias, and a mask of booleans, have the sizes [B, heads, S, T] of the scores, or 1 where they repeat")
    def score_sizes(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        axes = ("batch_size", "heads", "sequence_length", "total_sequence_length")
        names = ["relative_position_bias_tensor"]
        names += ["mask_tensor"] if self.mask_type is MultiheadAttentionMaskType.BOOLEAN else []
        for name in names:
            sizes = () if getattr(self, name) is None else getattr(self, name).sizes
            if len(sizes) > len(axes) + 1:
                continue  # no level accepts so many dimensions, which is already reported
            terms = ("1", *axes)[len(axes) + 1 - len(sizes) :]
            keys = (symbols.get("batch_size"), symbols.get("total_sequence_length"))
            remedy = f"for all heads and queries alike: sizes [{keys[0]}, 1, 1, {keys[1]}]" if sizes == keys else None
            for axis, (size, symbol) in enumerate(zip(sizes, terms, strict=True)):
                value = symbols.get(symbol, 1 if symbol == "1" else size)
                if size > 1 and size != value:
                    why = (f"{name} is [{', '.join(terms)}]", *((symbols.why(symbol),) if symbol in symbols else ()))
                    yield Violation(f"{name}.sizes[{axis}]", str(size), "1" if value == 1 else f"1 or {symbol} = {value}", why, remedy)


class MultiheadAttentionDesc(AttentionDesc, dml="MULTIHEAD_ATTENTION"):
    """DML_MULTIHEAD_ATTENTION_OPERATOR_DESC: attention of each of several heads.

    Query, key and value are given alone or stacked: {query, key, value}, {stacked query key, value}, {query, stacked key value} or
    {stacked query key value}; or the query alone, with past keys and values that are all there are, as ONNX Runtime describes
    cross-attention, which Microsoft's page does not mention. The bias is added to them; past keys and values go in front of the new
    ones; the scores of each query and key get the relative position bias, then the mask. Keys and queries have heads of head_size, values
    of value_head_size, which is head_size where values are stacked.

    What the page leaves open is as ONNX Runtime and ONNX have it. Of a mask of KEY_QUERY_SEQUENCE_LENGTH_START_END only the lengths of the
    keys are read, as by ONNX Runtime's MultiHeadAttention on the CPU: the tensors give the start of each batch entry. Past and present
    values have value_head_size, as in ONNX's Attention: the page gives them head_size, which fits only where the two are equal. If a mask
    filters out all keys of a query, they all count alike, as if it filtered none.
    """

    formula = "output = softmax(scale * Q K^T + relative_position_bias + mask) V, for each head"
    head_counts = ("head_count", "head_count")
    support = (
        SupportRow(
            "6_1",
            dims=(3, 5),
            dims_of={
                "stacked_query_key_tensor": 5,
                "stacked_key_value_tensor": 5,
                "stacked_query_key_value_tensor": 5,
                "bias_tensor": (1, 5),
                "mask_tensor": (1, 5),
                "relative_position_bias_tensor": (4, 5),
                "past_key_tensor": (4, 5),
                "past_value_tensor": (4, 5),
                "output_present_key_tensor": (4, 5),
                "output_present_value_tensor": (4, 5),
            },
            T=FLOATS,
        ),
    )

    head_count: Annotated[Uint, Limits(least=1), After("mask_filter_value")]
    """How many heads there are."""


class MultiheadAttention1Desc(AttentionDesc, dml="MULTIHEAD_ATTENTION1"):
    """DML_MULTIHEAD_ATTENTION1_OPERATOR_DESC: attention of each of several heads; several may share their keys and values.

    As MULTIHEAD_ATTENTION, with heads of the queries in groups: each head of the keys and values serves as many of the queries' heads as
    the next. Microsoft's page says little about this operator; the groups follow from the names of its members.

    What past_sequence_lengths_tensor does is as ONNX Runtime's GroupQueryAttention has it, which is computed by this operator on DirectML.
    Of the past keys and values of a batch entry so many count, the first ones. The new ones follow these, and 0 follows up to the end of
    the present tensors. Attention is then causal: the first query sees the past keys that count and the first new key, each later query
    one more of the new keys. Places after the last new key count for no query, and masks and biases of scores have entries for them that
    are not read. A query without any key gives 0. A length below 0, or NaN, counts as 0; one that exceeds the past, or leaves the new keys
    no room in the present tensors, as the greatest that does not; one of floating point is rounded toward zero. Without past tensors
    there are no earlier keys: where DirectML lets past and present share a buffer, the past must be given as an input here.
    """

    formula = "output = softmax(scale * Q K^T + relative_position_bias + mask) V, for each head of the queries and its group's K and V"
    head_counts = ("query_head_count", "key_value_head_count")
    support = (
        SupportRow(
            "6_3",
            dims=(3, 5),
            dims_of=MultiheadAttentionDesc.support[0].dims_of | {"past_sequence_lengths_tensor": (1, 5)},
            T=FLOATS,
            L=FLOATS | INT32,
        ),
    )

    past_sequence_lengths_tensor: Annotated[TensorDesc | None, In("batch_size", "L"), After("past_value_tensor")] = None
    """How many earlier keys and values count, for each batch entry. The present tensors may then be buffers for later steps too, that hold
    more than the new total, or as much as the past, if that is enough for the new keys. ONNX Runtime passes INT32. Microsoft's page, which
    says nothing else about the member, gives it the other tensors' types, which are also accepted.
    """

    query_head_count: Annotated[Uint, Limits(least=1), After("mask_filter_value")]
    """How many heads the queries have: a multiple of key_value_head_count."""

    key_value_head_count: Annotated[Uint, Limits(least=1)]
    """How many heads the keys and values have."""

    @derived("past_sequence_length + key_value_sequence_length, or the length of the present tensors with past_sequence_lengths_tensor")
    def total_sequence_length(self, symbols: Sizes) -> Explained:
        joined = self._joined_length(symbols)
        presents = [tensor for tensor in (self.output_present_key_tensor, self.output_present_value_tensor) if tensor is not None]
        lengths = {size for tensor in presents for size in tensor.sizes[-2:-1]}
        if self.past_sequence_lengths_tensor is None or len(lengths) != 1:
            return joined
        # The lengths say how much of a buffer is valid: it may have room for later steps, or be the past's, which receives the new keys.
        (length,) = lengths
        past = 0 if self.past_key_tensor is None else symbols["past_sequence_length"]
        fits = length >= joined.value if self.past_key_tensor is None else length == past >= joined.value - past
        return Explained(length, "the length of the present tensors; past_sequence_lengths_tensor gives the valid part") if fits else joined

    @rule("heads of the queries share those of keys and values in groups of equal size; stacked, there are as many")
    def head_groups(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        queries, keys = self.query_head_count, self.key_value_head_count
        if not (1 <= queries <= MAX_SIZE and 1 <= keys <= MAX_SIZE):
            return
        stacked = next((name for name, parts in _GIVES.items() if {"query", "key"} <= {*parts} and getattr(self, name) is not None), None)
        if stacked is not None and keys != queries:
            yield Violation("key_value_head_count", str(keys), f"query_head_count = {queries}", (f"{stacked} holds query and key",))
        elif queries % keys:
            yield Violation("key_value_head_count", str(keys), f"a divisor of query_head_count = {queries}")
