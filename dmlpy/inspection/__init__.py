"""Descs presented to people and programs: explanations, catalogues, samples, schemas, and positions in JSON."""
