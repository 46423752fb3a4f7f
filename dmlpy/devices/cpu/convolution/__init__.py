"""Compiled convolutions: of images that are copied in tiles, or read where they lie, in strips."""
