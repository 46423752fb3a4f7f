"""The nodes of a model as graphs of DirectML's operators, and those that stay on the host.

What is known is computed, control flow is unrolled, a rule in `rules` makes operators of a node, and a `Program` is what all of it becomes.
Imports `loading`, `nodes` and `domains`.
"""
