"""`dmlpy bench`: measures layers and operators beside other libraries."""
