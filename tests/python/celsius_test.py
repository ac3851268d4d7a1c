"""examples/celsius from beginning to end, in a folder of its own."""
import os
import re
import subprocess
import sys

import pytest

from caffe.proto import caffe_pb2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, 'examples', 'celsius')


def run(script, precision, folder):
    result = subprocess.run([sys.executable, os.path.join(FOLDER, script), precision], cwd=folder,
                            env=dict(os.environ, CAFFE_EXAMPLES_DEVICE='cpu'),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.mark.parametrize('precision, bound', [('float', 5), ('half', 20)])
def test_the_neuron_learns_and_its_ranges_are_kept(tmp_path, precision, bound):
    run('create_networks.py', precision, tmp_path)
    run('train.py', precision, tmp_path)
    output = run('test.py', precision, tmp_path)
    assert float(re.search(r'Average error: ([\d.]+) F', output)[1]) < bound

    net = caffe_pb2.NetParameter.FromString((tmp_path / 'net_trained.caffemodel').read_bytes())
    ranges = {entry.name: (entry.observed_min, entry.observed_max) for entry in net.quantizer}
    # The test temperatures are a random tenth of -273 … 999; fahrenheit is 1.8 c + 32.
    assert -273 <= ranges['celsius'][0] < -100 and 850 < ranges['celsius'][1] <= 999
    assert ranges['output'][0] < -100 and ranges['output'][1] > 1500
