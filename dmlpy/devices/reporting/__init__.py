"""Reports of operators, profiles of dispatches, and their views in notebooks."""
