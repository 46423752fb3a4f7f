"""Validation of descs: problems and errors, the checks of a desc, and the features of each level."""
