"""A driver that ends the process when it is loaded does not affect programs that name the CPU."""
import os
import shutil
import signal
import subprocess
import sys

import pytest

import caffe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
COMPILER = shutil.which('c++') or shutil.which('g++')

NET = '''
layer { name: "in" type: "Input" top: "x" top: "target"
        input_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "target" top: "loss" }
'''
SOLVER = 'net: "%s" base_lr: 0.1 lr_policy: "fixed" max_iter: 3 snapshot_prefix: "%s" '

pytestmark = pytest.mark.skipif(not COMPILER, reason='there is no C++ compiler')


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """A folder with a net, a solver, weights, and OpenCL and CUDA drivers that abort."""
    folder = tmp_path_factory.mktemp('broken')
    source = folder / 'driver.cpp'
    source.write_text('#include <cstdlib>\n'
                      '[[gnu::constructor]] static void Load() { std::abort(); }\n')
    for name in ('libopencl_driver.so', 'libcuda.so.1'):
        subprocess.run([COMPILER, '-shared', '-fPIC', '-o', folder / name, source], check=True)
    vendors = folder / 'vendors'
    vendors.mkdir()
    (vendors / 'broken.icd').write_text('%s\n' % (folder / 'libopencl_driver.so'))
    (folder / 'net.prototxt').write_text(NET)
    solver = SOLVER % (folder / 'net.prototxt', folder / 's')
    (folder / 'solver.prototxt').write_text(solver)
    (folder / 'cpu.prototxt').write_text(solver + 'solver_mode: CPU')
    return folder


def run(place, command, opencl=True, cuda=True):
    environment = dict(os.environ)
    if opencl:
        environment['OCL_ICD_VENDORS'] = str(place / 'vendors')
    if cuda:
        environment['LD_LIBRARY_PATH'] = '%s:%s' % (place, environment.get('LD_LIBRARY_PATH', ''))
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return result.returncode, result.stdout + result.stderr


def python(code):
    return [sys.executable, '-c', 'import sys; sys.path[:0] = %r; import caffe\n%s' % (
        sys.path, code)]


def test_the_drivers_are_broken(place):
    """Without this the other tests would show nothing."""
    code, output = run(place, python('caffe.devices()'), cuda=False)
    if 'clGetPlatformIDs' in output or not code:
        pytest.skip('this build has no OpenCL')
    assert code == -signal.SIGABRT, output
    code, output = run(place, python('caffe.devices()'), opencl=False)
    assert code == -signal.SIGABRT, output


@pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')
@pytest.mark.parametrize('arguments', [
    ['train', '-solver', '{}/solver.prototxt', '-gpu', 'cpu'],
    ['train', '-solver', '{}/solver.prototxt', '-gpu', '-1'],
    ['train', '-solver', '{}/cpu.prototxt'],
    ['time', '-model', '{}/net.prototxt', '-iterations', '2', '-gpu', 'cpu'],
    ['device_query', '--self-test', 'float', '-gpu', 'cpu'],
    ['layers'],
    ['--version'],
])
def test_commands_on_the_cpu_load_no_driver(place, arguments):
    code, output = run(place, [TOOL] + [text.format(place) for text in arguments])
    assert code == 0, output


@pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')
def test_testing_on_the_cpu_loads_no_driver(place):
    code, output = run(place, [TOOL, 'train', '-solver', place / 'cpu.prototxt'])
    assert code == 0, output
    code, output = run(place, [TOOL, 'test', '-model', place / 'net.prototxt', '-weights',
                               place / 's_iter_3.caffemodel', '-iterations', '2', '-gpu', 'cpu'])
    assert code == 0, output


@pytest.mark.parametrize('choice', ['caffe.set_mode_cpu()', "caffe.set_device('cpu')",
                                    'caffe.set_device(-1)'])
def test_python_on_the_cpu_loads_no_driver(place, choice):
    code, output = run(place, python('''
%s
import numpy as np
solver = caffe.SGDSolver(%r)
solver.step(2)
solver.snapshot()
net = caffe.Net(%r, caffe.TEST)
net.forward()
net.save(%r)
net.copy_from(%r)
blob = caffe.Net(%r, caffe.TEST).blobs['x']
blob.reshape(2, 3)
print(caffe.device().name, caffe.layer_type_list()[0], net.blobs['y'].data.sum() is not None)
''' % ((choice, str(place / 'solver.prototxt')) + (str(place / 'net.prototxt'),) +
       (str(place / 'own.caffemodel'),) * 2 + (str(place / 'net.prototxt'),))))
    assert code == 0, output
    assert 'cpu ' in output


def test_importing_loads_no_driver(place):
    code, output = run(place, python('caffe.set_random_seed(1)'))
    assert code == 0, output


@pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')
def test_a_device_of_cuda_needs_no_opencl(place):
    if not any(device.name == 'cuda:0' for device in caffe.devices()):
        pytest.skip('there is no CUDA device')
    for choice in (['-gpu', 'cuda:0'], ['-gpu', '0'], []):
        code, output = run(place, [TOOL, 'time', '-model', place / 'net.prototxt', '-iterations',
                                   '2'] + choice, cuda=False)
        assert code == 0, output
