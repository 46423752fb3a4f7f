"""Descs that show a fact: the fact's name, the feature level, what `check` says, and the desc."""

from tests.support.released import fact_descs_of_elements, fact_descs_of_layers

SHOWN = [*fact_descs_of_layers.ROWS, *fact_descs_of_elements.ROWS]
"""All descs that show a fact."""
