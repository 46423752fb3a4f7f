"""Single operators by ONNX Runtime's CPU provider, and random inputs for them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import DTypeLike
from operator_cases import Array, Cases, once  # type: ignore[import-not-found, unused-ignore]

CASES = Cases(f"ONNX Runtime {onnxruntime.__version__}", "onnx_runtime")
MICROSOFT = "com.microsoft"

F32, F16, I8, U8, I32, U32, I64 = np.float32, np.float16, np.int8, np.uint8, np.int32, np.uint32, np.int64


def compute(
    operator: str,
    given: Sequence[Array | None],
    outputs: int = 1,
    *,
    domain: str = "",
    opset: int = 21,
    scale_bias: tuple[float, float] | None = None,
    fused: str | None = None,
    named: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> list[Array]:
    """What ONNX Runtime's operator gives.

    Args:
        operator: its name.
        given: its inputs; None for one that is left out.
        outputs: how many of its outputs are wanted.
        domain: its domain.
        opset: version of the standard's operators.
        scale_bias: by which the first input is multiplied and what is added to it, beforehand.
        fused: an activation that the first output goes through.
        named: attributes that have a name of the above.
        **attributes: the operator's.
    """
    arrays = {f"x{index}": array for index, array in enumerate(given) if array is not None}
    names = ["" if array is None else f"x{index}" for index, array in enumerate(given)]
    results = [f"y{index}" for index in range(outputs)]
    nodes = []
    if scale_bias is not None:
        arrays |= {name: np.array(value, F32) for name, value in zip(("scale", "bias"), scale_bias, strict=True)}
        nodes += [onnx.helper.make_node("Mul", ["x0", "scale"], ["scaled"]), onnx.helper.make_node("Add", ["scaled", "bias"], ["moved"])]
        names[0] = "moved"
    nodes.append(onnx.helper.make_node(operator, names, results, domain=domain, **attributes, **(named or {})))
    if fused is not None:
        nodes.append(onnx.helper.make_node(fused, ["y0"], ["activated"]))
        results[0] = "activated"
    infos = [onnx.helper.make_tensor_value_info(name, element_type(array.dtype), array.shape) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, operator, infos, [onnx.helper.make_empty_tensor_value_info(name) for name in results])
    versions = [onnx.helper.make_opsetid("", opset), *([onnx.helper.make_opsetid(domain, 1)] if domain else [])]
    model = onnx.helper.make_model(graph, opset_imports=versions, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM quantizes the states of each thread's part of the batch by themselves
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(results, arrays))


def case(
    operator: str,
    peer: str,
    inputs: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    *,
    given: Sequence[Array | None] | None = None,
    outputs: Mapping[str, tuple[int, ...] | None] | None = None,
    types: Mapping[str, type] | None = None,
    **options: Any,
) -> None:
    """Computes and adds a case.

    Args:
        operator: short name of DirectML's operator.
        peer: name of ONNX's.
        inputs: arrays by field name; a list for a field of several tensors, where `given` has the form that ONNX takes.
        attributes: of the desc.
        given: ONNX's inputs, where they are others.
        outputs: ONNX's outputs by field name, each with the sizes that DirectML gives it, or None for the same ones.
        types: of outputs, where DirectML has another type of integers.
        **options: see `compute`; the attributes of ONNX's operator.
    """
    fields = outputs or {"output_tensor": None}
    ours = dict(attributes or {})
    if "scale_bias" in options:
        ours["scale_bias"] = dict(zip(("scale", "bias"), options["scale_bias"], strict=True))
    if "fused" in options:
        ours["fused_activation"] = {"Type": f"DML_OPERATOR_ACTIVATION_{options['fused'].upper()}"}
    found = compute(peer, [once(array) for array in inputs.values()] if given is None else given, len(fields), **options)
    results = {}
    for (field, sizes), array in zip(fields.items(), found, strict=True):
        shaped = array if sizes is None else array.reshape(sizes)
        results[field] = shaped.astype((types or {}).get(field, shaped.dtype.type))
        assert np.array_equal(results[field], shaped, equal_nan=shaped.dtype.kind == "f")
    CASES.add(operator, f"{options['domain']}.{peer}" if "domain" in options else peer, inputs, results, ours)


def element_type(dtype: DTypeLike) -> int:
    """What ONNX calls a type of NumPy."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def normal(name: str, *sizes: int, scale: float = 1.0) -> Array:
    return (scale * rng(name).standard_normal(sizes)).astype(F32)


def whole(name: str, low: int, high: int, *sizes: int, dtype: type = I32) -> Array:
    """Random whole numbers of [low, high)."""
    return rng(name).integers(low, high, sizes).astype(dtype)


def scalar(value: float, dtype: type, rank: int = 0) -> Array:
    return np.full((1,) * rank, value, dtype)
