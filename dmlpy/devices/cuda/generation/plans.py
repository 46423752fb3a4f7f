"""The plans of operators that create tensors."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.generation import (
    DiagonalMatrix1Desc,
    DiagonalMatrixDesc,
    FillValueConstantDesc,
    FillValueSequenceDesc,
    RandomGeneratorDesc,
)

attach_plan("dmlpy.devices.cuda.generation.constants:fill_value_constant_plan", FillValueConstantDesc)
attach_plan("dmlpy.devices.cuda.generation.constants:fill_value_sequence_plan", FillValueSequenceDesc)
attach_plan("dmlpy.devices.cuda.generation.constants:diagonal_matrix_plan", DiagonalMatrixDesc)
attach_plan("dmlpy.devices.cuda.generation.constants:diagonal_matrix1_plan", DiagonalMatrix1Desc)
attach_plan("dmlpy.devices.cuda.generation.random:random_plan", RandomGeneratorDesc)
