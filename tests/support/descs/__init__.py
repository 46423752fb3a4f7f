"""Descs, valid and wrong ones, and the facts that say which they are."""
