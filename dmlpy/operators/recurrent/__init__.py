"""The recurrent operators: one layer, its training form and its gradient, stacked networks, and the GRU block cell."""
