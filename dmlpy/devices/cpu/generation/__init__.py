"""The compiled plans of the operators that generate tensors."""
