"""The normalization operators, with given statistics and with those of the batch, and their gradients."""
