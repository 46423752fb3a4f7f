"""The normalization operators, with given statistics and with the batch's own, and their gradients."""
