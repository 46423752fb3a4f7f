"""Graphs for tests: right, wrong and random ones, their runs and their files."""
