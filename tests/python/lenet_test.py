"""LeNet on MNIST through the example, with Caffe's published settings but fewer iterations."""
import os
import re
import subprocess
import sys

import pytest

import caffe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(os.environ.get('CAFFE_TEST_DATA', ''), 'mnist')

pytestmark = pytest.mark.skipif(not os.environ.get('CAFFE_TEST_DATA') or not os.path.isdir(DATA),
                                reason='CAFFE_TEST_DATA names no folder with mnist/')


def accuracy(folder, device, iterations, data_type='float'):
    run = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'examples', 'mnist', 'train_lenet.py'), '--data', DATA,
         '--device', device, '--type', data_type, '--iterations', str(iterations),
         '--output', str(folder / 'lenet')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    return float(re.search(r'test accuracy ([0-9.]+)', run.stdout).group(1))


def test_a_thousand_iterations_on_opencl(tmp_path):
    devices = [device.name for device in caffe.devices() if device.name.startswith('opencl')]
    if not devices:
        pytest.skip('there is no OpenCL device')
    assert accuracy(tmp_path, devices[-1], 1000) >= 0.97


def test_a_thousand_iterations_on_the_cpu(tmp_path):
    assert accuracy(tmp_path, 'cpu', 1000) >= 0.97


def test_half_blobs_with_float_masters(tmp_path):
    assert accuracy(tmp_path, 'cpu', 300, 'half') >= 0.94
