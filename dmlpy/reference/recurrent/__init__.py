"""The definitions of the recurrent operators: layers, gradients, stacked networks and the GRU block cell. Begin with `layer`."""
