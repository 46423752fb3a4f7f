"""How fast kernels are on a GPU: the models and measurements by which plans choose."""
