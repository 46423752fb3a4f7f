"""Fast Fourier transforms, of products with small matrices and of factors between them."""

from __future__ import annotations

from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlpy import x

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_SHORT = 128
"""The most samples that one matrix transforms where a longer transform divides into such."""
_LARGEST_PRIME = 1024
"""The largest prime factor that has a matrix: a convolution takes less time for a larger one."""
_LARGEST_MATRIX = 1 << 22
"""The most samples times results that have a matrix: for both parts of both, its elements take 64 MiB."""
_SAVED = 165
"""The products, for each sample and part, in whose time the results of shorter transforms are multiplied and reordered, on a CPU."""

_PARTS = 2
"""The constants that complex numbers become."""


class FourierTransform(NamedTuple):
    """Discrete Fourier transforms of the rows of [rows, samples].

    A length N = N1 · N2 takes N2 transforms of every N2nd sample, products with exp(-2πi · k1 · n2 / N), and N1 transforms of these
    (Cooley and Tukey 1965). A long prime length becomes a convolution with a chirp, by transforms of a length that has factors (Bluestein
    1970). The real and the imaginary parts are tensors of their own, so that none has to be taken out of another one.

    Args:
        node: the node that the matrices are constants of.
        inverse: whether the angles are positive, and the results divided by the length.
    """

    node: Node
    inverse: bool

    def parts(self, signal: Sequence[Expression], length: int, bins: int, targets: int = 2) -> list[Expression]:
        """The transform's real and imaginary parts, [rows, bins].

        Args:
            signal: its real parts, and its imaginary ones unless all are 0, [rows, samples]. Samples that the length lacks are 0.
            length: the length of the transform.
            bins: how many results are needed, from the first one on.
            targets: 1 if the real parts alone are needed.
        """
        first = _factor(length)
        rows, samples = signal[0].sizes
        if first == length:
            if length > _LARGEST_PRIME:
                return self._convolved(signal, length, bins, targets)
            return _products_of_parts(signal, self._matrix(length, samples, bins), lambda part, matrix: part @ matrix, targets)
        self.node.reserve_elements(_PARTS, length)
        second = length // first
        used, needed = -(-samples // second), -(-bins // first)
        columns = [_resized(part, used * second).reshape(rows, used, second) for part in signal]
        products = _products_of_parts(columns, self._matrix(first, used, first), lambda part, matrix: matrix.transpose(1, 0) @ part)
        twiddles = self._waves(length, np.outer(np.arange(first), np.arange(second)))
        turned = self._multiplied(products, f"twiddles {first} {second}", twiddles)
        found = self.parts([part.reshape(rows * first, second) for part in turned], second, needed, targets)
        ordered = [part.reshape(rows, first, needed).transpose(0, 2, 1).reshape(rows, needed * first) for part in found]
        return [_resized(part, bins) for part in ordered]

    def _convolved(self, signal: Sequence[Expression], length: int, bins: int, targets: int) -> list[Expression]:
        """The same for any length: n · k is (n² + k² - (k - n)²) / 2, so the signal times a chirp is convolved with the opposite chirp."""
        samples = signal[0].sizes[1]
        circle = 1 << (samples + bins - 2).bit_length()
        self.node.reserve_elements(_PARTS, circle)
        chirp = self._waves(2 * length, np.arange(max(samples, bins)) ** 2)
        response = np.zeros(circle, np.complex128)
        response[:bins] = chirp[:bins].conj()
        response[circle - samples + 1 :] = chirp[1:samples][::-1].conj()
        label = f"chirp {length} {samples} {bins}"
        turned = self._multiplied(signal, f"{label} in", chirp[:samples])
        spectra = self._replace(inverse=False).parts(turned, circle, circle)
        products = self._multiplied(spectra, f"{label} spectrum", np.fft.fft(response))
        found = self._replace(inverse=True).parts(products, circle, bins)
        return self._multiplied(found, f"{label} out", chirp[:bins] / (length if self.inverse else 1), targets)

    def _waves(self, length: int, turns: Array) -> Array:
        """exp(-2πi · turns / length). Turns are taken modulo the length, since the angle of a large product would lose digits."""
        sign = 1 if self.inverse else -1
        return np.asarray(np.exp(sign * 2j * np.pi * np.arange(length) / length)[turns % length])

    def _matrix(self, length: int, samples: int, bins: int) -> list[Expression]:
        """The parts of the matrix [samples, bins] of a transform."""
        self.node.reserve_elements(_PARTS, samples, bins)
        waves = self._waves(length, np.outer(np.arange(samples), np.arange(bins))) / (length if self.inverse else 1)
        return self._constants(f"matrix {length} {samples} {bins}", waves)

    def _multiplied(self, signal: Sequence[Expression], label: str, factors: Array, targets: int = 2) -> list[Expression]:
        """The parts of the signal times complex factors, which are broadcast over the rows."""
        constants = [part.broadcast(*signal[0].sizes) for part in self._constants(label, factors[None])]
        return _products_of_parts(signal, constants, x.multiply, targets)

    def _constants(self, label: str, numbers: Array) -> list[Expression]:
        """The real and imaginary parts of complex numbers."""
        named = {"real": numbers.real, "imaginary": numbers.imag}
        return [self.node.constant(f"{label}{' inverse' if self.inverse else ''} {name}", part) for name, part in named.items()]


def is_faster(samples: int, length: int, bins: int) -> bool:
    """Whether shorter transforms take less time than a product with the matrix of one, [samples, bins]."""
    if samples * bins > _LARGEST_MATRIX:
        return True
    products = samples * bins / length
    if _factor(length) == length:
        return products > _LARGEST_PRIME
    return products * (1 - 2 * _products(length) / length) > _SAVED


def _products(length: int) -> int:
    """The products for each sample and part that shorter transforms take."""
    first = _factor(length)
    return min(length, _LARGEST_PRIME) if first == length else first + _products(length // first)


def _factor(length: int) -> int:
    """The largest factor that is at most the length's square root; the length itself if it has none, or is short."""
    if length <= _SHORT:
        return length
    return next((factor for factor in range(min(isqrt(length), _SHORT), 1, -1) if length % factor == 0), length)


def _products_of_parts(
    signal: Sequence[Expression],
    factors: Sequence[Expression],
    multiply: Callable[[Expression, Expression], Expression],
    targets: int = 2,
) -> list[Expression]:
    """The real and, unless `targets` is 1, the imaginary parts of products of complex numbers; a signal of one part is real."""
    real, imaginary = factors
    if len(signal) == 1:
        return [multiply(signal[0], factor) for factor in factors[:targets]]
    products = [multiply(signal[0], real) - multiply(signal[1], imaginary)]
    if targets > 1:
        products.append(multiply(signal[0], imaginary) + multiply(signal[1], real))
    return products


def _resized(part: Expression, samples: int) -> Expression:
    """The first samples of each row, with zeros behind them."""
    rows, given = part.sizes
    if given < samples:
        return x.padding1(part, padding_value=0.0, start_padding=[0, 0], end_padding=[0, samples - given])
    return part if given == samples else part.slice([0, 0], [rows, samples])
