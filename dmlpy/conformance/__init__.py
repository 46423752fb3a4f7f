"""`dmlpy conformance`: compares what dmlpy accepts and computes with DirectML itself, on Windows.

`layout` builds the C structs of descs, `com` calls the methods of `interfaces` by their place in the vtable, `libraries` loads the DLLs,
`device` creates operators, and `execution` or `dxdispatch` runs them. `cases` lists the descs to check and `values` draws their
inputs. `worker` answers in a process of its own, which `process` starts again after a crash; `findings` compares the answers with dmlpy,
and `command` makes the record.
"""
