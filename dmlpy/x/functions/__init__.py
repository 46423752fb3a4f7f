"""A function for each operator of DirectML, by family. `python -m dmlpy.stubs` writes the modules from the operators' classes."""
