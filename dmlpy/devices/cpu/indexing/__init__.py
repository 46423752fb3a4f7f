"""The compiled plans of the indexing operators."""
