"""Optimizers: the updates of weights by their gradients.

Weights and moments are updated in place. An optimizer also holds two scratch arrays, each as large as the largest weight, so no update
after the first one allocates.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

from dmlpy.description.coercion import brief
from dmlpy.description.flags import check_flags
from dmlpy.messages.naming import class_remedy, did_you_mean, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.keras.backend import Array, Backend
    from dmlpy.keras.layer import Weight


class Optimizer(ABC):
    """The base of all optimizers.

    Args:
        lr: the learning rate.
        decay: the learning rate of update i, from 0 on, is lr / (1 + decay * i).
        clipnorm: the largest global norm of the gradients; larger ones are scaled down to it. None: no limit.
        clipvalue: the largest magnitude of each gradient's entries. None: no limit.

    Attributes:
        iterations: updates so far.
        weight_decay: the share of a weight, times the rate, that an update of AdamW takes off.

    The other attributes are the constructor's arguments; `lr` may be changed between updates.

    Raises:
        DescError: arguments out of range.
    """

    weight_decay: float = 0.0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of lr {self.lr:g} after {plural(self.iterations, 'update')}>"

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        if "learning_rate" in kwargs and "learning_rate" not in signature(cls).parameters:
            expected = f"one of {', '.join(signature(cls).parameters)}"
            problem = Problem("field.unknown", "learning_rate", "not an argument", expected, remedy="Keras 1 calls it lr")
            raise DescError(cls.__name__, [problem])
        return super().__new__(cls)

    def __init__(self, lr: float, decay: float, clipnorm: float | None, clipvalue: float | None, **betas: float) -> None:
        self.lr = lr
        self.decay = decay
        self.clipnorm = clipnorm
        self.clipvalue = clipvalue
        self.iterations = 0
        self._moments: list[tuple[Array, ...]] = []
        self._scratch: tuple[Array, Array] | None = None
        self._shapes: list[tuple[int, ...]] = []
        problems = [
            Problem("optimizer.range", name, brief(value), "a finite number, 0 or larger")
            for name, value in {"lr": lr, "decay": decay, "weight_decay": self.weight_decay}.items()
            if not isinstance(value, Real) or not 0 <= value < math.inf
        ]
        problems += [
            Problem("optimizer.range", name, brief(value), "a number above 0, or None")
            for name, value in {"clipnorm": clipnorm, "clipvalue": clipvalue}.items()
            if value is not None and (not isinstance(value, Real) or not value > 0)
        ]
        problems += [
            Problem("optimizer.range", name, brief(value), "a number of at least 0 and less than 1")
            for name, value in betas.items()
            if not isinstance(value, Real) or not 0 <= value < 1
        ]
        if problems:
            raise DescError(type(self).__name__, problems)

    @abstractmethod
    def moments(self) -> int:
        """The number of moment arrays per weight."""

    @abstractmethod
    def step(self, weight: Array, gradient: Array, moments: tuple[Array, ...], work: Array, rate: float, xp: Any) -> None:
        """Updates a weight and its moments. `work` is like the weight; the gradient may be overwritten; `rate` is the decayed lr."""

    def reset(self) -> None:
        """Clears the moments and restarts the count of updates."""
        self.iterations, self._moments, self._scratch = 0, [], None

    def moment_arrays(self) -> Sequence[tuple[Array, ...]]:
        """The moments of each weight, in the device's memory; none before the first update."""
        return self._moments

    def restore(
        self, iterations: int, lr: float, moments: Sequence[tuple[Array, ...]], weights: Sequence[Weight], backend: Backend
    ) -> None:
        """Restores an earlier state.

        Args:
            iterations: updates so far.
            lr: the learning rate.
            moments: as `moment_arrays` returned them.
            weights: the weights that they belong to.
            backend: the device of all arrays.
        """
        self.reset()
        self.iterations, self.lr = iterations, lr
        if iterations:
            self._begin(list(moments), weights, backend.xp)

    def _begin(self, moments: list[tuple[Array, ...]], weights: Sequence[Weight], xp: Any) -> None:
        self._shapes = [weight.value.shape for weight in weights]
        self._moments = moments
        largest = max((weight.value.size for weight in weights), default=0)
        self._scratch = xp.empty(largest, xp.float32), xp.empty(largest, xp.float32)

    def update(self, weights: Sequence[Weight], backend: Backend) -> None:
        """Makes one update of all weights, which must be the same in each call. Their gradients are not modified.

        Raises:
            DescError: the moments are those of another model's weights.
        """
        xp = backend.xp
        shapes = [weight.value.shape for weight in weights]
        if self._scratch is not None and shapes != self._shapes:
            remedy = "create a separate optimizer for each model"
            raise DescError(
                type(self).__name__, [Problem("optimizer.weights", "weights", f"of the shapes {shapes}", f"{self._shapes}", remedy=remedy)]
            )
        if self._scratch is None:
            self._begin([tuple(xp.zeros_like(weight.value) for _ in range(self.moments())) for weight in weights], weights, xp)
        assert self._scratch is not None
        rate = self.lr / (1 + self.decay * self.iterations)
        self.iterations += 1
        gradient_memory, work_memory = self._scratch
        shrink = self._shrink([weight.gradient for weight in weights], work_memory, xp)
        for weight, moments in zip(weights, self._moments, strict=True):
            gradient, work = (memory[: weight.value.size].reshape(weight.value.shape) for memory in (gradient_memory, work_memory))
            xp.multiply(weight.gradient, shrink, out=gradient)
            if self.clipvalue is not None:
                xp.clip(gradient, -self.clipvalue, self.clipvalue, out=gradient)
            self.step(weight.value, gradient, moments, work, rate, xp)

    def _shrink(self, gradients: Sequence[Array], memory: Array, xp: Any) -> float:
        """The factor that scales the gradients' norm down to `clipnorm`."""
        if self.clipnorm is None:
            return 1.0
        squares = []
        for gradient in gradients:
            work = memory[: gradient.size].reshape(gradient.shape)
            xp.multiply(gradient, gradient, out=work)
            squares.append(float(work.sum()))
        norm = math.sqrt(sum(squares))
        return self.clipnorm / norm if norm >= self.clipnorm else 1.0


class SGD(Optimizer):
    """Gradient descent: w += v for v = momentum * v - lr * g; with `nesterov`, w += momentum * v - lr * g.

    Args:
        lr: the learning rate.
        momentum: the fraction of the last step that is added.
        decay: the learning rate of update i, from 0 on, is lr / (1 + decay * i).
        nesterov: whether the step looks ahead along the momentum.
        clipnorm: the largest norm of all gradients together; None: no limit.
        clipvalue: the largest magnitude of each gradient's entries; None: no limit.

    Raises:
        DescError: arguments out of range.
    """

    @check_flags
    def __init__(
        self,
        lr: float = 0.01,
        momentum: float = 0.0,
        decay: float = 0.0,
        nesterov: bool = False,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
    ) -> None:
        super().__init__(lr, decay, clipnorm, clipvalue, momentum=momentum)
        self.momentum = momentum
        self.nesterov = nesterov

    def moments(self) -> int:
        return 1 if self.momentum else 0

    def step(self, weight: Array, gradient: Array, moments: tuple[Array, ...], work: Array, rate: float, xp: Any) -> None:
        gradient *= rate
        if not moments:
            weight -= gradient
            return
        (velocity,) = moments
        velocity *= self.momentum
        velocity -= gradient
        if not self.nesterov:
            weight += velocity
            return
        weight -= gradient
        weight += xp.multiply(velocity, self.momentum, out=work)


class Adam(Optimizer):
    """The update of DML_ADAM_OPTIMIZER.

    With T = 1, 2, ... and a = sqrt(1 - beta_2^T) / (1 - beta_1^T),

        M = beta_1 * M + (1 - beta_1) * g,   V = beta_2 * V + (1 - beta_2) * g^2,   w -= lr * a * M / (sqrt(V) + epsilon).

    Args:
        lr: the learning rate.
        beta_1: the decay rate of the first moment.
        beta_2: the decay rate of the second moment.
        epsilon: added to the square root of the second moment.
        decay: the learning rate of update i, from 0 on, is lr / (1 + decay * i).
        clipnorm: the largest norm of all gradients together; None: no limit.
        clipvalue: the largest magnitude of each gradient's entries; None: no limit.

    Raises:
        DescError: arguments out of range.
    """

    def __init__(
        self,
        lr: float = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        decay: float = 0.0,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
    ) -> None:
        super().__init__(lr, decay, clipnorm, clipvalue, beta_1=beta_1, beta_2=beta_2)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def moments(self) -> int:
        return 2

    def step(self, weight: Array, gradient: Array, moments: tuple[Array, ...], work: Array, rate: float, xp: Any) -> None:
        first, second = moments
        first *= self.beta_1
        first += xp.multiply(gradient, 1 - self.beta_1, out=work)
        second *= self.beta_2
        gradient *= gradient
        gradient *= 1 - self.beta_2
        second += gradient
        correction = math.sqrt(1 - self.beta_2**self.iterations) / (1 - self.beta_1**self.iterations)
        xp.sqrt(second, out=work)
        work += self.epsilon
        xp.divide(first, work, out=work)
        work *= rate * correction
        weight -= work


class AdamW(Adam):
    """Adam with decoupled weight decay: every update first makes w smaller by lr * weight_decay * w.

    Args:
        lr: the learning rate.
        weight_decay: the share of a weight, times the rate, that an update takes off.
        beta_1: the decay rate of the first moment.
        beta_2: the decay rate of the second moment.
        epsilon: added to the square root of the second moment.
        decay: the learning rate of update i, from 0 on, is lr / (1 + decay * i).
        clipnorm: the largest norm of all gradients together; None: no limit.
        clipvalue: the largest magnitude of each gradient's entries; None: no limit.

    Raises:
        DescError: arguments out of range.
    """

    def __init__(
        self,
        lr: float = 0.001,
        weight_decay: float = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        decay: float = 0.0,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
    ) -> None:
        self.weight_decay = weight_decay  # before the base checks all arguments together
        super().__init__(lr, beta_1, beta_2, epsilon, decay, clipnorm, clipvalue)

    def step(self, weight: Array, gradient: Array, moments: tuple[Array, ...], work: Array, rate: float, xp: Any) -> None:
        weight -= xp.multiply(weight, rate * self.weight_decay, out=work)
        super().step(weight, gradient, moments, work, rate, xp)


class RMSprop(Optimizer):
    """Divides each gradient by a running root of its mean square: V = rho * V + (1 - rho) * g^2, w -= lr * g / sqrt(V + epsilon).

    Args:
        lr: the learning rate.
        rho: the decay rate of the mean square.
        epsilon: added to the mean square.
        decay: the learning rate of update i, from 0 on, is lr / (1 + decay * i).
        clipnorm: the largest norm of all gradients together; None: no limit.
        clipvalue: the largest magnitude of each gradient's entries; None: no limit.

    Raises:
        DescError: arguments out of range.
    """

    def __init__(
        self,
        lr: float = 0.001,
        rho: float = 0.9,
        epsilon: float = 1e-7,
        decay: float = 0.0,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
    ) -> None:
        super().__init__(lr, decay, clipnorm, clipvalue, rho=rho)
        self.rho = rho
        self.epsilon = epsilon

    def moments(self) -> int:
        return 1

    def step(self, weight: Array, gradient: Array, moments: tuple[Array, ...], work: Array, rate: float, xp: Any) -> None:
        (square,) = moments
        square *= self.rho
        xp.multiply(gradient, gradient, out=work)
        work *= 1 - self.rho
        square += work
        xp.add(square, self.epsilon, out=work)
        xp.sqrt(work, out=work)
        xp.divide(gradient, work, out=work)
        work *= rate
        weight -= work


OPTIMIZERS: Mapping[str, Callable[[], Optimizer]] = {"sgd": SGD, "adam": Adam, "adamw": AdamW, "rmsprop": RMSprop}


def optimizer(value: Optimizer | str) -> Optimizer:
    """Returns the given optimizer, or a new one by name (`sgd`, `adam`, `adamw`, `rmsprop`) with Keras's defaults.

    Raises:
        DescError: the name is unknown.
    """
    if isinstance(value, Optimizer):
        return value
    kind = OPTIMIZERS.get(value.lower()) if isinstance(value, str) else None
    if kind is None:
        expected = f"an optimizer, or one of {', '.join(OPTIMIZERS)}"
        remedy = class_remedy(value, Optimizer) or did_you_mean(value, OPTIMIZERS)
        raise DescError("optimizer", [Problem("optimizer.unknown", "", brief(value), expected, remedy=remedy)])
    return kind()
