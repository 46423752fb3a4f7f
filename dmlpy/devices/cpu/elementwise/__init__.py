"""Element-wise operators on FLOAT32 and chains of them: one compiled kernel that runs any program of instructions, block by block."""
