"""The reports of every package to its users: problems, errors, names, tables and positions in JSON."""
