"""The definitions of the pooling operators, on whole arrays."""
