"""Element-wise operators on FLOAT32 and FLOAT16, and chains of them: one compiled kernel runs any program of instructions."""
