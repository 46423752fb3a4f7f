// Writes an operator's structs as JSON in the form of DxDispatch models: every member as the C++ compiler finds it.
#include <cmath>
#include <cstdio>
#include <string>

inline std::string number(double value) {
    if (std::isnan(value)) return "\"nan\"";
    if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
    char text[40];
    snprintf(text, sizeof text, "%.9g", value);
    return text;
}

inline std::string number(uint32_t value) { return std::to_string(value); }
inline std::string number(int32_t value) { return std::to_string(value); }
inline std::string number(float value) { return number(double(value)); }

template <class Value> std::string list(const Value* values, size_t count) {
    std::string text = "[";
    for (size_t at = 0; at < count; at++) text += (at ? "," : "") + number(values[at]);
    return text + "]";
}

inline std::string tensor(const DML_TENSOR_DESC& outer) {
    if (outer.Type != DML_TENSOR_TYPE_BUFFER) return "\"a tensor of type " + std::to_string(outer.Type) + "\"";
    auto& desc = *static_cast<const DML_BUFFER_TENSOR_DESC*>(outer.Desc);
    std::string text = "{\"DataType\":" + std::to_string(desc.DataType) + ",\"Flags\":" + std::to_string(desc.Flags);
    text += ",\"DimensionCount\":" + std::to_string(desc.DimensionCount) + ",\"Sizes\":" + list(desc.Sizes, desc.DimensionCount);
    if (desc.Strides) text += ",\"Strides\":" + list(desc.Strides, desc.DimensionCount);
    text += ",\"TotalTensorSizeInBytes\":" + std::to_string(desc.TotalTensorSizeInBytes);
    return text + ",\"GuaranteedBaseOffsetAlignment\":" + std::to_string(desc.GuaranteedBaseOffsetAlignment) + "}";
}

inline std::string describe(const DML_OPERATOR_DESC& desc);

template <class Item> std::string objects(const Item* items, size_t count, std::string (*write)(const Item&)) {
    std::string text = "[";
    for (size_t at = 0; at < count; at++) text += (at ? "," : "") + write(items[at]);
    return text + "]";
}

template <class Value> const Value& at(const void* memory, size_t offset) {
    return *reinterpret_cast<const Value*>(static_cast<const char*>(memory) + offset);
}

// The value of a member; empty for a null pointer.
inline std::string value_of(const void* desc, const Member& member) {
    size_t count = member.count == NO_COUNT ? 0 : at<UINT>(desc, member.count);
    auto pointer = [&] { return at<const void*>(desc, member.offset); };
    bool is_value = member.kind == OF_UINT || member.kind == OF_INT || member.kind == OF_FLOAT || member.kind == OF_BOOL ||
                    member.kind == OF_UINT64 || member.kind == OF_SIZE_2D || member.kind == OF_SCALAR_UNION;
    if (!is_value && !pointer()) return count ? "\"null for " + std::to_string(count) + " entries\"" : member.count == NO_COUNT ? "" : "[]";
    switch (member.kind) {
    case OF_TENSOR_DESC: return tensor(*static_cast<const DML_TENSOR_DESC*>(pointer()));
    case OF_TENSOR_DESC_ARRAY: return objects(static_cast<const DML_TENSOR_DESC*>(pointer()), count, tensor);
    case OF_OPERATOR_DESC: return describe(*static_cast<const DML_OPERATOR_DESC*>(pointer()));
    case OF_OPERATOR_DESC_ARRAY: return objects(static_cast<const DML_OPERATOR_DESC*>(pointer()), count, describe);
    case OF_UINT: return number(at<UINT>(desc, member.offset));
    case OF_UINT64: return std::to_string(at<UINT64>(desc, member.offset));
    case OF_INT: case OF_BOOL: return number(at<INT>(desc, member.offset));
    case OF_FLOAT: return number(at<FLOAT>(desc, member.offset));
    case OF_UINT_ARRAY: return list(static_cast<const UINT*>(pointer()), count);
    case OF_INT_ARRAY: return list(static_cast<const INT*>(pointer()), count);
    case OF_FLOAT_ARRAY: return list(static_cast<const FLOAT*>(pointer()), count);
    case OF_SCALE_BIAS: {
        auto& scale = *static_cast<const DML_SCALE_BIAS*>(pointer());
        return "{\"Scale\":" + number(scale.Scale) + ",\"Bias\":" + number(scale.Bias) + "}";
    }
    case OF_SIZE_2D: {
        auto& size = at<DML_SIZE_2D>(desc, member.offset);
        return "{\"Width\":" + number(size.Width) + ",\"Height\":" + number(size.Height) + "}";
    }
    case OF_SCALAR_UNION: {
        std::string text = "{\"Bytes\":[";
        for (int byte = 0; byte < 8; byte++) text += (byte ? "," : "") + std::to_string(at<DML_SCALAR_UNION>(desc, member.offset).Bytes[byte]);
        return text + "]}";
    }
    }
    return "\"?\"";
}

inline std::string describe(const DML_OPERATOR_DESC& desc) {
    if (desc.Type < 1 || size_t(desc.Type) >= sizeof OPERATORS / sizeof *OPERATORS) return "{\"Type\":" + std::to_string(desc.Type) + "}";
    auto& kind = OPERATORS[desc.Type];
    std::string text = "{\"Type\":\"" + std::string(kind.name) + "\",\"Desc\":{";
    bool first = true;
    for (size_t at = 0; at < kind.members; at++) {
        std::string value = value_of(desc.Desc, kind.table[at]);
        if (value.empty()) continue;
        text += (first ? "\"" : ",\"") + std::string(kind.table[at].name) + "\":" + value;
        first = false;
    }
    return text + "}}";
}

struct Slot {
    bool present;
    UINT64 size;
    bool owned;
};

// Every place for a tensor of a role, described or not, as binding counts them.
#include <vector>
inline std::vector<Slot> slots(const DML_OPERATOR_DESC& desc, char role) {
    std::vector<Slot> found;
    auto add = [&](const DML_TENSOR_DESC* item) {
        if (!item) return found.push_back({false, 0, false});
        auto& buffer = *static_cast<const DML_BUFFER_TENSOR_DESC*>(item->Desc);
        found.push_back({true, buffer.TotalTensorSizeInBytes, buffer.Flags == DML_TENSOR_FLAG_OWNED_BY_DML});
    };
    auto& kind = OPERATORS[desc.Type];
    for (size_t index = 0; index < kind.members; index++) {
        auto& member = kind.table[index];
        if (member.role != role) continue;
        auto items = at<const DML_TENSOR_DESC*>(desc.Desc, member.offset);
        if (member.kind == OF_TENSOR_DESC) add(items);
        if (member.kind == OF_TENSOR_DESC_ARRAY)
            for (size_t entry = 0; entry < at<UINT>(desc.Desc, member.count); entry++) add(items + entry);
    }
    return found;
}
