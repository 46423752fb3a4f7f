"""`dmlpy bench --operators`: every DirectML operator at one size, compared with its equivalents."""
