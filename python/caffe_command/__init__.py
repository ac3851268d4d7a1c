"""The command `caffe` of an installed package: starts the binary that lies inside it.

A separate package, so that the command starts without loading NumPy and the bindings.
"""
import importlib.util
import os
import sys


def main():
    package = importlib.util.find_spec('caffe').submodule_search_locations[0]
    binary = os.path.join(package, 'bin', 'caffe')
    if sys.prefix != sys.base_prefix:
        os.environ.setdefault('VIRTUAL_ENV', sys.prefix)  # has CUDA's packages
    try:
        os.execv(binary, ['caffe', *sys.argv[1:]])
    except OSError as error:
        sys.exit('caffe: %s: %s' % (binary, error.strerror))
