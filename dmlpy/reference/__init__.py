"""The definition of every operator in plain NumPy, to which every device is held.

What an operator of `dmlpy.operators.recurrent` computes is in `dmlpy.reference.recurrent`, and so on for each family. The function
`dmlpy.reference(desc, input_tensor=x)` has the package's name: lazy_loader sees to it that `dmlpy.reference` is the function, also where
modules of the package have been imported before it.
"""
