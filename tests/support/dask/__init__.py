"""Chunked arrays and clusters for tests of `dmlpy.dask`."""
