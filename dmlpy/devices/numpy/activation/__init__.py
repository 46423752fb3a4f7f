"""The activation operators on the host: formulas and derivatives that other operators fuse, and the operators themselves."""
