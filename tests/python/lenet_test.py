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


def train(folder, device, iterations, data_type='float', more=(), **environment):
    run = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'examples', 'mnist', 'train_lenet.py'), '--data', DATA,
         '--device', device, '--type', data_type, '--iterations', str(iterations),
         '--output', str(folder / 'lenet'), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=dict(os.environ, **environment))
    assert run.returncode == 0, run.stdout[-2000:]
    return run.stdout


def accuracy(folder, device, iterations, data_type='float', **environment):
    output = train(folder, device, iterations, data_type, more=['--no-table'], **environment)
    return float(re.search(r'test accuracy ([0-9.]+)', output).group(1))


def test_integers_lose_next_to_nothing(tmp_path):
    output = train(tmp_path, 'cpu', 2000)
    points = {name: float(re.search(r'^%s +([0-9.]+)%%' % name, output, re.MULTILINE)[1])
              for name in ('float', 'half', 'int16', 'int8')}
    assert points['float'] > 98 and points['half'] > 98
    assert abs(points['int16'] - points['float']) <= 0.02
    assert abs(points['int8'] - points['float']) <= 0.1


def test_a_training_on_opencl(tmp_path):
    devices = [device.name for device in caffe.devices() if device.name.startswith('opencl')]
    if not devices:
        pytest.skip('there is no OpenCL device')
    # On PoCL CLBlast takes half the time of our own products, once it is compiled.
    assert accuracy(tmp_path, devices[-1], 150, CAFFE_LIBRARY='gemm=clblast') >= 0.9


def test_half_blobs_with_float_masters(tmp_path):
    assert accuracy(tmp_path, 'cpu', 300, 'half') >= 0.94


def test_the_simple_net_of_the_thesis(tmp_path):
    run = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'examples', 'mnist', 'simple.py'), '--data', DATA,
         '--device', 'cpu', '--iterations', '2000', '--images', '500', '--output', str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout[-2000:]
    rows = {name: [float(number) for number in numbers] for name, *numbers in
            re.findall(r'^(\w+) +([0-9.]+)% +([0-9.]+)%$', run.stdout, re.MULTILINE)}
    assert [row[1] for row in rows.values()] == [85.26, 85.30, 85.27, 85.36]  # table 4.7
    assert rows['float'][0] > 60
    for name, points in (('half', 0.5), ('int16', 0.5), ('int8', 3)):
        assert abs(rows[name][0] - rows['float'][0]) <= points, name
