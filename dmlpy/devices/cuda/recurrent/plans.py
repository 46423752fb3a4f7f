"""The plans of recurrent layers, their gradients, networks of them, and the GRU's block cell."""

from __future__ import annotations

from dmlpy.devices.cuda.plans import attach_plan
from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc, GRUBlockCellGradDesc
from dmlpy.operators.recurrent.cudnn import CudnnRNNDesc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc

attach_plan("dmlpy.devices.cuda.recurrent.plan:recurrent_plan", RecurrentDesc)
attach_plan("dmlpy.devices.cuda.recurrent.gradient_plan:gradient_plan", RecurrentGradDesc)
attach_plan("dmlpy.devices.cuda.recurrent.cudnn:network_plan", CudnnRNNDesc)
attach_plan("dmlpy.devices.cuda.recurrent.block_cell:block_cell_plan", GRUBlockCellDesc)
attach_plan("dmlpy.devices.cuda.recurrent.block_cell:block_cell_gradient_plan", GRUBlockCellGradDesc)
