"""What dmlpy's own files import, name and enter."""
