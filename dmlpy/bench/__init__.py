"""`dmlpy bench`: measures recurrent layers and batch normalization beside other libraries."""
