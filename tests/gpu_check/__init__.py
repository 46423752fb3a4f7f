"""What `.ci/gpu` does on a machine with a GPU: four calls, each below nine minutes and useful alone.

Modules that `__main__` imports at its start need nothing but Python: a machine that lacks packages is told which, and how to get them.
"""
