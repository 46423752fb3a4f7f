"""Operators and graphs over Dask's chunked arrays: `map_blocks`.

    pip install 'dmlpy[dask]'

Chunks are NumPy's or CuPy's arrays; any of Dask's schedulers runs them, `dask.distributed` with one thread for each GPU. A chunk's result
depends on its inputs, the desc and the kind of CPU or GPU that computes it, not on the worker: results of identical workers are
bit-identical, so a task that Dask repeats elsewhere changes nothing.
"""

from dmlpy.system.packages import packages_of as _packages_of

with _packages_of("dask", "dask", "distributed"):
    from dmlpy.dask.mapping import map_blocks

__all__ = ["map_blocks"]
