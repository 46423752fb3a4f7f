"""Compiled matrix products, with B packed in panels."""
