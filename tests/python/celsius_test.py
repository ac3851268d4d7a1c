"""examples/celsius from beginning to end, in a folder of its own."""
import os
import re
import subprocess
import sys

import pytest

import caffe
from caffe.proto import caffe_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, 'examples', 'celsius')


# The scripts shuffle: with the same numbers in every run the bounds below mean something.
SEEDED = """
import random, runpy, sys
sys.path[:0] = [%r, %r]
import numpy
import caffe
random.seed(1)
numpy.random.seed(1)
caffe.set_random_seed(1)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
""" % (FOLDER, os.path.join(ROOT, 'python'))


def run(script, precision, folder):
    command = [sys.executable, '-c', SEEDED, os.path.join(FOLDER, script)]
    command += [precision] if precision else []
    result = subprocess.run(command, cwd=folder,
                            env=dict(os.environ, CAFFE_EXAMPLES_DEVICE='cpu'),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
    return result.stdout


def average_error(output, precision):
    return float(re.search(r'^%s +([\d.]+) F' % precision, output, re.MULTILINE)[1])


@pytest.mark.parametrize('precision, bound', [('float', 2), ('half', 20)])
def test_the_neuron_learns_and_its_ranges_are_kept(tmp_path, precision, bound):
    run('create_networks.py', precision, tmp_path)
    run('train.py', precision, tmp_path)
    assert average_error(run('test.py', precision, tmp_path), precision) < bound

    net = caffe_pb2.NetParameter.FromString((tmp_path / 'net_trained.caffemodel').read_bytes())
    ranges = {entry.name: (entry.observed_min, entry.observed_max) for entry in net.quantizer}
    # Fahrenheit is 1.8 c + 32.
    assert ranges['celsius'] == (-273, 999)
    assert ranges['output'] == pytest.approx((-459.4, 1830.2), abs=4 * bound)


def trained(folder):
    """A caffemodel of a neuron that is right, with its ranges observed in float."""
    caffe.set_device('cpu')
    float_net = caffe.Net(str(folder / 'net_float.prototxt'), caffe.TEST)
    float_net.params['neuron'][0].data[...] = 1.8
    float_net.params['neuron'][1].data[...] = 32
    float_net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    for c in (-273, 0, 999):
        float_net.blobs['celsius'].data[0] = c
        float_net.forward()
    float_net.save(str(folder / 'net_trained.caffemodel'))


@pytest.mark.parametrize('how', ['learned', 'given'])
def test_every_precision_of_one_model(tmp_path, how):
    run('create_networks.py', 'float', tmp_path)
    if how == 'learned':
        run('train.py', 'float', tmp_path)
    else:
        trained(tmp_path)
    output = run('test.py', '', tmp_path)
    errors = {name: average_error(output, name) for name in ('float', 'half', 'int16', 'int8')}
    assert errors['float'] < (1 if how == 'learned' else 0.001)
    assert errors['int16'] < errors['float'] + 0.1
    assert 1 < errors['int8'] <= 5
    for number in ('2.518', '2.265', '2.423', '6.936'):  # the thesis' table 4.6
        assert number in output


def test_an_integer_net_without_ranges_says_how_to_get_them(tmp_path):
    run('create_networks.py', 'float', tmp_path)
    caffe.set_device('cpu')
    net = caffe.Net(str(tmp_path / 'net_int8.prototxt'), caffe.TEST)
    with pytest.raises(RuntimeError, match='blob celsius .*CAFFE_QUANT_OBSERVE'):
        net.forward()
