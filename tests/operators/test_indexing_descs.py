"""The operators that read and write by index: every rule, every size that follows from others, and the messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import operator_class
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Sizes = tuple[int, ...]
Found = list[tuple[str, str]]


def indices(sizes: Sizes) -> dml.TensorDesc:
    return tensor(*sizes, data_type="INT32")


def reading(kind: Any, of: Sizes, by: Sizes, output: Sizes | None, **attributes: int) -> Any:
    described = None if output is None else tensor(*output)
    return kind(input_tensor=tensor(*of), indices_tensor=indices(by), output_tensor=described, **attributes)


def gather(of: Sizes, by: Sizes, output: Sizes | None, axis: int, index_dimensions: int) -> Any:
    return reading(dml.GatherDesc, of, by, output, axis=axis, index_dimensions=index_dimensions)


def elements(of: Sizes, by: Sizes, output: Sizes | None, axis: int) -> Any:
    return reading(dml.GatherElementsDesc, of, by, output, axis=axis)


def gather_nd(of: Sizes, by: Sizes, output: Sizes | None, actual: tuple[int, int], batch: int | None = None) -> Any:
    counts = {"input_dimension_count": actual[0], "indices_dimension_count": actual[1]}
    if batch is None:
        return reading(dml.GatherNDDesc, of, by, output, **counts)
    return reading(dml.GatherND1Desc, of, by, output, batch_dimension_count=batch, **counts)


def scatter(of: Sizes, by: Sizes, updates: Sizes, axis: int, output: Sizes | None = None) -> dml.ScatterDesc:
    tensors = {"input_tensor": tensor(*of), "indices_tensor": indices(by), "updates_tensor": tensor(*updates)}
    return dml.ScatterDesc(output_tensor=tensor(*(output or of)), axis=axis, **tensors)


def scatter_nd(of: Sizes, by: Sizes, updates: Sizes, actual: tuple[int, int]) -> dml.ScatterNDDesc:
    counts = {"input_dimension_count": actual[0], "indices_dimension_count": actual[1]}
    tensors = {"input_tensor": tensor(*of), "indices_tensor": indices(by), "updates_tensor": tensor(*updates)}
    return dml.ScatterNDDesc(output_tensor=tensor(*of), **tensors, **counts)


def one_hot(by: Sizes, values: Sizes, output: Sizes, axis: int) -> dml.OneHotDesc:
    return dml.OneHotDesc(indices_tensor=indices(by), values_tensor=tensor(*values), output_tensor=tensor(*output), axis=axis)


def nonzero(of: Sizes, count: Sizes, coordinates: Sizes) -> dml.NonzeroCoordinatesDesc:
    outputs = {"output_count_tensor": count, "output_coordinates_tensor": coordinates}
    described: Any = {name: tensor(*sizes, data_type="UINT32") for name, sizes in outputs.items()}
    return dml.NonzeroCoordinatesDesc(input_tensor=tensor(*of), **described)


# A desc, and the codes and places of its problems.
CASES: list[tuple[Callable[[], OperatorDesc], Found]] = [
    (lambda: gather((1, 3, 4), (1, 2, 5), (3, 2, 5), 2, 2), []),
    (lambda: gather((3, 4), (1, 1), (1, 3), 1, 0), []),
    (lambda: gather((3, 4), (1, 5), (3, 4), 1, 1), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: gather((3, 4), (2, 5), (3, 5), 1, 1), [("padding_dimensions", "indices_tensor.sizes[0]")]),
    (lambda: gather((3, 4), (2, 5), (3, 5), 1, 2), [("picked_dimensions", "index_dimensions")]),
    (lambda: gather((1, 3, 4), (2, 2, 5), (3, 2, 5), 2, 3), [("picked_dimensions", "index_dimensions")]),
    (lambda: gather((3, 4), (2, 5), (3, 5), 1, 3), [("dimension_count_range", "index_dimensions")]),
    (lambda: gather((3, 4), (5,), (3, 5), 1, 1), [("dims.equal", "indices_tensor.sizes")]),
    (lambda: gather((3, 4), (1, 5), (1, 3, 5), 1, 1), [("dims.equal", "output_tensor.sizes")]),
    (lambda: gather((3, 4), (1, 5), (3, 5), 2, 1), [("attribute.axis", "axis")]),
    (lambda: elements((3, 4), (3, 7), (3, 7), 1), []),
    (lambda: elements((3, 4), (3, 7), (3, 8), 1), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: elements((3, 4), (2, 7), (3, 7), 1), [("size.equal", "indices_tensor.sizes[0]")]),
    (lambda: elements((3, 4), (2, 7), (2, 7), 1), [("size.equal", "input_tensor.sizes[0]")]),
    (lambda: elements((3, 4), (1, 3, 7), (3, 7), 1), [("dims.equal", "indices_tensor.sizes")]),
    (lambda: elements((3, 4), (2, 7), (2, 7), 2), [("attribute.axis", "axis")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (3, 2)), []),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 3), (1, 1, 1, 7), (3, 2)), []),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 7, 5, 6), (3, 2)), [("size.equal", f"output_tensor.sizes[{at}]") for at in (1, 2)]),
    (lambda: gather_nd((2, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (3, 2)), [("padding_dimensions", "input_tensor.sizes[0]")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 3, 7, 2), (1, 1, 7, 6), (3, 2)), [("padding_dimensions", "indices_tensor.sizes[1]")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 4), (1, 1, 7, 6), (3, 2)), [("tuple_size", "indices_tensor.sizes[3]")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (5, 2)), [("dimension_count_range", "input_dimension_count")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (3, 0)), [("attribute.range", "indices_dimension_count")]),
    (lambda: gather_nd((4, 5, 6), (7, 8, 1), (8, 5, 6), (3, 3)), [("picked_dimensions", "indices_dimension_count")]),
    (lambda: gather_nd((4, 5, 6), (7, 2), (4, 5, 6), (3, 2)), [("dims.equal", "indices_tensor.sizes")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 1), (1, 3, 7, 5), (3, 3), 1), []),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 2), (1, 1, 3, 7), (3, 3), 1), []),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 1), (1, 3, 7, 4), (3, 3), 1), [("size.equal", "output_tensor.sizes[3]")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 2, 7, 1), (1, 2, 7, 5), (3, 3), 1), [("size.equal", "input_tensor.sizes[1]")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 2, 7, 1), (1, 3, 7, 5), (3, 3), 1), [("size.equal", "indices_tensor.sizes[1]")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 1), (1, 2, 7, 5), (3, 3), 1), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 3), (1, 3, 7, 5), (3, 3), 1), [("tuple_size", "indices_tensor.sizes[3]")]),
    (lambda: gather_nd((1, 3, 4, 5), (1, 3, 7, 1), (1, 3, 7, 5), (3, 3), 3), [("batch_dimension_range", "batch_dimension_count")]),
    (lambda: scatter((3, 4), (3, 7), (3, 7), 1), []),
    (lambda: scatter((3, 4), (3, 7), (3, 6), 1), [("size.equal", "updates_tensor.sizes[1]")]),
    (lambda: scatter((3, 4), (2, 7), (3, 7), 1), [("size.equal", "indices_tensor.sizes[0]")]),
    (lambda: scatter((3, 4), (3, 7), (3, 7), 1, (3, 7)), [("size.equal", "output_tensor.sizes[1]")]),
    (lambda: scatter((3, 4), (3, 7), (7,), 1), [("dims.equal", "updates_tensor.sizes")]),
    (lambda: scatter((3, 4), (2, 7), (3, 7), 3), [("attribute.axis", "axis")]),
    (lambda: scatter_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (3, 2)), []),
    (lambda: scatter_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 5), (3, 2)), [("size.equal", "updates_tensor.sizes[3]")]),
    (lambda: scatter_nd((1, 4, 5, 6), (1, 1, 7, 4), (1, 1, 7, 6), (3, 2)), [("tuple_size", "indices_tensor.sizes[3]")]),
    (lambda: scatter_nd((4, 5, 6), (7, 8, 1), (8, 5, 6), (3, 3)), [("picked_dimensions", "indices_dimension_count")]),
    (lambda: one_hot((3, 1), (1, 2), (3, 7), 1), []),
    (lambda: one_hot((3, 1), (9, 1), (3, 7), 1), []),
    (lambda: one_hot((3, 1), (1, 1), (3, 7), 1), [("values_count", "values_tensor.sizes")]),
    (lambda: one_hot((3, 7), (1, 2), (3, 7), 1), [("size.equal", "indices_tensor.sizes[1]")]),
    (lambda: one_hot((3, 1), (1, 2), (4, 7), 1), [("size.equal", "indices_tensor.sizes[0]")]),
    (lambda: one_hot((1, 3), (1, 2), (3, 7), 1), [("size.equal", f"indices_tensor.sizes[{at}]") for at in (0, 1)]),
    (lambda: one_hot((3, 1), (2,), (3, 7), 1), []),
    (lambda: one_hot((3, 1), (1, 1, 1, 2), (3, 7), 1), []),
    (lambda: one_hot((1, 3), (1, 2), (7, 3), 1), [("axis_choice", "axis")]),
    (lambda: gather((3, 4), (1, 5), (5, 4), 0, 0), [("padding_dimensions", "indices_tensor.sizes[1]")]),
    (lambda: gather_nd((1, 4, 5, 6), (1, 1, 7, 2), (1, 1, 7, 6), (2, 2)), [("padding_dimensions", "input_tensor.sizes[1]")]),
    (lambda: elements((3, 4), (3, 7), (3, 7), 0), [("axis_choice", "axis")]),
    (lambda: scatter((3, 4), (3, 7), (3, 7), 0), [("axis_choice", "axis")]),
    (lambda: nonzero((3, 4), (1,), (12,)), [("dims.support", "output_coordinates_tensor.sizes")]),
    (lambda: one_hot((3, 1), (1, 2), (3, 7), 2), [("attribute.axis", "axis")]),
    (lambda: nonzero((1, 2, 3), (1,), (6, 2)), []),
    (lambda: nonzero((1, 2, 3), (1, 1, 1), (1, 6, 3)), []),
    (lambda: nonzero((1, 1), (1,), (1, 1)), []),
    (lambda: nonzero((1, 2, 3), (1, 2), (6, 2)), [("size.equal", "output_count_tensor.sizes[1]")]),
    (lambda: nonzero((1, 2, 3), (1,), (5, 2)), [("size.equal", "output_coordinates_tensor.sizes[0]")]),
    (lambda: nonzero((1, 2, 3), (1,), (6, 1)), [("coordinate_range", "output_coordinates_tensor.sizes[1]")]),
    (
        lambda: nonzero((1, 2, 3), (1,), (2, 6, 4)),
        [("size.equal", "output_coordinates_tensor.sizes[0]"), ("coordinate_range", "output_coordinates_tensor.sizes[2]")],
    ),
]


def test_problems_are_reported_by_code_and_place() -> None:
    wrong = []
    for make, expected in CASES:
        desc = make()
        if [(problem.code, problem.path) for problem in dml.check(desc)] != expected:
            wrong.append(lay_out(f"{desc.to_dict()}\nexpected {expected}", dml.check(desc)))
    assert not wrong, "\n".join(wrong)


def test_messages_say_what_to_change() -> None:
    (padding,) = dml.check(gather((3, 4), (2, 5), (3, 5), 1, 1))
    assert padding.why == ("index_dimensions is 1: dimensions before the last 1 are padding",)
    assert padding.remedy == "with index_dimensions=2 it would count"
    (crowded,) = dml.check(gather((3, 4), (2, 5), (3, 5), 1, 2))
    assert (crowded.found, crowded.expected) == ("2", "at most 1")
    assert crowded.why[0] == "the picked blocks have the sizes [3, 2, 5]"
    assert crowded.remedy == "put ones in front of the sizes of every tensor, for 3 dimensions"
    assert dml.check(gather((1, 3, 4), (1, 2, 5), (3, 2, 5), 2, 2)) == []
    (place,) = dml.check(gather((3, 4), (1, 5), (3, 4), 1, 1))
    assert place.why[-1] == "gathered[1] = 5: indices_tensor.sizes[1]"


def test_remedies_make_descs_valid() -> None:
    remedies = [
        (gather((3, 4), (5,), (5, 4), 0, 1), "put ones in front: sizes [1, 5]", gather((3, 4), (1, 5), (5, 4), 0, 1)),
        (
            gather((4,), (3, 5), (3, 5), 0, 2),
            "put ones in front of the sizes of input_tensor, for 2 dimensions, and add 1 to axis",
            gather((1, 4), (3, 5), (3, 5), 1, 2),
        ),
        (gather((3, 4), (1, 5), (1, 5, 4), 0, 1), "leave out leading ones: sizes [5, 4]", gather((3, 4), (1, 5), (5, 4), 0, 1)),
        (gather((3, 4), (1, 5), (3, 5), 0, 1), "with axis=1 these would be the sizes", gather((3, 4), (1, 5), (3, 5), 1, 1)),
        (
            gather_nd((4, 5, 6), (7, 2), (1, 7, 6), (3, 2)),
            "put ones in front: sizes [1, 7, 2]",
            gather_nd((4, 5, 6), (1, 7, 2), (1, 7, 6), (3, 2)),
        ),
        (
            one_hot((3,), (2,), (3, 7), 1),
            "along dimension 1, the axis, it has size 1, elsewhere those of the others: sizes [3, 1]",
            one_hot((3, 1), (2,), (3, 7), 1),
        ),
        (
            nonzero((3, 4), (1,), (2, 12)),
            "each row belongs to one element, unlike in ONNX's NonZero: sizes [12, 2]",
            nonzero((3, 4), (1,), (12, 2)),
        ),
    ]
    assert [dml.check(wrong)[0].remedy for wrong, _, _ in remedies] == [remedy for _, remedy, _ in remedies]
    assert [dml.check(mended) for _, _, mended in remedies] == [[]] * len(remedies)
    (axis,) = dml.check(elements((3, 4), (3, 7), (3, 7), 0))
    assert (axis.expected, axis.why) == ("1", ("the tensors differ along dimension 1 alone, and fit together there",))


def test_scatter_has_two_names_and_came_after_the_first_row_of_its_page() -> None:
    assert operator_class("DML_OPERATOR_SCATTER_ELEMENTS") is dml.ScatterDesc
    desc = scatter((1, 1, 3, 4), (1, 1, 3, 7), (1, 1, 3, 7), 3)
    desc = desc.replace(indices_tensor=tensor(1, 1, 3, 7, data_type="UINT32"))
    assert {str(level): [problem.code for problem in dml.check(desc, level)] for level in ("1_0", "2_0")} == {
        "1_0": ["level.operator"],
        "2_0": [],
    }


def test_coordinates_are_all_unless_described_otherwise() -> None:
    desc = dml.NonzeroCoordinatesDesc(input_tensor=tensor(1, 2, 3)).with_outputs()
    assert desc == nonzero((1, 2, 3), (1, 1, 1), (1, 6, 3))
    fewer = nonzero((1, 2, 3), (1,), (6, 2))
    assert fewer.with_outputs() == fewer
    assert dml.NonzeroCoordinatesDesc(input_tensor=tensor(5)).with_outputs() == nonzero((5,), (1,), (5, 1))


SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def in_front(sizes: Sizes, dimension_count: int) -> Sizes:
    """The sizes with ones in front, for so many dimensions."""
    return (1,) * (dimension_count - len(sizes)) + sizes


@settings(max_examples=80)
@given(SIZES, SIZES, st.data())
def test_gathers_have_the_sizes_that_numpy_makes(of: Sizes, by: Sizes, data: st.DataObject) -> None:
    x, axis = np.zeros(of), data.draw(st.integers(0, len(of) - 1))
    taken = np.take(x, np.zeros(by, int), axis).shape
    dims = max(len(of), len(by), len(taken))
    shifted = axis + dims - len(of)
    desc = gather(in_front(of, dims), in_front(by, dims), None, shifted, len(by)).with_outputs()
    assert desc == gather(in_front(of, dims), in_front(by, dims), in_front(taken, dims), shifted, len(by))
    assert dml.check(desc) == []
    single = gather(of, (1,) * len(of), None, axis, 0).with_outputs()
    assert single.output_tensor == tensor(*in_front(x.take(0, axis).shape, len(of)))

    length = data.draw(st.integers(1, 6))
    along = (*of[:axis], length, *of[axis + 1 :])
    along_axis = np.take_along_axis(x, np.zeros(along, int), axis).shape
    assert elements(of, along, None, axis).with_outputs() == elements(of, along, along_axis, axis)
    assert dml.check(scatter(of, along, along_axis, axis)) == []


@settings(max_examples=80)
@given(SIZES, SIZES, st.data())
def test_tuples_pick_the_blocks_that_numpy_picks(of: Sizes, tuples: Sizes, data: st.DataObject) -> None:
    batch = data.draw(st.integers(0, len(of) - 1))
    size = data.draw(st.integers(1, len(of) - batch))
    one = np.zeros(of[batch:])[tuple(np.zeros(tuples, int) for _ in range(size))]
    by, picked = (*of[:batch], *tuples, size), (*of[:batch], *one.shape)
    dims = max(len(of), len(by), len(picked))
    if dims > 8:
        return
    padded = in_front(of, dims), in_front(by, dims)
    actual = len(of), len(by)
    desc = gather_nd(*padded, None, actual, batch).with_outputs()
    assert desc == gather_nd(*padded, in_front(picked, dims), actual, batch)
    assert dml.check(desc) == []
    if batch == 0:
        assert gather_nd(*padded, None, actual).with_outputs().output_tensor == desc.output_tensor
        assert dml.check(scatter_nd(*padded, in_front(picked, dims), actual)) == []
