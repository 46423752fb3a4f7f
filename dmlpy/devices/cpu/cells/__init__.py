"""Compiled single steps of gated recurrent units."""
