"""celsius/caffe_examples_setup.py, for scripts of this folder."""
import os
import runpy

_setup = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, 'celsius',
                                     'caffe_examples_setup.py'))
__all__ = _setup['__all__']
globals().update({name: _setup[name] for name in __all__})
