"""A function for each operator of DirectML, by family. `python -m dmlpy.x.stubs` writes the modules from the operators' classes."""
