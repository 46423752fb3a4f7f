"""Compiled convolutions and poolings: of images that are copied in parts, tile by tile, or read where they lie, in strips."""
