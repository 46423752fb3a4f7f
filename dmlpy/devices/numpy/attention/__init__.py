"""The attention operators on the host."""
