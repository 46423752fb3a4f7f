"""Descs as data: enumerations, structs, tensors, the language of sizes, support by feature level, and the registry of operators."""
