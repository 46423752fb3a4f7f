"""What the names of element-wise operators' classes begin with.

Tables have these names, as `Attachments` takes them, in place of classes: the plan of an operator then imports no other one.
"""

ACTIVATION = "dmlpy.operators.activation:Activation"
ARITHMETIC = "dmlpy.operators.elementwise.arithmetic:ElementWise"
LOGIC = "dmlpy.operators.elementwise.logic:ElementWise"
MATH = "dmlpy.operators.elementwise.math:ElementWise"
RANGES = "dmlpy.operators.elementwise.ranges:ElementWise"
