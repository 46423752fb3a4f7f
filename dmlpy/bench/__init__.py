"""What recurrent layers and batch normalization cost, beside other libraries: `dmlpy bench`."""
