"""Which memory operators are given."""

from __future__ import annotations

from typing import Any

import pytest

from dmlpy.devices.memory import binding


class Spy:
    """Addresses that arrays had where they were bound, by field; the last one of each."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.pointers: dict[str, int] = {}
        place = binding.bind_tensor

        def spying(device: Any, name: str, *rest: Any, **more: Any) -> Any:
            found = place(device, name, *rest, **more)
            assert found[0] is not None, name
            self.pointers[name] = found[0].pointer
            return found

        patch.setattr(binding, "bind_tensor", spying)
