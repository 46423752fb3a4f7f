"""Compiled convolutions and pooling: what a window sees of images that are copied in parts, tile by tile."""
