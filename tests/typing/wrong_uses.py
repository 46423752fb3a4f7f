"""Uses that type checkers refuse. Each line that is wrong ends in mypy's code for the error; nothing here is ever run."""

from __future__ import annotations

import dmlpy as dml
from dmlpy import directml, x

tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 7, 3, 11])
tanh = dml.ActivationTanhDesc()

dml.TensorDesc(data_type="FLOAT32", sizes="1, 7")  # error: arg-type
dml.TensorDesc(data_type="FLOAT32", sizes=[1.5])  # error: list-item
dml.TensorDesc(data_type=1.5, sizes=[1])  # error: arg-type
dml.TensorDesc(data_type="FLOAT32")  # error: call-arg
dml.TensorDesc(data_type="FLOAT32", sizes=[1], stride=[1])  # error: call-arg
dml.TensorDesc("FLOAT32", [1])  # error: call-arg
dml.RNNDesc(input_tensor=tensor, weight_tensor=tensor, activation_descs=[tanh], direction="FORWARD")  # error: call-arg
dml.RNNDesc(input_tensor=tensor, weight_tensor=None, recurrence_tensor=tensor, activation_descs=[tanh], direction=0)  # error: arg-type
dml.RNNDesc(input_tensor=tensor, weight_tensor=tensor, recurrence_tensor=tensor, activation_descs=[tensor], direction=0)  # error: list-item
dml.RNNDesc(input_tensor=tensor, weight_tensor=tensor, recurrence_tensor=tensor, activation_descs=tanh, direction=0)  # error: arg-type
dml.RNNDesc(input_tensor=tensor, weight_tensor=tensor, recurrence_tensor=tensor, activation_descs=[tanh], direction=[0])  # error: arg-type
dml.ActivationEluDesc(alpha=[1.0])  # error: arg-type
dml.ActivationEluDesc(beta=1.0)  # error: call-arg
dml.ActivationSoftmax1Desc()  # error: call-arg
dml.LPPoolingDesc(input_tensor=tensor, window_size=[2], start_padding=[0], end_padding=[0], p=2)  # error: call-arg
dml.LPPoolingDesc(input_tensor=tensor, strides=1, window_size=[2], start_padding=[0], end_padding=[0], p=2)  # error: arg-type
directml.DML_RNN_OPERATOR_DESC(InputTensor=tensor, WeightTensor=tensor, ActivationDescs=[tanh], Direction=0)  # error: call-overload
directml.DML_ACTIVATION_ELU_OPERATOR_DESC(Alpha=[1.0])  # error: call-overload
directml.DML_ACTIVATION_ELU_OPERATOR_DESC(Beta=1.0)  # error: call-overload
directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1.5])  # error: list-item
directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", sizes=[1])  # error: call-overload
directml.DML_BUFFER_TENSOR_DESC("FLOAT32", [1])  # error: call-overload
directml.DML_SIZE_2D(Width=3, Height="2")  # error: call-overload
dml.check(tensor)  # error: arg-type
dml.check(tanh, feature_level=6.4)  # error: arg-type
dml.compile("RNN")  # error: call-overload
dml.compile(tanh, "numpy")({"input_tensor": 1})  # error: arg-type
alpha = tanh.alpha  # error: attr-defined
tensor.sizes.append(3)  # error: attr-defined
names: list[str] = dml.check(tanh)  # error: assignment
e = x.input("e", [2, 3])
x.activation_relu("e")  # error: arg-type
x.activation_elu(e, 0.5)  # error: call-arg
x.convolution(e, e, stride=[1, 1])  # error: call-arg
x.convolution(e, e, strides=1)  # error: arg-type
x.gemm(e, 2.0)  # error: arg-type
x.join(e, axis=0)  # error: arg-type
largest = x.top_k1(e, axis=1, k=1).values  # error: attr-defined
e + "e"  # error: operator
