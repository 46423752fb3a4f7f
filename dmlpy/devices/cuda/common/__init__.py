"""Code that plans of several families share: the host's side of `raw_kernels/common`."""
