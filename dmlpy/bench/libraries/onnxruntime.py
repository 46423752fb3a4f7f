"""ONNX Runtime: a model of ONNX's recurrent nodes, one for each layer, with bound inputs and outputs; forward only."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlpy.bench.libraries import EAGER, Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.work import Array, RecurrentWork, Work, parameter_fields

OPSET, IR_VERSION = 14, 8


class OnnxRuntime(Library):
    """ONNX Runtime's CPU provider, or the CUDA one."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        try:
            import onnx
            import onnxruntime
        except ImportError as error:
            raise NotInstalledError(f"{error}: pip install onnx onnxruntime{'-gpu' if self.on_gpu else ''}") from error
        self.onnx: Any = onnx
        self.runtime: Any = onnxruntime
        self.provider = "CUDAExecutionProvider" if self.on_gpu else "CPUExecutionProvider"
        if self.provider not in onnxruntime.get_available_providers():
            raise NotInstalledError(f"ONNX Runtime {onnxruntime.__version__} has no {self.provider}: pip install onnxruntime-gpu")

    def versions(self) -> dict[str, str]:
        return {"onnxruntime": self.runtime.__version__, "onnx": self.onnx.__version__}

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return EAGER

    def peak_bytes(self) -> int | None:
        """None on a GPU, whose memory the runtime does not report."""
        return None if self.on_gpu else super().peak_bytes()

    @property
    def place(self) -> tuple[str, int]:
        """Kind and index of the device, as the runtime expects them."""
        return ("cuda", int(self.device.partition(":")[2] or 0)) if self.on_gpu else ("cpu", 0)

    def session(self, model: Any) -> Any:
        """A session of a model.

        Raises:
            UnsupportedError: the runtime rejects it.
        """
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        provider: Any = (self.provider, {"device_id": self.place[1], "use_tf32": 0}) if self.on_gpu else self.provider
        try:
            return self.runtime.InferenceSession(model.SerializeToString(), options, providers=[provider])
        except Exception as error:  # its errors have no common base: most often there is no kernel for the type
            raise UnsupportedError(f"ONNX Runtime refuses the model: {str(error).splitlines()[0]}") from error

    def build(self, work: Work, mode: Mode) -> Runner:
        if work.case.trains:
            raise UnsupportedError("ONNX Runtime is measured forward only")
        if not isinstance(work, RecurrentWork):
            raise UnsupportedError("ONNX Runtime is measured with recurrent layers only")
        if any(layer.projection for layer in work.shape.layers):
            raise UnsupportedError("ONNX's LSTM has no projection")
        return RecurrentRunner(self, work)


class RecurrentRunner(Runner):
    """A session of a chain of layers. A pass waits for its results, on a GPU too."""

    def __init__(self, library: OnnxRuntime, work: RecurrentWork) -> None:
        self._library, self._work = library, work
        self._place = library.place
        parameters: dict[str, Array] = {}
        for number, layer in enumerate(work.shape.layers):
            for field, array in work.initial_fields(layer, work.shape.batch).items():
                parameters[f"{field}{number}"] = array[0]
        if work.shape.ragged:
            parameters["lengths"] = work.lengths().astype(np.int32)
        inputs = [{"x": work.x(number), **parameters} for number in range(library.sets)]
        model = self._model(inputs[0])
        library.mark()
        self._session = library.session(model)
        self._placed = {name: self._value(array) for name, array in parameters.items()}
        outputs = self._output_sizes()
        self._outputs = {
            name: library.runtime.OrtValue.ortvalue_from_shape_and_type(list(sizes), work.dtype, *self._place)
            for name, sizes in outputs.items()
        }
        self._xs = [self._value(item["x"]) for item in inputs]
        self._bindings = [self._bind(x) for x in self._xs]
        self.plan = (
            f"{library.provider}, {len(work.shape.layers)} {'/'.join(sorted({layer.cell for layer in work.shape.layers}))} node(s)",
        )

    def _value(self, array: Array) -> Any:
        return self._library.runtime.OrtValue.ortvalue_from_numpy(array, *self._place)

    def _bind(self, x: Any) -> Any:
        binding = self._session.io_binding()
        for name, value in {"x": x, **self._placed}.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in self._outputs.items():
            binding.bind_ortvalue_output(name, value)
        return binding

    def _output_sizes(self) -> dict[str, tuple[int, ...]]:
        shape = self._work.shape
        sizes: dict[str, tuple[int, ...]] = {"y": (shape.steps, shape.batch, shape.layers[-1].output_size)}
        for number, layer in enumerate(shape.layers):
            for name in ("h", "c") if layer.cell == "LSTM" else ("h",):
                sizes[f"{name}{number}"] = (layer.directions, shape.batch, layer.hidden_size)
        return sizes

    def _model(self, initializers: dict[str, Array]) -> Any:
        """The layers as a chain: each output [T, D, B, H] is transposed to the next input [T, B, D H]."""
        helper, to_tensor = self._library.onnx.helper, self._library.onnx.numpy_helper.from_array
        work, shape = self._work, self._work.shape
        parameters = work.parameters()
        nodes, constants, flowing = [], [], "x"
        for number, layer in enumerate(shape.layers):
            fields = parameter_fields(layer, parameters, number)
            weights = {"W": fields["weight_tensor"][0], "R": fields["recurrence_tensor"][0], "B": fields["bias_tensor"][0, 0]}
            constants += [to_tensor(np.ascontiguousarray(array), f"{name}{number}") for name, array in weights.items()]
            names = [flowing, *(f"{name}{number}" for name in weights), "lengths" if shape.ragged else "", f"hidden_init_tensor{number}"]
            results = [f"sequence{number}", f"h{number}"]
            if layer.cell == "LSTM":
                names.append(f"cell_mem_init_tensor{number}")
                results.append(f"c{number}")
            attributes = {"hidden_size": layer.hidden_size, "direction": _DIRECTIONS[layer.direction]}
            if layer.cell == "GRU":
                attributes["linear_before_reset"] = int(layer.linear_before_reset)
            nodes.append(helper.make_node(layer.cell, names, results, **attributes))
            flowing = "y" if number == len(shape.layers) - 1 else f"y{number}"
            sizes = np.array([shape.steps, shape.batch, layer.output_size], np.int64)
            constants.append(to_tensor(sizes, f"sizes{number}"))
            before = f"sequence{number}"
            if layer.directions == 2:
                nodes.append(helper.make_node("Transpose", [before], [f"by_sample{number}"], perm=[0, 2, 1, 3]))
                before = f"by_sample{number}"
            nodes.append(helper.make_node("Reshape", [before, f"sizes{number}"], [flowing]))
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in initializers.items()
        ]
        kind = helper.np_dtype_to_tensor_dtype(work.dtype)
        outputs = [helper.make_tensor_value_info(name, kind, sizes) for name, sizes in self._output_sizes().items()]
        graph = helper.make_graph(nodes, "layers", values, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def run(self, number: int) -> None:
        self._session.run_with_iobinding(self._bindings[number])

    def results(self) -> dict[str, Array]:
        return {name: value.numpy() for name, value in self._outputs.items()}


_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "reverse", "BIDIRECTIONAL": "bidirectional"}
