"""The compiled plans of attention."""
