"""Element-wise operators on FLOAT32, FLOAT16 and BFLOAT16, and chains of them and bytes: one compiled kernel runs any program."""
