"""JAX: single operators, each a function that XLA compiles. `pip install jax[cpu]`."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.bench.libraries import EAGER, Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.operators.jax_functions import FUNCTIONS
from dmlpy.bench.operators.libraries import NO_EQUIVALENT, output_places
from dmlpy.bench.work import OperatorWork
from dmlpy.inspection.operator_records.record import once

if TYPE_CHECKING:
    from dmlpy.bench.work import Array, Work

ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Jax(Library):
    """JAX on the CPU."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        # JAX reads both when it is imported. It has no number of threads but all and one.
        os.environ["JAX_PLATFORMS"] = "cpu"
        flags = os.environ.get("XLA_FLAGS", "")
        if threads == 1 and ONE_THREAD not in flags:
            os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
        try:
            import jax
        except ImportError as error:
            raise NotInstalledError(f"{error}: pip install 'jax[cpu]'") from error
        jax.config.update("jax_enable_x64", True)  # else indices of INT64 are converted
        self.jax: Any = jax

    @property
    def reusable(self) -> bool:
        return True

    def clock(self) -> float:
        """CPU time for a single thread, which other processes affect least."""
        return time.process_time() if self.threads == 1 else super().clock()

    def release(self) -> None:
        self.jax.clear_caches()

    def versions(self) -> dict[str, str]:
        return {"jax": self.jax.__version__}

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return EAGER

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, OperatorWork)
        if work.operator_case.operator not in FUNCTIONS:
            raise UnsupportedError(NO_EQUIVALENT)
        return _JaxRunner(self, work)


class _JaxRunner(Runner):
    """A compiled function with its inputs in place."""

    def __init__(self, library: Jax, work: OperatorWork) -> None:
        self._work, jax = work, library.jax
        function, names = FUNCTIONS[work.operator_case.operator], list(work.arrays)
        compiled = jax.jit(lambda *operands: function(jax, SimpleNamespace(**dict(zip(names, operands, strict=True)))))
        self._inputs = [jax.tree.map(lambda array: jax.numpy.asarray(once(array)), value) for value in work.arrays.values()]
        try:
            self._compiled = compiled.lower(*self._inputs).compile()
        except Exception as error:  # its errors have no common base: most often there is no kernel for the type
            raise UnsupportedError(f"JAX refuses the function: {str(error).splitlines()[0]}") from error
        self.plan = (f"XLA, {work.operator_case.operator}",)
        library.mark()

    def run(self, number: int) -> None:
        self._kept = self._compiled(*self._inputs)
        for array in self._kept if isinstance(self._kept, tuple) else (self._kept,):
            array.block_until_ready()

    def results(self) -> dict[str, Array]:
        outputs = self._kept if isinstance(self._kept, tuple) else (self._kept,)
        arrays = dict(zip(output_places(self._work), outputs, strict=False))
        return {place: self._work.described(place, np.asarray(array)) for place, array in arrays.items()}
