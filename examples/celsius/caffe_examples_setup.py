"""Imports for the scripts of this folder and the thesis' listings 2.1-2.3: `from … import *`.

Finds the package in the built tree unless it is installed, and draws without a window if there is
no display. The nets run on the best device; CAFFE_EXAMPLES_DEVICE selects another one.
"""
import os
import pickle
import pickle as cPickle  # noqa: F401  (the name in Python 2, which older scripts use)
import random
import sys
import warnings

try:
    import caffe
except ImportError:
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                    os.pardir, os.pardir, 'python'))
    import caffe
from caffe import layers as L, params as P, to_proto
import matplotlib
import numpy as np

if sys.platform.startswith('linux') and not (
        os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')):
    matplotlib.use('Agg')
    warnings.filterwarnings('ignore', message='.*non-interactive.*')
import matplotlib.pyplot as plt  # noqa: E402

if os.environ.get('CAFFE_EXAMPLES_DEVICE'):
    caffe.set_device(os.environ['CAFFE_EXAMPLES_DEVICE'])

__all__ = ['L', 'P', 'cPickle', 'caffe', 'np', 'os', 'pickle', 'plt', 'random', 'sys', 'to_proto']
