"""Inputs, runs and references of single operators."""
