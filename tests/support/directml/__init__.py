"""A DirectML for the tests of `dmlpy conformance`: a C++ library with the interfaces of DirectML, Direct3D 12 and DXGI that these use."""
