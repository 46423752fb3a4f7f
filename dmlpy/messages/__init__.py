"""What every package reports to its users: problems, errors, names, tables and positions in JSON."""
