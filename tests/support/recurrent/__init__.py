"""Recurrent layers and networks over guarded memory, their gradients, and other libraries' results."""
