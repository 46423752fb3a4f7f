"""Plans of the recurrent operators on the NumPy device."""
