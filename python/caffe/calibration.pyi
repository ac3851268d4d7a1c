"""Types of caffe.quantize and its steps; tests/python/stubs_test.py compares them with the module."""
from os import PathLike
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

import numpy
from google.protobuf.message import Message
from numpy.typing import ArrayLike, NDArray

from .proto.caffe_pb2 import NetParameter
from .pycaffe import Net

_Path = Union[str, PathLike[str]]
_Source = Union[Net, tuple[Union[_Path, Message], Union[_Path, Sequence[_Path]]]]
_Data = Union[ArrayLike, Mapping[str, ArrayLike]]
_Batches = Iterable[Union[_Data, tuple[_Data, Optional[ArrayLike]]]]
_Range = tuple[float, float]

TYPES: tuple[str, ...]
ROUNDINGS: tuple[str, ...]


class FloatNet:
    inputs: list[str]
    scores: Optional[str]
    def __init__(self, handle: Any) -> None: ...


class Observed:
    net: FloatNet
    batches: Sequence[Any]
    items: int
    ranges: dict[str, _Range]
    histograms: dict[str, tuple[NDArray[numpy.int64], NDArray[numpy.float64]]]
    def __init__(self, handle: Any, net: FloatNet, batches: Sequence[Any]) -> None: ...


class Ranges(dict[str, _Range]):
    observed: Observed
    type: str
    method: str
    def __init__(self, chosen: Mapping[str, tuple[float, float, str]], observed: Observed,
                 type: str, method: str) -> None: ...
    @property
    def methods(self) -> dict[str, str]: ...


class Weights:
    observed: Observed
    type: str
    gains: dict[str, float]
    corrected_biases: int
    def __init__(self, handle: Any, observed: Observed, type: str) -> None: ...


class TypedNet:
    ranges: Ranges
    float_weights: Weights
    def __init__(self, handle: Any, ranges: Ranges, weights: Weights) -> None: ...
    @property
    def model(self) -> NetParameter: ...
    @property
    def weights(self) -> NetParameter: ...


class Accuracy:
    typed: TypedNet
    items: int
    positions: int
    labels: int
    agreement: Optional[float]
    top1: Optional[float]
    float_top1: Optional[float]
    snr: dict[str, float]
    def __init__(self, handle: Any, typed: TypedNet) -> None: ...


def quantize(net: _Source, batches: Optional[_Batches] = None, type: str = 'int8',
             method: str = 'auto', out: Optional[_Path] = None, calibrate: Optional[int] = None,
             held_out: Optional[int] = None, max_drop: Optional[float] = None,
             percentile: float = 99.99, ranges: Optional[dict[str, _Range]] = None,
             bias_correction: bool = False, equalize: bool = False, float_scores: bool = True,
             rounding: str = 'nearest', tune_ranges: bool = False, scores: Optional[str] = None,
             python_layers: bool = True, scales: str = 'any') -> dict[str, Any]: ...
def float_net(net: _Source, scores: Optional[str] = None,
              python_layers: bool = True) -> FloatNet: ...
def observe(net: FloatNet, batches: _Batches) -> Observed: ...
def ranges(observed: Observed, type: str = 'int8', method: str = 'auto',
           percentile: float = 99.99) -> Ranges: ...
def weights(observed: Observed, type: str = 'int8', rounding: str = 'nearest',
            bias_correction: bool = False) -> Weights: ...
def typed_net(ranges: Ranges, weights: Weights, float_scores: bool = True) -> TypedNet: ...
def accuracy(typed: TypedNet, batches: _Batches) -> Accuracy: ...
def report(accuracy: Accuracy, out: Optional[_Path] = None) -> dict[str, Any]: ...
