"""What every operator computes, in plain NumPy: one readable definition that every device is held to."""
