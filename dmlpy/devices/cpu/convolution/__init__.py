"""Compiled convolutions: of input tiles that are copied, or of images that are read in place."""
