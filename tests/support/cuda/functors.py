"""The activation functors of the kernels, applied to arrays and compared with the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.description.arrays import view
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.common.functors import ELEMENT_WISE, functor
from dmlpy.devices.cuda.emulation.runtime import approximates
from dmlpy.devices.cuda.kernels import struct
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.operators.activation import ActivationDesc, ActivationGeluDesc
from tests.support.operators.activation_cases import CANCELLING, definition, label

INF, NAN = float("inf"), float("nan")


APPLY = struct(
    ("x", np.uint64),
    ("y", np.uint64),
    ("attributes", np.float32, (2,)),
    ("functor", np.int32),
    ("derivative", np.int32),
    ("count", np.int32),
)


KINDS = [kind for kind in ELEMENT_WISE if len(kind.inputs()) == 1]


NAMES = [functor(kind) for kind in KINDS]


SOURCE = (
    sources.read("recurrent/layer.cu")
    + """
struct ApplyParameters {
    float const* x;  // [count]
    float* y;        // [count]
    float attributes[2];
    int functor;
    int derivative;  // not 0: y is the derivative, computed from x as what is kept
    int count;
};

template <class Functor, class = void>
constexpr bool has_derivative = false;
template <class Functor>
constexpr bool has_derivative<Functor, decltype(void(Functor{}.derivative(0.0f)))> = true;

template <class Functor>
__device__ void apply_to_all(ApplyParameters const& parameters) {
    Functor const functor = with_attributes<Functor>(parameters.attributes);
    for (int i = 0; i < parameters.count; ++i) {
        float const x = parameters.x[i];
        if (!parameters.derivative) {
            parameters.y[i] = functor(x);
        } else if constexpr (has_derivative<Functor>) {
            parameters.y[i] = functor.derivative(x);
        }
    }
}

template <class... Functors>
__global__ void apply(ApplyParameters parameters) {
    int number = 0;
    ((number++ == parameters.functor ? apply_to_all<Functors>(parameters) : void()), ...);
}
"""
)


def apply(runtime: CudaRuntime, desc: ActivationDesc, x: np.ndarray[Any, Any], *, derivative: bool = False) -> np.ndarray[Any, Any]:
    """The functor's values at float32 `x`, or the derivatives that it computes from `x` as the saved value."""
    ((image, symbol),) = runtime.compile(SOURCE, [f"apply<{', '.join(NAMES)}>"], runtime.limits(0).compute_capability)
    given, found = runtime.to_device(0, x, 0), runtime.to_device(0, np.full_like(x, NAN), 0)
    argument = np.zeros(1, APPLY)
    argument["x"], argument["y"], argument["count"] = view(given).pointer, view(found).pointer, x.size
    argument["functor"], argument["derivative"] = KINDS.index(type(desc)), derivative
    for index, name in enumerate(ELEMENT_WISE[type(desc)]):
        argument["attributes"][0, index] = getattr(desc, name)
    runtime.launch(runtime.load(0, image, symbol, 0), (1, 1, 1), 1, 0, argument, 0)
    result: np.ndarray[Any, Any] = runtime.to_host(found, 0)
    return result


DOCUMENTED = {"Sigmoid": 8.0, "ScaledTanh": 5.0, "Softplus": 7.0, "ParametricSoftplus": 7.0, "Gelu": 10.0, "Swish": 12.0}
"""Where the documented errors of a GPU's functions make more than 4 units: 2 ulp of powers, 1 of log1pf and reciprocals, each of them two
units of a result just below a power of two. Sigmoid is a quotient with e^x in it, swish and GELU are products with that."""


def check_accuracy(runtime: CudaRuntime, desc: ActivationDesc) -> None:
    """Within 4 units in the last place, times what the function itself makes of a last place of x: |x| for e^x, x^2 for erfc."""
    limit = DOCUMENTED.get(label(desc), 4.0) if approximates(runtime) else 4.0
    rng = np.random.default_rng(1)
    small = rng.uniform(-1.0, 1.0, 2000) * 10.0 ** rng.uniform(-6, 0, 2000)
    x = np.concatenate([small, rng.uniform(-8.0, 8.0, 2000), np.linspace(-0.6, 0.6, 500)]).astype(np.float32)
    # The kernels get attributes as float32: so does the definition.
    rounded = desc.model_copy(update={name: float(np.float32(getattr(desc, name))) for name in ELEMENT_WISE[type(desc)]})
    expected = np.array([definition(rounded, float(value)) for value in x])
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    if isinstance(desc, CANCELLING):
        unit = np.maximum(unit, np.spacing(np.float32(1.0)))
    sensitivity = np.abs(x) ** (2 if isinstance(desc, ActivationGeluDesc) else 1)
    error = np.abs(apply(runtime, desc, x) - expected) / unit / np.maximum(1.0, sensitivity / 2)
    worst = int(np.argmax(error))
    assert error[worst] <= limit, f"{error[worst]:.2f} units in the last place at x = {x[worst]!r}"
