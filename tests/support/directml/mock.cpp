// DirectML, Direct3D 12 and DXGI as far as `dmlpy conformance` calls them. The order of the virtual methods is that of the headers. Python
// decides which descs are valid and computes results. What a real device would answer with its removal, or not notice, is a violation.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

typedef uint32_t HRESULT;
typedef const unsigned char* GUID;
const HRESULT S_OK = 0, E_NOINTERFACE = 0x80004002, E_INVALIDARG = 0x80070057, UNSUPPORTED = 0x887A0004, REMOVED = 0x887A0005,
              COMPONENT_MISSING = 0x887A002D, NOT_FOUND = 0x887A0002;

typedef HRESULT (*Judge)(const char* desc);
typedef HRESULT (*Compute)(const char* desc, void** inputs, void** outputs);

struct Settings {
    Judge judge;
    Compute compute;
    int32_t max_level, has_warp, has_debug_layer;
} settings;

int64_t live_objects;
HRESULT removed_reason;
std::string violations;
std::vector<std::string> debug_messages;

void violation(const std::string& text) { violations += text + "\n"; }

void stub(const char* name) {
    fprintf(stderr, "the mock has no %s\n", name);
    abort();
}

#define STUB(Name) virtual void Name() { stub(#Name); }

// Objects answer every interface that they are asked for by the few tests below; identity checks of GUIDs are in `expect`.
struct Unknown {
    uint32_t references = 1;
    Unknown() { live_objects++; }
    virtual HRESULT QueryInterface(GUID, void** found) { *found = nullptr; return E_NOINTERFACE; }
    virtual uint32_t AddRef() { return ++references; }
    virtual uint32_t Release() {
        uint32_t left = --references;
        if (left == 0) { live_objects--; destroy(this); }
        return left;
    }
    // Not virtual: a destructor would take places in the vtable.
    void (*destroy)(Unknown*) = nullptr;
};

template <class Kind, class... Arguments> Kind* make(Arguments&&... arguments) {
    auto* object = new Kind(std::forward<Arguments>(arguments)...);
    object->destroy = [](Unknown* self) { delete static_cast<Kind*>(self); };
    return object;
}

struct Id { uint32_t first; };
// The first word tells the interfaces apart that are used here.
bool expect(GUID given, uint32_t first, const char* name) {
    if (given && reinterpret_cast<const Id*>(given)->first == first) return true;
    violation(std::string("an interface id that is not ") + name + "'s");
    return false;
}

struct Named : Unknown { STUB(GetPrivateData) STUB(SetPrivateData) STUB(SetPrivateDataInterface) STUB(SetName) };
struct Child : Named { STUB(GetDevice) };

// ---- Direct3D 12 ----

enum { COMMON = 0, UNORDERED_ACCESS = 8, COPY_DEST = 0x400, COPY_SOURCE = 0x800, GENERIC_READ = 0xAC3 };
enum { DEFAULT_HEAP = 1, UPLOAD_HEAP = 2, READBACK_HEAP = 3 };

struct HeapProperties { int32_t Type, CpuPage, Pool; uint32_t CreationMask, VisibleMask; };
struct ResourceDesc {
    int32_t Dimension; uint64_t Alignment, Width; uint32_t Height; uint16_t Depth, Mips; int32_t Format; uint32_t SampleCount, SampleQuality;
    int32_t Layout; uint32_t Flags;
};

struct Resource : Child {
    std::vector<unsigned char> bytes;
    int heap, state;
    // Buffers that only the GPU uses begin in the state COMMON, whatever was asked for, and decay to it when a list has been executed.
    Resource(size_t size, int heap, int state) : bytes(size, 0xA5), heap(heap), state(heap == DEFAULT_HEAP ? COMMON : state) {}
    // The first use in a list promotes a buffer from COMMON; other states need a barrier.
    bool use(int wanted) {
        if (state == COMMON && heap == DEFAULT_HEAP) state = wanted;
        return state == wanted || (state == GENERIC_READ && wanted == COPY_SOURCE);
    }
    virtual HRESULT Map(uint32_t, const void*, void** found) {
        if (heap == DEFAULT_HEAP) { violation("Map of a buffer that the CPU cannot read"); return E_INVALIDARG; }
        *found = bytes.data();
        return S_OK;
    }
    virtual void Unmap(uint32_t, const void*) {}
    STUB(GetDesc) STUB(GetGPUVirtualAddress) STUB(WriteToSubresource) STUB(ReadFromSubresource) STUB(GetHeapProperties)
};

struct Barrier { int32_t Type; uint32_t Flags; Resource* resource; uint32_t Subresource; int32_t Before, After; };

struct CommandAllocator : Child { virtual HRESULT Reset() { return S_OK; } };

struct DescriptorHeap : Child {
    uint32_t count;
    explicit DescriptorHeap(uint32_t count) : count(count) {}
    STUB(GetDesc)
    virtual uint64_t* GetCPUDescriptorHandleForHeapStart(uint64_t* found) { *found = 0x1000; return found; }
    virtual uint64_t* GetGPUDescriptorHandleForHeapStart(uint64_t* found) { *found = 0x2000; return found; }
};

struct CommandList : Child {
    std::vector<std::function<void()>> commands;
    std::vector<Resource*> used;
    DescriptorHeap* heap = nullptr;
    bool open = true, needs_barrier = false;
    STUB(GetType)
    virtual HRESULT Close() { open = false; return S_OK; }
    STUB(Reset) STUB(ClearState) STUB(DrawInstanced) STUB(DrawIndexedInstanced) STUB(Dispatch)
    virtual void CopyBufferRegion(Resource* to, uint64_t to_offset, Resource* from, uint64_t from_offset, uint64_t count) {
        commands.push_back([=, this] {
            used.insert(used.end(), {to, from});
            if (!to->use(COPY_DEST)) violation("a copy to a buffer that is not in the state COPY_DEST");
            if (!from->use(COPY_SOURCE)) violation("a copy of a buffer that is not in the state COPY_SOURCE");
            if (to_offset + count > to->bytes.size() || from_offset + count > from->bytes.size()) return violation("a copy beyond a buffer");
            memcpy(to->bytes.data() + to_offset, from->bytes.data() + from_offset, count);
        });
    }
    STUB(CopyTextureRegion) STUB(CopyResource) STUB(CopyTiles) STUB(ResolveSubresource) STUB(IASetPrimitiveTopology)
    STUB(RSSetViewports) STUB(RSSetScissorRects) STUB(OMSetBlendFactor) STUB(OMSetStencilRef) STUB(SetPipelineState)
    virtual void ResourceBarrier(uint32_t count, const Barrier* barriers) {
        for (uint32_t at = 0; at < count; at++) {
            Barrier barrier = barriers[at];
            if (barrier.Type == 2) { needs_barrier = false; continue; }
            if (barrier.Type != 0) { violation("a barrier of another type"); continue; }
            commands.push_back([=] {
                if (barrier.resource->state != barrier.Before) violation("a transition from a state that the buffer is not in");
                barrier.resource->state = barrier.After;
            });
        }
    }
    STUB(ExecuteBundle)
    virtual void SetDescriptorHeaps(uint32_t count, DescriptorHeap* const* heaps) { heap = count ? heaps[0] : nullptr; }
};

struct Fence : Child {
    uint64_t value;
    explicit Fence(uint64_t value) : value(value) {}
    virtual uint64_t GetCompletedValue() { return value; }
    virtual HRESULT SetEventOnCompletion(uint64_t awaited, void* event) {
        if (event) violation("an event, which the mock does not have");
        if (value < awaited) violation("waiting for a value that nothing signals");
        return S_OK;
    }
    STUB(Signal)
};

struct CommandQueue : Child {
    STUB(UpdateTileMappings) STUB(CopyTileMappings)
    virtual void ExecuteCommandLists(uint32_t count, CommandList* const* lists) {
        for (uint32_t at = 0; at < count; at++) {
            if (lists[at]->open) violation("an open command list is executed");
            for (auto& command : lists[at]->commands) command();
            for (auto* buffer : lists[at]->used)
                if (buffer->heap == DEFAULT_HEAP) buffer->state = COMMON;
        }
    }
    STUB(SetMarker) STUB(BeginEvent) STUB(EndEvent)
    virtual HRESULT Signal(Fence* fence, uint64_t value) { fence->value = value; return S_OK; }
    STUB(Wait)
};

struct Message { int32_t Category, Severity, Id; const char* Description; size_t Length; };

struct InfoQueue : Unknown {
    STUB(SetMessageCountLimit)
    virtual void ClearStoredMessages() { debug_messages.clear(); }
    virtual HRESULT GetMessage(uint64_t index, Message* found, size_t* length) {
        auto& text = debug_messages.at(index);
        size_t needed = sizeof(Message) + text.size() + 1;
        if (found) {
            if (*length < needed) return E_INVALIDARG;
            char* behind = reinterpret_cast<char*>(found + 1);
            memcpy(behind, text.c_str(), text.size() + 1);
            *found = {0, 1, 0, behind, text.size() + 1};
        }
        *length = needed;
        return S_OK;
    }
    STUB(GetNumMessagesAllowedByStorageFilter) STUB(GetNumMessagesDeniedByStorageFilter)
    virtual uint64_t GetNumStoredMessages() { return debug_messages.size(); }
};

struct D3d12Device : Named {
    HRESULT QueryInterface(GUID id, void** found) override {
        *found = nullptr;
        if (!settings.has_debug_layer || !expect(id, 0x0742a90b, "ID3D12InfoQueue")) return E_NOINTERFACE;
        *found = make<InfoQueue>();
        return S_OK;
    }
    STUB(GetNodeCount)
    virtual HRESULT CreateCommandQueue(const int32_t* desc, GUID id, void** found) {
        if (desc[0] != 0) violation("a queue that is not DIRECT");
        if (!expect(id, 0x0ec870a6, "ID3D12CommandQueue")) return E_NOINTERFACE;
        *found = make<CommandQueue>();
        return S_OK;
    }
    virtual HRESULT CreateCommandAllocator(int32_t, GUID id, void** found) {
        if (!expect(id, 0x6102dee4, "ID3D12CommandAllocator")) return E_NOINTERFACE;
        *found = make<CommandAllocator>();
        return S_OK;
    }
    STUB(CreateGraphicsPipelineState) STUB(CreateComputePipelineState)
    virtual HRESULT CreateCommandList(uint32_t, int32_t type, CommandAllocator* allocator, void* pipeline, GUID id, void** found) {
        if (type != 0 || !allocator || pipeline) violation("arguments of CreateCommandList");
        if (!expect(id, 0x5b160d0f, "ID3D12GraphicsCommandList")) return E_NOINTERFACE;
        *found = make<CommandList>();
        return S_OK;
    }
    STUB(CheckFeatureSupport)
    virtual HRESULT CreateDescriptorHeap(const uint32_t* desc, GUID id, void** found) {
        if (desc[0] != 0 || desc[1] < 1 || desc[2] != 1) violation("a descriptor heap that shaders cannot see");
        if (!expect(id, 0x8efb471d, "ID3D12DescriptorHeap")) return E_NOINTERFACE;
        *found = make<DescriptorHeap>(desc[1]);
        return S_OK;
    }
    virtual uint32_t GetDescriptorHandleIncrementSize(int32_t) { return 32; }
    STUB(CreateRootSignature) STUB(CreateConstantBufferView) STUB(CreateShaderResourceView) STUB(CreateUnorderedAccessView)
    STUB(CreateRenderTargetView) STUB(CreateDepthStencilView) STUB(CreateSampler) STUB(CopyDescriptors) STUB(CopyDescriptorsSimple)
    STUB(GetResourceAllocationInfo) STUB(GetCustomHeapProperties)
    virtual HRESULT CreateCommittedResource(
        const HeapProperties* heap, uint32_t, const ResourceDesc* desc, int32_t state, const void*, GUID id, void** found) {
        bool is_buffer = desc->Dimension == 1 && desc->Height == 1 && desc->Depth == 1 && desc->Mips == 1 && desc->SampleCount == 1 &&
                         desc->Layout == 1 && desc->Format == 0 && desc->Width > 0;
        if (!is_buffer) { violation("a resource that is no buffer"); return E_INVALIDARG; }
        if ((heap->Type == DEFAULT_HEAP) != (desc->Flags == 4)) violation("unordered access and the heap's type");
        if (heap->Type == UPLOAD_HEAP && state != GENERIC_READ) violation("an upload buffer in another state");
        if (heap->Type == READBACK_HEAP && state != COPY_DEST) violation("a readback buffer in another state");
        if (!expect(id, 0x696442be, "ID3D12Resource")) return E_NOINTERFACE;
        *found = make<Resource>(desc->Width, heap->Type, state);
        return S_OK;
    }
    STUB(CreateHeap) STUB(CreatePlacedResource) STUB(CreateReservedResource) STUB(CreateSharedHandle) STUB(OpenSharedHandle)
    STUB(OpenSharedHandleByName) STUB(MakeResident) STUB(Evict)
    virtual HRESULT CreateFence(uint64_t initial, uint32_t, GUID id, void** found) {
        if (!expect(id, 0x0a753dcf, "ID3D12Fence")) return E_NOINTERFACE;
        *found = make<Fence>(initial);
        return S_OK;
    }
    virtual HRESULT GetDeviceRemovedReason() { return removed_reason; }
};

// ---- DirectML ----

struct Description {
    std::string json;
    int type;
    std::vector<Slot> inputs, outputs;
    explicit Description(const DML_OPERATOR_DESC& desc)
        : json(describe(desc)), type(desc.Type), inputs(slots(desc, 'i')), outputs(slots(desc, 'o')) {}
};

struct CreatedOperator : Child {
    Description description;
    explicit CreatedOperator(const DML_OPERATOR_DESC& desc) : description(desc) {}
};

struct Dispatchable : Child {
    virtual DML_BINDING_PROPERTIES* GetBindingProperties(DML_BINDING_PROPERTIES* found) { *found = properties; return found; }
    DML_BINDING_PROPERTIES properties{};
};

struct Compiled : Dispatchable {
    Description source;
    bool initialized = false;
    explicit Compiled(const Description& source) : source(source) {
        properties.RequiredDescriptorCount = UINT(source.inputs.size() + source.outputs.size() + 2);
        properties.TemporaryResourceSize = source.type % 2 ? 1024 : 0;
        properties.PersistentResourceSize = source.type % 3 ? 0 : 512;
    }
};

struct Initializer : Dispatchable {
    Compiled* target;
    explicit Initializer(Compiled* target) : target(target) {
        properties.RequiredDescriptorCount = 3;
        properties.TemporaryResourceSize = 256;
    }
    STUB(Reset)
};

struct Bound { bool present; Resource* buffer; UINT64 offset, size; };

Bound bound(const DML_BINDING_DESC* desc) {
    if (!desc || desc->Type == DML_BINDING_TYPE_NONE) return {false, nullptr, 0, 0};
    if (desc->Type != DML_BINDING_TYPE_BUFFER) { violation("a binding of another type"); return {false, nullptr, 0, 0}; }
    auto& range = *static_cast<const DML_BUFFER_BINDING*>(desc->Desc);
    Bound found{range.Buffer != nullptr, static_cast<Resource*>(range.Buffer), range.Offset, range.SizeInBytes};
    if (found.present && found.offset + found.size > found.buffer->bytes.size()) violation("a binding beyond its buffer");
    return found;
}

struct BindingTable : Child {
    Dispatchable* target;
    std::vector<Bound> inputs, outputs;
    Bound temporary{}, persistent{};
    explicit BindingTable(const DML_BINDING_TABLE_DESC& desc) { set(desc); }
    void set(const DML_BINDING_TABLE_DESC& desc) {
        target = static_cast<Dispatchable*>(desc.Dispatchable);
        if (desc.SizeInDescriptors < target->properties.RequiredDescriptorCount) violation("a binding table with too few descriptors");
        if (desc.CPUDescriptorHandle != 0x1000 || desc.GPUDescriptorHandle != 0x2000) violation("descriptor handles");
        inputs.clear(); outputs.clear(); temporary = {}; persistent = {};
    }
    virtual void BindInputs(UINT count, const DML_BINDING_DESC* descs) {
        inputs.clear();
        for (UINT at = 0; at < count; at++) inputs.push_back(bound(descs + at));
    }
    virtual void BindOutputs(UINT count, const DML_BINDING_DESC* descs) {
        outputs.clear();
        for (UINT at = 0; at < count; at++) outputs.push_back(bound(descs + at));
    }
    virtual void BindTemporaryResource(const DML_BINDING_DESC* desc) { temporary = bound(desc); }
    virtual void BindPersistentResource(const DML_BINDING_DESC* desc) { persistent = bound(desc); }
    virtual HRESULT Reset(const DML_BINDING_TABLE_DESC* desc) { set(*desc); return S_OK; }
};

void check_area(const Bound& given, UINT64 needed, const char* name) {
    if (given.present != (needed > 0) || given.size < needed) violation(std::string("the size of the bound ") + name + " resource");
    if (given.present && !given.buffer->use(UNORDERED_ACCESS)) violation(std::string("the state of the bound ") + name + " resource");
}

std::vector<void*> addresses(const std::vector<Bound>& given, const std::vector<Slot>& wanted, const char* name) {
    std::vector<void*> found;
    if (given.size() != wanted.size()) { violation(std::string("the number of bound ") + name); removed_reason = REMOVED; return found; }
    for (size_t at = 0; at < wanted.size(); at++) {
        check_area(given[at], wanted[at].present ? wanted[at].size : 0, name);
        found.push_back(given[at].present ? given[at].buffer->bytes.data() + given[at].offset : nullptr);
    }
    return found;
}

struct CommandRecorder : Child {
    virtual void RecordDispatch(CommandList* list, Dispatchable* what, BindingTable* table) {
        if (!list->open || !list->heap) violation("RecordDispatch needs an open list with a descriptor heap");
        if (list->needs_barrier) violation("two dispatches without a barrier between them");
        if (table->target != what) violation("a binding table of another dispatchable");
        list->needs_barrier = true;
        auto inputs = table->inputs, outputs = table->outputs;
        auto temporary = table->temporary, persistent = table->persistent;
        for (auto& group : {inputs, outputs, {temporary, persistent}})
            for (auto& one : group)
                if (one.present) list->used.push_back(one.buffer);
        list->commands.push_back([=] {
            check_area(temporary, what->properties.TemporaryResourceSize, "temporary");
            if (auto* initializer = dynamic_cast<Initializer*>(what)) {
                if (initializer->target->initialized) violation("an operator is initialized twice");
                initializer->target->initialized = true;
                UINT64 needed = initializer->target->properties.PersistentResourceSize;
                check_area(outputs.empty() ? Bound{} : outputs[0], needed, "persistent");
                return;
            }
            auto* compiled = static_cast<Compiled*>(what);
            check_area(persistent, compiled->properties.PersistentResourceSize, "persistent");
            if (!compiled->initialized) violation("an operator is executed before it is initialized");
            auto from = addresses(inputs, compiled->source.inputs, "inputs"), to = addresses(outputs, compiled->source.outputs, "outputs");
            if (removed_reason == S_OK) removed_reason = settings.compute(compiled->source.json.c_str(), from.data(), to.data());
        });
    }
};

struct LevelQuery { UINT count; const int32_t* levels; };

struct DmlDevice : Named {
    virtual HRESULT CheckFeatureSupport(int32_t feature, UINT query_size, const void* query, UINT data_size, void* data) {
        if (feature != 1) return UNSUPPORTED;
        if (query_size != sizeof(LevelQuery) || data_size != 4) return E_INVALIDARG;
        auto& wanted = *static_cast<const LevelQuery*>(query);
        int32_t best = 0;
        for (UINT at = 0; at < wanted.count; at++) {
            if (wanted.levels[at] > settings.max_level) return E_INVALIDARG;  // a level of the future
            if (wanted.levels[at] > best) best = wanted.levels[at];
        }
        *static_cast<int32_t*>(data) = best;
        return best ? S_OK : E_INVALIDARG;
    }
    virtual HRESULT CreateOperator(const DML_OPERATOR_DESC* desc, GUID id, void** found) {
        if (!expect(id, 0x26caae7a, "IDMLOperator")) return E_NOINTERFACE;
        HRESULT answer = settings.judge(describe(*desc).c_str());
        if (answer != S_OK) {
            if (settings.has_debug_layer) debug_messages.push_back("the judge refuses it");
            return answer;
        }
        *found = make<CreatedOperator>(*desc);
        return S_OK;
    }
    virtual HRESULT CompileOperator(CreatedOperator* op, uint32_t flags, GUID id, void** found) {
        if (flags) violation("execution flags");
        if (!expect(id, 0x6b15e56a, "IDMLCompiledOperator")) return E_NOINTERFACE;
        *found = make<Compiled>(op->description);
        return S_OK;
    }
    virtual HRESULT CreateOperatorInitializer(UINT count, Compiled* const* operators, GUID id, void** found) {
        if (count != 1) violation("an initializer of several operators");
        if (!expect(id, 0x427c1113, "IDMLOperatorInitializer")) return E_NOINTERFACE;
        *found = make<Initializer>(operators[0]);
        return S_OK;
    }
    virtual HRESULT CreateCommandRecorder(GUID id, void** found) {
        if (!expect(id, 0xe6857a76, "IDMLCommandRecorder")) return E_NOINTERFACE;
        *found = make<CommandRecorder>();
        return S_OK;
    }
    virtual HRESULT CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, GUID id, void** found) {
        if (!expect(id, 0x29c687dc, "IDMLBindingTable")) return E_NOINTERFACE;
        *found = make<BindingTable>(*desc);
        return S_OK;
    }
    STUB(Evict) STUB(MakeResident)
    virtual HRESULT GetDeviceRemovedReason() { return removed_reason; }
    STUB(GetParentDevice)
};

// ---- DXGI ----

struct AdapterDesc { char16_t Description[128]; uint32_t Vendor, Device, SubSys, Revision; size_t Memory[3]; uint64_t Luid; uint32_t Flags; };

struct Adapter : Named {
    STUB(EnumOutputs) STUB(GetDesc) STUB(CheckInterfaceSupport)
    virtual HRESULT GetDesc1(AdapterDesc* found) {
        *found = {};
        const char16_t name[] = u"Mock of a basic render driver";
        memcpy(found->Description, name, sizeof name);
        found->Flags = 2;
        return S_OK;
    }
};

struct Factory : Named {  // IDXGIObject has as many methods as ID3D12Object
    STUB(EnumAdapters) STUB(MakeWindowAssociation) STUB(GetWindowAssociation) STUB(CreateSwapChain) STUB(CreateSoftwareAdapter)
    virtual HRESULT EnumAdapters1(uint32_t index, void** found) {
        *found = nullptr;
        if (index) return NOT_FOUND;
        *found = make<Adapter>();
        return S_OK;
    }
    STUB(IsCurrent) STUB(IsWindowedStereoEnabled) STUB(CreateSwapChainForHwnd) STUB(CreateSwapChainForCoreWindow)
    STUB(GetSharedResourceAdapterLuid) STUB(RegisterStereoStatusWindow) STUB(RegisterStereoStatusEvent) STUB(UnregisterStereoStatus)
    STUB(RegisterOcclusionStatusWindow) STUB(RegisterOcclusionStatusEvent) STUB(UnregisterOcclusionStatus)
    STUB(CreateSwapChainForComposition) STUB(GetCreationFlags) STUB(EnumAdapterByLuid)
    virtual HRESULT EnumWarpAdapter(GUID id, void** found) {
        if (!settings.has_warp) return NOT_FOUND;
        if (!expect(id, 0x29038f61, "IDXGIAdapter1")) return E_NOINTERFACE;
        *found = make<Adapter>();
        return S_OK;
    }
};

struct Debug : Unknown { virtual void EnableDebugLayer() {} };

extern "C" {
HRESULT CreateDXGIFactory2(uint32_t, GUID id, void** found) {
    if (!expect(id, 0x1bc6ea02, "IDXGIFactory4")) return E_NOINTERFACE;
    *found = make<Factory>();
    return S_OK;
}

HRESULT D3D12GetDebugInterface(GUID id, void** found) {
    if (!settings.has_debug_layer) return COMPONENT_MISSING;
    if (!expect(id, 0x344488b7, "ID3D12Debug")) return E_NOINTERFACE;
    *found = make<Debug>();
    return S_OK;
}

HRESULT D3D12CreateDevice(void* adapter, int32_t level, GUID id, void** found) {
    if (!adapter || level != 0xb000) violation("arguments of D3D12CreateDevice");
    if (!expect(id, 0x189819f1, "ID3D12Device")) return E_NOINTERFACE;
    removed_reason = S_OK;
    *found = make<D3d12Device>();
    return S_OK;
}

HRESULT DMLCreateDevice1(void* device, uint32_t flags, int32_t level, GUID id, void** found) {
    if (!device) violation("arguments of DMLCreateDevice1");
    if ((flags & 1) && !settings.has_debug_layer) return COMPONENT_MISSING;
    if (level > settings.max_level) return UNSUPPORTED;
    if (!expect(id, 0x6dbd6437, "IDMLDevice")) return E_NOINTERFACE;
    *found = make<DmlDevice>();
    return S_OK;
}

void mock_set(const Settings* given) { settings = *given; }
int64_t mock_live_objects() { return live_objects; }
const char* mock_violations() { return violations.c_str(); }
void mock_reset() {
    violations.clear();
    debug_messages.clear();
}
size_t mock_size_of(int type) { return OPERATORS[type].size; }
const char* mock_describe(const DML_OPERATOR_DESC* desc) {
    static std::string text;
    text = describe(*desc);
    return text.c_str();
}
}
