"""Refuses arguments that a layer does not have, and names Thinc's for those of torch.nn."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

MakeT = TypeVar("MakeT", bound="Callable[..., Any]")

_REMEDIES = {
    "input_size": "Thinc calls it nI",
    "hidden_size": "Thinc has nO, the width of the output: hidden_size, or twice that with bi=True",
    "num_layers": "Thinc calls it depth",
    "bidirectional": "Thinc calls it bi",
    "nonlinearity": "here it is activation",
    "batch_first": "leave it out: arrays are [steps, batch, width], and lists of [steps, width] have no such order",
    "bias": "leave it out: layers have biases, and init_b gives their initial values",
    "proj_size": "leave it out: these layers have no projection; dmlpy.torch.LSTM has one",
    "device": "leave it out: model.ops decides, such as that of thinc.api.prefer_gpu()",
    "dtype": "leave it out: Thinc's weights are float32",
}
"""Remedies for the arguments of torch.nn's layers."""


def refuses_other_names(make: MakeT) -> MakeT:
    """Makes a layer's function raise DescError for arguments that it does not have; its signature stays, which configs are checked by."""
    known = tuple(signature(make).parameters)

    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        unknown = [name for name in kwargs if name not in known]
        if unknown:
            expected = f"one of {', '.join(known)}"
            problems = [
                Problem("field.unknown", name, "not an argument of this layer", expected, (), _remedy(name, known)) for name in unknown
            ]
            raise DescError(f"dmlpy.thinc.{make.__name__}", problems)
        return make(*args, **kwargs)

    return cast("MakeT", made)


def _remedy(name: str, known: tuple[str, ...]) -> str | None:
    if name == "nonlinearity" and "activation" not in known:
        return "leave it out: only RNN has a choice of activations"
    return _REMEDIES.get(name) or did_you_mean(name, known)
