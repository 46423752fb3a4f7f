"""Compiled poolings."""
