"""The package under test is the built tree's python/caffe, or the one that is installed."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if not os.environ.get('CAFFE_TEST_INSTALLED'):
    sys.path.insert(0, os.environ.get('CAFFE_PYTHON_PATH', os.path.join(ROOT, 'python')))
