"""`load` and `Model`: an ONNX model, its lowering, and its graphs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import brief
from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.flags import check_flags, flag_problems
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading.input_sizes import inputs_of
from dmlpy.onnx.loading.load import LoadedModel, load_model
from dmlpy.onnx.lowering.declared_values import tell_contradicted
from dmlpy.onnx.lowering.lowered_model import LoweredModel
from dmlpy.system.garbage import collections_paused
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.onnx.loading.limits import Limits
    from dmlpy.onnx.reporting.report import Like, Report
    from dmlpy.onnx.runtime.compiled import CompiledModel


@check_flags
def load(
    source: Any,
    *,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    join_quantized: bool = True,
) -> Model:
    """Loads an ONNX model.

    Args:
        source: a path, the bytes of a file, or a `ModelProto`. External data is read from below the file's folder.
        sizes: sizes of dynamic dimensions: by the name of a symbol, or all sizes of an input by its name.
        constants: inputs whose elements are known before the model runs, by name.
        limits: the most that the model may take while it is loaded, reported on and compiled; None for the default limits.
        join_quantized: whether chains such as DequantizeLinear - Conv - QuantizeLinear become one quantized operator, as in ONNX Runtime.
            Its results may differ from those of the chain by one step of the quantization.

    Raises:
        DescError: the file is missing, not a valid model, or beyond the limits, or sizes or constants do not fit; all problems at once.
    """
    with collections_paused():
        loaded = load_model(source, limits)
        loaded.joins_chains = join_quantized
        return Model(loaded, dict(sizes or {}), dict(constants or {}))


@foreign_members
class Model(LoweredModel):
    """An ONNX model with the sizes of its inputs, as far as they are known.

    Attributes:
        name: what messages call it.
        inputs: the inputs by name, without those that are constants.
        given: all inputs by name, with the elements of those that are constants.
        outputs: the outputs by name.
    """

    def __init__(self, loaded: LoadedModel, sizes: Mapping[str, int | Sequence[int]], constants: Mapping[str, Any]) -> None:
        if not isinstance(loaded, LoadedModel):
            remedy = "dmlpy.onnx.load(source) makes a Model of a file, bytes or a ModelProto"
            raise DescError("onnx.Model", [Problem("field.form", "loaded", brief(loaded), "what dmlpy.onnx.load has read", remedy=remedy)])
        super().__init__(loaded, inputs_of(loaded, sizes, constants))

    def report(self, feature_level: FeatureLevel | str | int = LATEST, *, like: Like = "dmlpy") -> Report:
        """Reports where each node runs, and why some do not run on DirectML.

        Args:
            feature_level: the highest feature level that may be used.
            like: `dmlpy` for what `compile` does; `onnxruntime` for what its DirectML provider is predicted to do, by the facts of
                `provider.toml`. The prediction knows kernels, types, constant inputs and sizes; it does not know the optimizers that change
                a model before it is placed, but for the folding of constants.

        Raises:
            DescError: `like` is neither.
        """
        from dmlpy.onnx.reporting.build import build_report

        return build_report(self, parse_level(feature_level), like)

    def compile(
        self,
        device: Device | str | None = None,
        feature_level: FeatureLevel | str | int = LATEST,
        flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
        *,
        fuse: bool = True,
        keep_bytes: int = 1 << 28,
    ) -> CompiledModel:
        """Compiles the model; dynamic sizes are compiled for the inputs of each call.

        A warning lists the sizes that the file declares for outputs and other values, and that these do not have; `report` has those of
        models with dynamic sizes, too.

        Args:
            device: as for `dmlpy.compile`.
            feature_level: as for `dmlpy.compile`: nodes that need a higher level run on the host.
            flags: as for `dmlpy.compile`.
            fuse: as for `dmlpy.compile`.
            keep_bytes: the bytes of compiled forms for input sizes to cache; the last used one is always kept.

        Raises:
            CompileError: nodes that nothing can run; all of them at once.
            DeviceError: there is no such device.
        """
        from dmlpy.onnx.runtime.compiled import CompiledModel

        if problems := flag_problems(fuse=fuse):
            raise DescError(f"{self.name}.compile", problems)
        level = parse_level(feature_level)
        with collections_paused():
            compiled = CompiledModel(self, device, level, flags, fuse=fuse, keep_bytes=keep_bytes)
        if contradicted := self.known_contradictions(level):
            warnings.warn(f"{self.name}: {tell_contradicted(contradicted)}", stacklevel=2)
        return compiled
