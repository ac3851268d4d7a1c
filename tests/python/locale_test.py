"""A locale with a decimal comma changes no file, and caffe can be imported in it."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

COMMA = '''LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
'''

SCRIPT = '''
import locale, os, sys
folder, name = sys.argv[1:]
locale.setlocale(locale.LC_NUMERIC, name)
import numpy as np
import caffe
from caffe import layers as L
from caffe.proto import caffe_pb2
comma = '.' if name == 'C' else ','
assert locale.localeconv()['decimal_point'] == comma  # the import leaves the locale as it was
assert abs(caffe_pb2.SolverParameter().momentum2 - 0.999) < 1e-6
caffe.set_device('cpu')
caffe.set_random_seed(1)
spec = caffe.NetSpec()
spec.data = L.Input(shape=dict(dim=[4, 3, 5, 5]))
spec.conv = L.Convolution(spec.data, num_output=4, kernel_size=3, weight_filler=dict(type='xavier'))
spec.lrn = L.LRN(spec.conv, local_size=3, alpha=0.0125)
spec.score = L.InnerProduct(spec.lrn, num_output=3, weight_filler=dict(type='xavier'))
net = caffe.Net(spec.to_proto(), caffe.TEST)
rng = np.random.default_rng(2)
data = [rng.normal(size=(4, 3, 5, 5)) for _ in range(4)]
caffe.quantize(net, data, out=os.path.join(folder, 'int8'), max_drop=50.5)
net.save(os.path.join(folder, 'float.caffemodel'))
open(os.path.join(folder, 'net.prototxt'), 'w').write(str(spec.to_proto()))
caffe.transform((os.path.join(folder, 'net.prototxt'), os.path.join(folder, 'float.caffemodel')),
                out=os.path.join(folder, 'half'), passes=['round'], type='half')
'''


def test_a_decimal_comma_changes_no_file(tmp_path):
    localedef = shutil.which('localedef')
    if localedef is None:
        pytest.skip('localedef is missing, which makes a locale with a decimal comma')
    (tmp_path / 'source').write_text(COMMA)
    subprocess.run([localedef, '-c', '--no-archive', '-i', tmp_path / 'source',
                    tmp_path / 'comma_locale'], capture_output=True)
    if not (tmp_path / 'comma_locale' / 'LC_NUMERIC').exists():
        pytest.skip('localedef cannot make a locale with a decimal comma')
    runs = {}
    for name in ('C', 'comma_locale'):
        folder = tmp_path / ('files_' + name)
        folder.mkdir()
        paths = os.environ.get('CAFFE_PYTHON_PATH', os.path.join(ROOT, 'python'))
        environment = dict(os.environ, LOCPATH=str(tmp_path), CAFFE_LOG='error')
        if not os.environ.get('CAFFE_TEST_INSTALLED'):
            environment['PYTHONPATH'] = paths
        runs[folder] = subprocess.Popen([sys.executable, '-c', SCRIPT, folder, name],
                                        env=environment, stderr=subprocess.PIPE, text=True)
    for run in runs.values():
        assert run.wait(timeout=60) == 0, run.stderr.read()
        run.stderr.close()
    plain, comma = [{path.name: path.read_bytes() for path in sorted(folder.iterdir())}
                    for folder in runs]
    assert list(plain) == ['float.caffemodel', 'half.caffemodel', 'half.prototxt',
                           'int8.caffemodel', 'int8.html', 'int8.json', 'int8.prototxt',
                           'net.prototxt']
    assert comma == plain
    assert json.loads(comma['int8.json'])['max_drop'] == 50.5
