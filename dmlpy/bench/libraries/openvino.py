"""OpenVINO: the ONNX models of single operators, compiled by its CPU plugin. `pip install openvino onnx`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dmlpy.bench.libraries import EAGER, Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.operators.libraries import NO_EQUIVALENT, OnnxEquivalent
from dmlpy.bench.work import OperatorWork

if TYPE_CHECKING:
    from dmlpy.bench.work import Array, Work


class OpenVino(Library):
    """OpenVINO's CPU plugin. FLOAT32 is computed in FLOAT32: by default it computes in bfloat16 where the processor can."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        try:
            import onnx
            import openvino
        except ImportError as error:
            raise NotInstalledError(f"{error}: pip install openvino onnx") from error
        self.onnx: Any = onnx
        self.openvino: Any = openvino
        self._core = openvino.Core()

    @property
    def reusable(self) -> bool:
        return True

    def clock(self) -> float:
        """CPU time for a single thread, which other processes affect least."""
        return time.process_time() if self.threads == 1 else super().clock()

    def versions(self) -> dict[str, str]:
        return {"openvino": self.openvino.__version__.partition("-")[0]}

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return EAGER

    def compile(self, model: bytes, *, precision: str) -> Any:
        """A model for the CPU.

        Raises:
            UnsupportedError: OpenVINO rejects it.
        """
        options = {"INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
        try:
            return self._core.compile_model(self._core.read_model(model), "CPU", options)
        except RuntimeError as error:
            raise UnsupportedError(f"OpenVINO refuses the model: {_cause(str(error))}") from error

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, OperatorWork)
        if not work.operator_case.onnx:
            raise UnsupportedError(NO_EQUIVALENT)
        return _OpenVinoRunner(self, work)


def _cause(text: str) -> str:
    """The line of an error that names what is not supported, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line.removeprefix("-- ") for line in lines if line.startswith("-- ")), lines[-1] if lines else "no reason given")


class _OpenVinoRunner(Runner):
    """A compiled model with inputs in place."""

    def __init__(self, library: OpenVino, work: OperatorWork) -> None:
        self._equivalent = OnnxEquivalent(library.onnx, work)
        model = library.compile(self._equivalent.model.SerializeToString(), precision="f16" if work.case.dtype == "FLOAT16" else "f32")
        self.plan = (f"OpenVINO's CPU plugin, {', '.join(self._equivalent.operators)}",)
        self._request = model.create_infer_request()
        for name, array in self._equivalent.arrays.items():
            self._request.set_tensor(name, library.openvino.Tensor(array))
        library.mark()

    def run(self, number: int) -> None:
        self._request.infer()

    def results(self) -> dict[str, Array]:
        return self._equivalent.described({name: self._request.get_tensor(name).data for name in self._equivalent.output_names})
