"""What the recurrent operators compute: layers, their gradients, stacked networks and the GRU block cell. Begin with `layer`."""
