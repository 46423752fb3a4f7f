"""Compiled convolutions: of copied input tiles, or of images read in place."""
