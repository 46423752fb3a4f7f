"""The two ways in which GEMM multiplies: by the kernel of raw_kernels/matrix/product.cu, or by the library's product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import BFLOAT16_CAPABILITY, FLOAT, MOST_ROWS, gemm
from dmlpy.devices.cuda.common.tile_products import TILE_THREADS, Order, multiplication
from dmlpy.devices.cuda.kernels import STRIDED, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.matrix.tiles import STAGE_TERMS, TILES, Matrices, ProductSizes
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dmlpy.devices.cuda.common.functors import Functor
    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.devices.plan import Launch

PRODUCT_FILE = "matrix/product.cu"

MOST_LIBRARY_CALLS = 16
"""Calls of the library, one after the other, for the entries of a batch."""
MOST_IN_CALL = 2**16 - 1
"""Entries of a batch that one call multiplies: as many as a grid has along an axis."""
LEAST_LIBRARY_MULTIPLICATIONS = 2**22
"""The fewest multiplications of an entry for which the library is used: an estimate."""


MOST_SPLIT_TILES = 16
"""Tiles of each entry of a batch, at most, that are divided among several blocks."""
LEAST_SPLIT_TERMS = 1024
"""Terms of a split, at least: with fewer, a second launch costs more than it gains. An estimate."""


def product_kernel(data_type: np.dtype[Any], output_type: np.dtype[Any], function: Functor, name: str = "product") -> Kernel:
    """The kernel for operands of an element type, a result of another and an epilogue: `product`, or `combine_products`."""
    fused = function.name.removeprefix("Epilogue<").removesuffix(">")
    types = f"<{scalar_type(data_type)}, {scalar_type(output_type)}, {fused}>"
    parameters = struct(
        *((name, STRIDED) for name in ("a", "b", "c", "output")),
        ("tiles", TILES),
        ("partials", np.uint64),
        ("split_terms", np.int64),
        ("results", np.int64),
        ("splits", np.int32),
        ("a_order", np.int32),
        ("b_order", np.int32),
        ("epilogue", function.struct),
    )
    lowest = BFLOAT16_CAPABILITY if data_type.name == "bfloat16" else 75
    return Kernel(PRODUCT_FILE, f"{name}{types}", parameters, f"ProductParameters{types}", lowest_capability=lowest)


@dataclass(frozen=True)
class Operand:
    """A batch of matrices in a tensor.

    Attributes:
        place: of the tensor in the desc, or the name of the array of scratch.
        data_type: of its elements.
        matrices: their layout.
    """

    place: str
    data_type: np.dtype[Any]
    matrices: Matrices

    def strided(self, pointers: Mapping[str, int]) -> tuple[int, tuple[int, ...]]:
        """The value of a `STRIDED` field."""
        return pointers[self.place], self.matrices.strides

    def library_strides(self) -> tuple[int, bool] | None:
        """The row stride of each matrix, and whether the rows are those of its transpose; None if the library cannot read them."""
        _, _, rows, columns = self.matrices.sizes
        for transposed, (count, length), (outer, inner) in (
            (False, (rows, columns), self.matrices.strides[2:]),
            (True, (columns, rows), self.matrices.strides[:1:-1]),
        ):
            stride = length if count == 1 else outer
            if (inner == 1 or length == 1) and length <= stride and max(count, stride) <= MOST_ROWS:
                return stride, transposed
        return None

    def matrix(self, pointers: Mapping[str, int], outer: int, inner: int) -> Matrix:
        """One matrix as the library takes it."""
        strides = self.library_strides()
        assert strides is not None  # checked before
        _, _, rows, columns = self.matrices.sizes
        place = outer * self.matrices.strides[0] + inner * self.matrices.strides[1]
        return Matrix(pointers[self.place] + place * self.data_type.itemsize, rows, columns, strides[0], self.data_type, strides[1])

    def order(self, pointers: Mapping[str, int]) -> Order:
        """How threads load its rows."""
        matrices, size = self.matrices, self.data_type.itemsize
        others = [stride for count, stride in zip(matrices.sizes[:2], matrices.strides[:2], strict=True) if count > 1]
        return Order.of(matrices.sizes[2:], matrices.strides[2:], others, size, pointers[self.place])

    def with_rows_of(self, axis: int) -> Operand | None:
        """The operand with matrices by `Matrices.with_rows_of`; None if there are none."""
        matrices = self.matrices.with_rows_of(axis)
        return None if matrices is None else replace(self, matrices=matrices)

    def transposed(self) -> Operand:
        """The transposes of its matrices."""
        first, second, rows, columns = self.matrices.sizes
        *outer, row, column = self.matrices.strides
        return Operand(self.place, self.data_type, Matrices((first, second, columns, rows), (outer[0], outer[1], column, row)))


Operands = tuple["Operand", "Operand", "Operand", "Operand | None"]
"""a, b, the output, and c or None."""


def folded(a: Operand, b: Operand, output: Operand, c: Operand | None = None) -> Operands:
    """The same operands with A's matrices as the rows of one, if B repeats and the layouts allow it."""
    for axis in (1, 0):
        a, b, output, c = _folded_along(axis, a, b, output, c)
    return a, b, output, c


def _folded_along(axis: int, a: Operand, b: Operand, output: Operand, c: Operand | None) -> Operands:
    """The same along one dimension of the batch, or the operands unchanged."""
    of_a, of_output = a.with_rows_of(axis), output.with_rows_of(axis)
    of_c = None if c is None else c.with_rows_of(axis)
    repeats = a.matrices.sizes[axis] > 1 and b.matrices.strides[axis] == 0
    if not repeats or of_a is None or of_output is None or (c is not None and of_c is None):
        return a, b, output, c
    return of_a, replace(b, matrices=b.matrices.first_of(axis)), of_output, of_c


def split_terms(a: Operand, b: Operand, multiprocessors: int) -> int:
    """The terms that one block sums: a whole number of stages, fewer than all if a product has few tiles and long sums.

    They depend only on the sizes of one entry of the batch, so results do not depend on the batch.
    """
    sizes = ProductSizes.of(a.matrices, b.matrices)
    wanted = min(sizes.terms // LEAST_SPLIT_TERMS, multiprocessors // sizes.own_tiles)
    if wanted < 2 or sizes.own_tiles > MOST_SPLIT_TILES:
        return sizes.terms
    return -(-sizes.terms // (wanted * STAGE_TERMS)) * STAGE_TERMS


@dataclass(frozen=True)
class OwnProduct:
    """output = f(product_factor * a b + addend_factor * c) by the project's own kernel, in any layout.

    Attributes:
        a: the left factor.
        b: the right one.
        c: the addend; None adds nothing.
        output: the result.
        function: the epilogue, for raw_kernels/matrix/product.cu.
        split_terms: terms that a block sums; for more terms, blocks share a tile.
    """

    a: Operand
    b: Operand
    c: Operand | None
    output: Operand
    function: Functor
    split_terms: int

    @property
    def sizes(self) -> ProductSizes:
        return ProductSizes.of(self.a.matrices, self.b.matrices)

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels of its launches, in order."""
        names = ("product", "combine_products") if self.splits > 1 else ("product",)
        return [product_kernel(self.a.data_type, self.output.data_type, self.function, name) for name in names]

    @property
    def splits(self) -> int:
        """Blocks that share the terms of a tile."""
        return -(-self.sizes.terms // self.split_terms)

    def scratch(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The array of the splits' partial sums, if there are several."""
        sizes = self.sizes
        return [("partials", (self.splits, sizes.batch, sizes.rows, sizes.columns), FLOAT)] if self.splits > 1 else []

    def describe(self, limits: Limits) -> str:
        """Its launches, and how it multiplies."""
        sizes = self.sizes
        entries = ", then ".join(kernel.entry for kernel in self.kernels)
        parts = f" in {self.splits} splits" if self.splits > 1 else ""
        work = f"{sizes.tiles} tiles of {sizes.terms} terms{parts}, {sizes.blocks * self.splits} blocks"
        return f"{entries}: {work}, products {multiplication(self.a.data_type, limits)}"

    def bind(self, library: KernelLibrary, pointers: Mapping[str, int]) -> list[Launch]:
        product_of, *combine = self.kernels
        argument = np.zeros(1, product_of.parameters)
        for name, operand in {"a": self.a, "b": self.b, "c": self.c, "output": self.output}.items():
            argument[name] = (0, (0, 0, 0, 0)) if operand is None else operand.strided(pointers)
        argument["tiles"] = self.sizes.value()
        for name, _, value in self.function.members:
            argument["epilogue"][name] = value
        sizes = self.sizes
        argument["partials"], argument["split_terms"], argument["splits"] = pointers.get("partials", 0), self.split_terms, self.splits
        argument["results"] = results = sizes.batch * sizes.rows * sizes.columns
        argument["a_order"], argument["b_order"] = self.a.order(pointers), self.b.transposed().order(pointers)
        first = library.launch(product_of, (sizes.blocks, self.splits), TILE_THREADS, argument)
        return [first, *(library.launch_elements(kernel, results, argument) for kernel in combine)]


@dataclass(frozen=True)
class LibraryProduct:
    """output = a b by the library, in as few calls as the strides of the batch allow.

    Attributes:
        a: the left factor.
        b: the right one.
        output: the result.
        tf32: whether factors of float32 may be rounded to TF32.
    """

    a: Operand
    b: Operand
    output: Operand
    tf32: bool

    @property
    def sizes(self) -> ProductSizes:
        return ProductSizes.of(self.a.matrices, self.b.matrices)

    def takes(self) -> bool:
        """Whether the library can multiply these matrices."""
        of_output = self.output.library_strides()
        operands = [operand.library_strides() for operand in (self.a, self.b.transposed())]
        return of_output is not None and not of_output[1] and None not in operands

    def pays(self) -> bool:
        """Whether it is expected to be faster than the project's own kernel."""
        (calls, together), sizes = self._division(), self.sizes
        fits = len(calls) <= MOST_LIBRARY_CALLS and together <= MOST_IN_CALL
        return fits and sizes.multiplications >= sizes.batch * LEAST_LIBRARY_MULTIPLICATIONS

    @property
    def calls(self) -> int:
        """Calls of the library."""
        return len(self._division()[0])

    def _division(self) -> tuple[list[tuple[int, int]], int]:
        """The first entries of the batch of each call, and the entries of a call: all, if one stride leads to all of them."""
        outer, inner = self.sizes.outer, self.sizes.inner
        strides = [operand.matrices.strides for operand in (self.a, self.b, self.output)]
        if outer == 1 or inner == 1 or all(steps[0] == inner * steps[1] for steps in strides):
            return [(0, 0)], outer * inner
        return ([(0, entry) for entry in range(inner)], outer) if outer > inner else ([(entry, 0) for entry in range(outer)], inner)

    @property
    def along(self) -> int:
        """The dimension of the batch that leads from one entry of a call to the next."""
        calls, _ = self._division()
        return 0 if self.sizes.inner == 1 or (len(calls) > 1 and calls[1][1]) else 1

    def work(self) -> str:
        """The products that are computed, in words."""
        sizes, rounds = self.sizes, ", factors rounded to TF32" if self.tf32 else ""
        count = f"{sizes.batch} products" if sizes.batch > 1 else "a product"
        _, together = self._division()
        how = f", {together} in a call" if together > 1 else ""
        return f"{count} of [{sizes.rows}, {sizes.terms}] and [{sizes.terms}, {sizes.columns}]{how}{rounds}"

    def describe(self) -> str:
        return f"cuBLAS: {self.work()}"

    def calls_at(self, pointers: Mapping[str, int]) -> Iterator[tuple[MatrixProduct, tuple[int, int]]]:
        """For each call its products over tensors at these addresses, and the first one's entry of the batch."""
        (calls, together), along = self._division(), self.along

        def first(operand: Operand, entry: tuple[int, int]) -> Matrix:
            return replace(operand.matrix(pointers, *entry), step=operand.matrices.strides[along])

        for entry in calls:
            a, b, output = first(self.a, entry), first(self.b.transposed(), entry), first(self.output, entry)
            yield MatrixProduct(a, b, output, tf32=self.tf32, batch=together), entry

    def bind(self, library: KernelLibrary, pointers: Mapping[str, int]) -> list[Launch]:
        return [gemm(library, pointers, product) for product, _ in self.calls_at(pointers)]
