"""Cortado's Python face: pycaffe's names, plus data types, quantizer modes and devices."""
import os as _os
import sys as _sys

if _sys.prefix != _sys.base_prefix:
    # The library looks for CUDA's packages there, also when the environment was not activated.
    _os.environ.setdefault('VIRTUAL_ENV', _sys.prefix)

try:
    import google.protobuf as _protobuf  # noqa: F401
    import numpy as _numpy  # noqa: F401
except ModuleNotFoundError as _error:
    _activate = _os.path.join(_os.path.dirname(_os.path.dirname(_os.path.dirname(
        _os.path.abspath(__file__)))), '.venv', 'bin', 'activate')
    if not _os.path.exists(_activate):
        raise
    raise ModuleNotFoundError('%s: this Python has no packages for caffe. They are in .venv; type '
                              '". %s" first' % (_error, _activate), name=_error.name) from None

from ._caffe import *  # noqa: F401,F403  (every public name of the bindings is a public name here)
from ._caffe import __version__  # noqa: F401
from . import blob as _blob  # noqa: F401  (completes the bound class)
from .pycaffe import Net  # noqa: F401  (completes the bound class)
from .proto.caffe_pb2 import TRAIN, TEST  # noqa: F401  (plain ints, as scripts compare them)
from .classifier import Classifier  # noqa: F401
from .detector import Detector  # noqa: F401
from . import bfloat16, io  # noqa: F401
from .net_spec import layers, params, NetSpec, to_proto  # noqa: F401
