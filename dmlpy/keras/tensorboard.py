"""`TensorBoard`: a callback that writes the metrics of each epoch for TensorBoard, by the package tensorboardX."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from dmlpy.keras.callbacks import Callback, FilePath, Logs
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


class TensorBoard(Callback):
    """Writes a scalar for each metric and epoch. It needs the package tensorboardX; `CSVLogger` writes the same without it.

    Args:
        log_dir: the folder of the event files.

    Raises:
        DescError: tensorboardX is not installed.
    """

    def __init__(self, log_dir: FilePath = "logs") -> None:
        super().__init__()
        try:
            importlib.import_module("tensorboardX")
        except ImportError:
            remedy = "pip install tensorboardX, or use CSVLogger"
            problem = Problem("callback.package", "tensorboardX", "not installed", "the package", remedy=remedy)
            raise DescError("TensorBoard", [problem]) from None
        self.log_dir = os.fspath(log_dir)
        self._writer: Any = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._writer = importlib.import_module("tensorboardX").SummaryWriter(self.log_dir)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        for name, value in (logs or {}).items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._writer.close()
        self._writer = None

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        return
