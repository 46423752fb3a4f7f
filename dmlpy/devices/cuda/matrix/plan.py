"""The plan of GEMM: a product by the library or by the project's own kernel, an epilogue, and a fused softmax after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.enums import MatrixTransform
from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.activation.groups import GroupsPlan
from dmlpy.devices.cuda.common.element_engine import Elementwise, View, absent
from dmlpy.devices.cuda.common.epilogue import epilogue
from dmlpy.devices.cuda.common.matrix_products import FLOAT, headline, supported_flags, workspace
from dmlpy.devices.cuda.kernels import ALIGNMENT
from dmlpy.devices.cuda.matrix.fused import VARIABLE, FusedProduct
from dmlpy.devices.cuda.matrix.product import PRODUCT_FILE, LibraryProduct, Operand, OwnProduct, folded, split_terms
from dmlpy.devices.cuda.matrix.tiles import Matrices
from dmlpy.devices.cuda.movement.copies import COPY
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, GpuModel, factors_of
from dmlpy.devices.cuda.synchronous import is_set
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order
from dmlpy.operators.activation import AxesActivationDesc, RowActivationDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.performance.gpu_model import Arithmetic
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.matrix import GEMMDesc

EPILOGUE_FILE = "matrix/epilogue.cu"


class GemmPlan(PlanWithoutConstants):
    """GEMM.

    The result, before a softmax, goes to the output, or of a FLOAT16 softmax to float32 scratch. The library's product goes to the
    same place if only an element-wise function is applied to it, else to float32 scratch.

    Args:
        desc: a checked desc.
        target: the device and the options.

    Raises:
        DeviceError: a kernel cannot be compiled.
    """

    def __init__(self, desc: GEMMDesc, target: Target) -> None:
        assert desc.output_tensor is not None
        self._library, self._desc, self._output = target.library, desc, desc.output_tensor
        self._type = self._output.data_type.numpy
        fused = desc.fused_activation
        softmax = fused if isinstance(fused, RowActivationDesc | AxesActivationDesc) else None
        self._function = None if softmax else fused
        in_float = TensorDesc(data_type="FLOAT32", sizes=self._output.sizes)
        widened = softmax is not None and self._type != FLOAT
        self._result = ("result", in_float) if widened else ("output_tensor", self._output)
        arrays = [("result", in_float.sizes, FLOAT)] if widened else []

        self._tf32 = target.tf32
        self._c_factor = 0.0 if desc.c_tensor is None else desc.beta
        self._product, self._finish = self._multiplication(target.tf32)
        if isinstance(self._product, LibraryProduct):
            arrays += [("product", in_float.sizes, FLOAT)] if self._product.output.place == "product" else []
            arrays.append(workspace(self._library))  # type: ignore[arg-type]
        else:
            arrays += self._product.scratch()  # type: ignore[arg-type]
        self._groups = None if softmax is None else GroupsPlan(softmax.replace(**self._of_result()), self._library)
        self._narrowed: Elementwise | None = None
        if widened:
            self._narrowed = Elementwise(COPY, self._output.sizes, View.of("output_tensor", self._output), [self._result_view()])
        self._fused = self._fusion()
        self._scratch = Layout(arrays, ALIGNMENT)
        self.temporary_size = self._scratch.size
        self.supported_flags = supported_flags(isinstance(self._product, LibraryProduct) and self._product.tf32)
        kernels = self._product.kernels if isinstance(self._product, OwnProduct) else []
        self._library.functions([*kernels, *(step.kernel() for step in (self._finish, self._narrowed) if step is not None)])

    def _multiplication(self, tf32: bool) -> tuple[OwnProduct | LibraryProduct, Elementwise | None]:
        """The product and its epilogue."""
        desc, (place, result) = self._desc, self._result
        a, b = self._factors()
        output = Operand(place, result.data_type.numpy, Matrices.of(result))
        as_it_is = desc.alpha == 1.0 and self._c_factor == 0.0 and self._function is None and desc.c_tensor is None
        in_place = as_it_is or (desc.c_tensor is None and result.data_type.numpy == FLOAT)
        rounds = tf32 and self._type == FLOAT
        by_library = LibraryProduct(*folded(a, b, output)[:3], rounds)
        if not (in_place and by_library.takes()):
            in_place = False
            packed = TensorDesc(data_type="FLOAT32", sizes=self._output.sizes)
            by_library = LibraryProduct(*folded(a, b, Operand("product", FLOAT, Matrices.of(packed)))[:3], rounds)
        if by_library.takes() and by_library.pays():
            return by_library, None if as_it_is and in_place else self._finished(by_library.output)
        c = None if desc.c_tensor is None else Operand("c_tensor", self._type, Matrices.of(desc.c_tensor))
        terms = split_terms(a, b, self._library.limits.multiprocessors)
        a, b, output, c = folded(a, b, output, c)
        return OwnProduct(a, b, c, output, epilogue(PRODUCT_FILE, self._function, desc.alpha, self._c_factor), terms), None

    def _fusion(self) -> FusedProduct | None:
        """The product and its epilogue in one launch of the library, if it is asked for and of use."""
        product = self._product
        if not is_set(VARIABLE) or not isinstance(product, LibraryProduct) or self._finish is None or self._narrowed or self._groups:
            return None
        return FusedProduct.of(self._desc, *self._factors(), product.tf32)

    def _factors(self) -> tuple[Operand, Operand]:
        """a and b as the product takes them."""
        desc = self._desc
        transposed = {name: getattr(desc, f"trans_{name}") is MatrixTransform.TRANSPOSE for name in "ab"}
        a = Operand("a_tensor", self._type, Matrices.of(desc.a_tensor, transposed=transposed["a"]))
        return a, Operand("b_tensor", self._type, Matrices.of(desc.b_tensor, transposed=transposed["b"]))

    def _finished(self, product: Operand) -> Elementwise:
        """The epilogue of the library's product."""
        desc, sizes = self._desc, self._output.sizes
        c = absent(len(sizes)) if desc.c_tensor is None else View.of("c_tensor", desc.c_tensor)
        packed = View("product", "float", packed_strides(sizes))
        of_product = self._result_view() if product.place == self._result[0] else packed
        function = epilogue(EPILOGUE_FILE, self._function, desc.alpha, self._c_factor)
        return Elementwise(function, sizes, self._result_view(), [of_product, c])

    def _result_view(self) -> View:
        return View.of(*self._result)

    def _of_result(self) -> dict[str, TensorDesc]:
        """The tensors of a softmax in place."""
        return {"input_tensor": self._result[1], "output_tensor": self._result[1]}

    def describe(self) -> str:
        tf32 = isinstance(self._product, LibraryProduct) and self._product.tf32
        product = self._product
        described = product.describe() if isinstance(product, LibraryProduct) else product.describe(self._library.limits)
        fused = [] if self._fused is None else [f"{self._fused.describe()}; else:"]
        lines = [headline(self._library, self._type, tf32=tf32), *fused, described]
        if self._finish is not None:
            lines.append(self._finish.describe())
        if self._groups is not None:
            lines += self._groups.describe().splitlines()[1:]
        if self._narrowed is not None:
            lines.append(self._narrowed.describe())
        return "\n".join(lines)

    def cost(self) -> Cost:
        gpu, sizes = GpuModel.of(self._library.limits), self._product.sizes
        size = sum(tensor.element_count * tensor.data_type.numpy.itemsize for tensor in self._desc.tensors().values())
        arithmetic: Arithmetic = "float"
        if self._type != FLOAT:
            arithmetic = "half"
        elif isinstance(self._product, LibraryProduct) and self._product.tf32:
            arithmetic = "tf32"
        launches = self._product.calls if isinstance(self._product, LibraryProduct) else 1
        flops = 2 * sizes.multiplications
        floor = max(gpu.memory_us(size), gpu.product_us(flops, factors_of(self._output, tf32=self._tf32)))
        product_us = max(gpu.memory_us(size), gpu.gemm_us(flops, size, arithmetic))
        steps = [step for step in (self._finish, self._narrowed) if step is not None]
        again = sum(step.traffic() for step in steps) + (2 * self._result[1].element_count * FLOAT.itemsize if self._groups else 0)
        if isinstance(self._product, OwnProduct) and self._product.splits > 1:
            again += 2 * self._product.splits * sizes.batch * sizes.rows * sizes.columns * FLOAT.itemsize
            launches += 1
        launches += len(steps) + (self._groups is not None)
        return Cost(
            traffic={"scratch": again} if again else {},
            floor_us=floor,
            estimate_us=product_us + gpu.memory_us(again) + launches * CAPTURED_LAUNCH_US,
        )

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        pointers = {**tensors, **self._scratch.pointers(temporary)}
        fused = None if self._fused is None else self._fused.bind(self._library, pointers)
        if fused is not None:
            return in_order(fused)
        work = self._product.bind(self._library, pointers)
        if self._finish is not None:
            work += self._finish.bind(self._library, pointers)
        if self._groups is not None:
            result = pointers[self._result[0]]
            work.append(self._groups.bind({"input_tensor": result, "output_tensor": result}, 0, None))
        if self._narrowed is not None:
            work += self._narrowed.bind(self._library, pointers)
        return in_order(work)
