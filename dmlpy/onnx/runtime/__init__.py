"""Programs compiled for a device and run: graphs, nodes on the host, and nodes that are compiled when the sizes of their inputs are known.

Imports the packages up to `lowering`.
"""
