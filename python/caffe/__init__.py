"""Cortado's Python interface: pycaffe's names, plus data types, quantizer modes and devices.

    net = caffe.Net('deploy.prototxt', weights='w.caffemodel')
    scores = net.forward(data=x)['prob']

Net, Classifier and Detector run nets; get_solver and the solvers train them; NetSpec, layers and
params write prototxt; io prepares images; set_device, devices and set_mode_gpu choose devices.
"""
import os as _os
import sys as _sys

from . import cuda_packages as _cuda_packages, openmp_waiting as _openmp_waiting
from . import requirements as _requirements

_requirements.check(_os.path.dirname(_os.path.abspath(__file__)))

if _sys.prefix != _sys.base_prefix:
    # The library searches this folder for CUDA's packages, even if the environment is not
    # activated.
    _os.environ.setdefault('VIRTUAL_ENV', _sys.prefix)

_cuda_packages.set_environment()

with _openmp_waiting.bounded():
    from . import _caffe, calls as _calls

_calls.clear_all(_caffe)

from ._caffe import *  # noqa: E402,F401,F403  (every public name of the bindings is one here)
from ._caffe import __version__  # noqa: E402,F401
from . import blob as _blob, reprs as _reprs  # noqa: E402,F401  (complete the bound classes)
from .pycaffe import Net  # noqa: E402,F401
from .proto.caffe_pb2 import TRAIN, TEST  # noqa: E402,F401  (plain ints, as scripts compare them)
from .classifier import Classifier  # noqa: E402,F401
from .detector import Detector  # noqa: E402,F401
from .weight_tools import (  # noqa: E402,F401
    find_chains, register_pass, register_rewrite, remove_copy, transform)
from .calibration import quantize  # noqa: E402,F401
from . import bfloat16, io  # noqa: E402,F401
from .net_spec import layers, params, NetSpec, to_proto  # noqa: E402,F401
