"""Compiled resampling."""
