"""Plans of the recurrent operators on CUDA."""
