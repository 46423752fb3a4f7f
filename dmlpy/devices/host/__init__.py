"""The host's processors, and the threads that share its work."""
