"""`check_feature_support`: the two queries of IDMLDevice::CheckFeatureSupport, answered for a DirectML of any feature level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from dmlpy.description.coercion import Bool, Spelled, SpelledType, brief, entries, has_entries, read_by
from dmlpy.description.enums import Feature, FeatureLevel
from dmlpy.description.structs import Struct
from dmlpy.description.value_structs import ValueStruct
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import with_article
from dmlpy.messages.problems import DescError, DmlError, Problem
from dmlpy.validation.checking import LATEST, parse_level


class FeatureQueryTensorDataTypeSupport(ValueStruct):
    """DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT."""

    c_name: ClassVar[str] = "DML_FEATURE_QUERY_TENSOR_DATA_TYPE_SUPPORT"

    data_type: SpelledType
    """The element type in question."""


class FeatureDataTensorDataTypeSupport(ValueStruct):
    """DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT."""

    c_name: ClassVar[str] = "DML_FEATURE_DATA_TENSOR_DATA_TYPE_SUPPORT"

    is_supported: Bool
    """Whether the level has the type at all. An operator may still refuse it."""


def _as_levels(value: Any) -> tuple[FeatureLevel, ...]:
    if not has_entries(value):
        raise ValueError("a sequence of feature levels")
    return tuple(FeatureLevel.parse(item) for item in entries(value))


if TYPE_CHECKING:
    from dmlpy.description.coercion import Member

    _Levels = Member[tuple[FeatureLevel, ...], Iterable[FeatureLevel | str | int]]
else:
    _Levels = Annotated[tuple[FeatureLevel, ...], read_by(_as_levels)]


class FeatureQueryFeatureLevels(ValueStruct):
    """DML_FEATURE_QUERY_FEATURE_LEVELS."""

    c_name: ClassVar[str] = "DML_FEATURE_QUERY_FEATURE_LEVELS"
    c_counts: ClassVar[Mapping[str, str | tuple[str, ...]]] = {"RequestedFeatureLevelCount": "requested_feature_levels"}

    requested_feature_levels: _Levels
    """The levels that the caller can use, at least one."""


class FeatureDataFeatureLevels(ValueStruct):
    """DML_FEATURE_DATA_FEATURE_LEVELS."""

    c_name: ClassVar[str] = "DML_FEATURE_DATA_FEATURE_LEVELS"

    max_supported_feature_level: Spelled[FeatureLevel]
    """The highest of the requested levels that the device has."""


_QUERIES: Mapping[Feature, type[Struct]] = {
    Feature.TENSOR_DATA_TYPE_SUPPORT: FeatureQueryTensorDataTypeSupport,
    Feature.FEATURE_LEVELS: FeatureQueryFeatureLevels,
}


def check_feature_support(
    feature: Feature | str | int, query: Struct | Mapping[str, Any], feature_level: FeatureLevel | str | int = LATEST
) -> FeatureDataTensorDataTypeSupport | FeatureDataFeatureLevels:
    """Answers as a DirectML would that supports nothing above a feature level.

    Args:
        feature: the feature in question.
        query: the feature's query struct, or its members as a mapping.
        feature_level: the highest level of the DirectML that is asked.

    Returns:
        The feature's data struct.

    Raises:
        DmlError: there is no such feature, at that level (`hresult` DXGI_ERROR_UNSUPPORTED), or none of the requested levels is there
            (E_INVALIDARG; DirectML's documentation leaves it open).
        DescError: the query is not the feature's, or there is no such level.
    """
    level = parse_level(feature_level)
    try:
        parsed = Feature.parse(feature)
    except ValueError as error:
        raise DmlError(f"feature is {brief(feature)}, {error}", hresult=HResult.DXGI_ERROR_UNSUPPORTED) from None
    kind = _QUERIES[parsed]
    query = kind.from_dict(query) if isinstance(query, Mapping) else query
    if not isinstance(query, kind):
        raise DescError("check_feature_support", [Problem("field.form", "query", brief(query), with_article(kind.__name__))])
    if isinstance(query, FeatureQueryTensorDataTypeSupport):
        return FeatureDataTensorDataTypeSupport(is_supported=(since := query.data_type.introduced) is not None and since <= level)
    assert isinstance(query, FeatureQueryFeatureLevels)
    if level < FeatureLevel.FL_2_0:
        text = f"feature is FEATURE_LEVELS, which feature level 2_0 brought: DirectML at {level} does not know the question"
        raise DmlError(text, hresult=HResult.DXGI_ERROR_UNSUPPORTED)
    supported = [item for item in query.requested_feature_levels if item <= level]
    if not supported:
        requested = ", ".join(map(str, query.requested_feature_levels)) or "empty"
        problem = Problem("level.requested", "requested_feature_levels", requested, f"a level up to {level} among them")
        raise DescError(FeatureQueryFeatureLevels.c_name, [problem])
    return FeatureDataFeatureLevels(max_supported_feature_level=max(supported))
