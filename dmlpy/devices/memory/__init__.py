"""The memory that is bound to operators: arrays of the caller, owned inputs and reserves."""
