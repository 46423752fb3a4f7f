"""`dmlpy bench --operators`: every operator of DirectML at one size, beside its equivalents."""
