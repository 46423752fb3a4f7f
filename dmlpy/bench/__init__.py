"""`dmlpy bench`: compares layers and operators with other libraries."""
