"""Checks for the packages that `import caffe` needs, with a message that says how to install them.

Imports none of them.
"""
import ctypes
import importlib.util
import os
import sys

_PACKAGES = {'numpy': 'numpy', 'google.protobuf': 'protobuf', 'ml_dtypes': 'ml_dtypes'}


def _is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # the parent package is missing
        return False


def cure(packages, folder):
    """How to install packages: the tree's virtual environment, if it exists, else pip."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(folder)))
    activate = os.path.join(root, '.venv', 'bin', 'activate')
    if os.path.exists(activate) and os.path.realpath(sys.prefix) != os.path.realpath(
            os.path.join(root, '.venv')):
        return 'The packages are in .venv; type ". %s" first' % activate
    if not packages:
        return 'Build it for this Python: tools/build.sh release _caffe'
    return 'Install them: %s -m pip install %s' % (sys.executable or 'python3', ' '.join(packages))


def _check_interpreter():
    """Raises an ImportError in a sub-interpreter, where the compiled half would wait for ever.

    Its threads take Python's lock by PyGILState_Ensure, which knows the main interpreter only.
    """
    python = ctypes.pythonapi
    present, main = python.PyInterpreterState_Get, python.PyInterpreterState_Main
    present.restype = main.restype = ctypes.c_void_p
    if present() != main():
        raise ImportError('caffe cannot be imported in a sub-interpreter, only in the main '
                          'interpreter of a process. With mod_wsgi, set WSGIApplicationGroup '
                          '%{GLOBAL}')


def check(folder):
    """Raises an ImportError that names the packages missing in `folder`, and the cure."""
    _check_interpreter()
    missing = [package for module, package in _PACKAGES.items() if not _is_there(module)]
    if missing:
        raise ImportError('caffe needs %s, which %s does not have. %s'
                          % (' and '.join(missing), sys.executable or 'this Python',
                             cure(missing, folder)))
    if not _is_there('caffe._caffe'):
        built = [name for name in os.listdir(folder)
                 if name.startswith('_caffe.') and not name.endswith('.pyi')]
        raise ImportError('caffe was %s. %s' % (
            'built for another Python (%s), not for %s' % (', '.join(built), sys.version.split()[0])
            if built else 'not built', cure([], folder)))
