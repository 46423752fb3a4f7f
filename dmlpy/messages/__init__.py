"""What every package says to its users: problems, errors, names, tables and positions in JSON."""
