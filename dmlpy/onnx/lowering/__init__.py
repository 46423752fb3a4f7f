"""Lowers the nodes of a model to graphs of DirectML's operators, and to nodes that run on the host.

Constants are folded, control flow is unrolled, a rule in `rules` lowers each node to operators, and the result is a `Program`.
Imports `loading`, `nodes` and `domains`.
"""
