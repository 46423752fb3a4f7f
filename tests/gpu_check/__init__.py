"""What `.ci/gpu` does on a machine with a GPU, in two calls of 400 and 240 seconds and their parts, and beforehand without one.

Modules that `__main__` imports at its start need nothing but Python: on a machine that lacks packages, it names them and how to get them.
"""
