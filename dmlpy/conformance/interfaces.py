"""The interfaces of DXGI, Direct3D 12 and DirectML: the methods that are called, with their places in the vtables."""

from __future__ import annotations

from dmlpy.conformance.com import HRESULT, INT, POINTER, UINT, UINT64, Interface, Method

_NEW = (POINTER, POINTER)
"""The last arguments of a method that creates an object: an identifier, and the place for the object."""

# DXGI. IDXGIObject has places 3 to 6.
FACTORY = Interface(
    "IDXGIFactory4",
    "1bc6ea02-ef36-464f-bf0c-21ca39e5168a",
    {"EnumAdapters1": Method(12, HRESULT, (UINT, POINTER)), "EnumWarpAdapter": Method(27, HRESULT, _NEW)},
)
ADAPTER = Interface("IDXGIAdapter1", "29038f61-3839-4626-91fd-086879011a05", {"GetDesc1": Method(10, HRESULT, (POINTER,))})

# Direct3D 12. ID3D12Object has places 3 to 6, ID3D12DeviceChild 7.
D3D12_DEBUG = Interface("ID3D12Debug", "344488b7-6846-474b-b989-f027448245e0", {"EnableDebugLayer": Method(3, None)})
D3D12_DEVICE = Interface(
    "ID3D12Device",
    "189819f1-1db6-4b57-be54-1821339b85f7",
    {
        "CreateCommandQueue": Method(8, HRESULT, (POINTER, *_NEW)),
        "CreateCommandAllocator": Method(9, HRESULT, (INT, *_NEW)),
        "CreateCommandList": Method(12, HRESULT, (UINT, INT, POINTER, POINTER, *_NEW)),
        "CreateDescriptorHeap": Method(14, HRESULT, (POINTER, *_NEW)),
        "CreateCommittedResource": Method(27, HRESULT, (POINTER, UINT, POINTER, INT, POINTER, *_NEW)),
        "CreateFence": Method(36, HRESULT, (UINT64, UINT, *_NEW)),
        "GetDeviceRemovedReason": Method(37, HRESULT),
    },
)
INFO_QUEUE = Interface(
    "ID3D12InfoQueue",
    "0742a90b-c387-483f-b946-30a7e4e61458",
    {
        "ClearStoredMessages": Method(4, None),
        "GetMessage": Method(5, HRESULT, (UINT64, POINTER, POINTER)),
        "GetNumStoredMessages": Method(8, UINT64),
    },
)
COMMAND_QUEUE = Interface(
    "ID3D12CommandQueue",
    "0ec870a6-5d7e-4c22-8cfc-5baae07616ed",
    {"ExecuteCommandLists": Method(10, None, (UINT, POINTER)), "Signal": Method(14, HRESULT, (POINTER, UINT64))},
)
COMMAND_ALLOCATOR = Interface("ID3D12CommandAllocator", "6102dee4-af59-4b09-b999-b44d73f09b24", {})
COMMAND_LIST = Interface(
    "ID3D12GraphicsCommandList",
    "5b160d0f-ac1b-4185-8ba8-b3ae42a5a455",
    {
        "Close": Method(9, HRESULT),
        "CopyBufferRegion": Method(15, None, (POINTER, UINT64, POINTER, UINT64, UINT64)),
        "ResourceBarrier": Method(26, None, (UINT, POINTER)),
        "SetDescriptorHeaps": Method(28, None, (UINT, POINTER)),
    },
)
RESOURCE = Interface(
    "ID3D12Resource",
    "696442be-a72e-4059-bc79-5b5c98040fad",
    {"Map": Method(8, HRESULT, (UINT, POINTER, POINTER)), "Unmap": Method(9, None, (UINT, POINTER))},
)
DESCRIPTOR_HEAP = Interface(
    "ID3D12DescriptorHeap",
    "8efb471d-616c-4f49-90f7-127bb763fa51",
    {
        "GetCPUDescriptorHandleForHeapStart": Method(9, POINTER, (POINTER,)),
        "GetGPUDescriptorHandleForHeapStart": Method(10, POINTER, (POINTER,)),
    },
)
FENCE = Interface(
    "ID3D12Fence",
    "0a753dcf-c4d8-4b91-adf6-be5a60d95a76",
    {"SetEventOnCompletion": Method(9, HRESULT, (UINT64, POINTER))},
)

# DirectML. IDMLObject has places 3 to 6, IDMLDeviceChild 7, IDMLPageable none.
DML_DEVICE = Interface(
    "IDMLDevice",
    "6dbd6437-96fd-423f-a98c-ae5e7c2a573f",
    {
        "CheckFeatureSupport": Method(7, HRESULT, (INT, UINT, POINTER, UINT, POINTER)),
        "CreateOperator": Method(8, HRESULT, (POINTER, *_NEW)),
        "CompileOperator": Method(9, HRESULT, (POINTER, UINT, *_NEW)),
        "CreateOperatorInitializer": Method(10, HRESULT, (UINT, POINTER, *_NEW)),
        "CreateCommandRecorder": Method(11, HRESULT, _NEW),
        "CreateBindingTable": Method(12, HRESULT, (POINTER, *_NEW)),
        "GetDeviceRemovedReason": Method(15, HRESULT),
    },
)
OPERATOR = Interface("IDMLOperator", "26caae7a-3081-4633-9581-226fbe57695d", {})
_DISPATCHABLE = {"GetBindingProperties": Method(8, POINTER, (POINTER,))}
COMPILED_OPERATOR = Interface("IDMLCompiledOperator", "6b15e56a-bf5c-4902-92d8-da3a650afea4", _DISPATCHABLE)
OPERATOR_INITIALIZER = Interface("IDMLOperatorInitializer", "427c1113-435c-469c-8676-4d5dd072f813", _DISPATCHABLE)
BINDING_TABLE = Interface(
    "IDMLBindingTable",
    "29c687dc-de74-4e3b-ab00-1168f2fc3cfc",
    {
        "BindInputs": Method(8, None, (UINT, POINTER)),
        "BindOutputs": Method(9, None, (UINT, POINTER)),
        "BindTemporaryResource": Method(10, None, (POINTER,)),
        "BindPersistentResource": Method(11, None, (POINTER,)),
        "Reset": Method(12, HRESULT, (POINTER,)),
    },
)
COMMAND_RECORDER = Interface(
    "IDMLCommandRecorder",
    "e6857a76-2e3e-4fdd-bff4-5d2ba10fb453",
    {"RecordDispatch": Method(8, None, (POINTER, POINTER, POINTER))},
)
