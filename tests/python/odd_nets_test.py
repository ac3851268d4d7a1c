"""Nets that are odd, or that come from others: without layers, with layers in Python, out of memory."""
import os
import subprocess
import sys

import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2

# For processes that import the package under test.
ENVIRONMENT = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
INPUT = "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } } "
OWN = ("layer { name: 'own' type: 'Python' bottom: 'x' top: 'y' %s"
       " python_param { module: 'no_module_of_this_name' layer: 'Own' } }")
REFUSED = r"own \(Python\): runs class 'Own' of module 'no_module_of_this_name', but layers in Python"


def net_of(text):
    return text_format.Parse(text, caffe_pb2.NetParameter())


@pytest.mark.parametrize('phase', [caffe.TRAIN, caffe.TEST])
def test_a_net_without_layers_runs(phase):
    net = caffe.Net(net_of("name: 'empty'"), phase)
    assert net.forward() == {} and net.backward() == {} and net.forward() == {}
    assert net.memory['total'] == 0 and net.plan == []


def test_out_of_memory_is_a_memory_error_and_a_runtime_error():
    text = ("layer { name: 'dummy' type: 'DummyData' top: 'huge'"
            " dummy_data_param { shape { dim: 1048576 dim: 1048576 } } }")
    for kind in (caffe.OutOfMemory, MemoryError, RuntimeError):
        with pytest.raises(kind, match='the net needs 4398046511104 bytes'):
            caffe.Net(net_of(text), caffe.TEST).forward()
    assert caffe.OutOfMemory.__mro__[1:3] == (RuntimeError, MemoryError)


LIMITED = '''
import resource, sys
import caffe

with open('/proc/self/statm') as statm:
    bytes = int(statm.read().split()[0]) * 4096 + (int(sys.argv[2]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))
try:
    caffe.Net(sys.argv[1], caffe.TEST)
except caffe.OutOfMemory as error:
    assert sys.argv[1] in str(error) or 'the net' in str(error) or '(Input)' in str(error), error
    sys.exit(7)
'''


# The file is read, parsed and made a net of: each size stops at another of them.
@pytest.mark.parametrize('size', [8, 30, 60, 100])
def test_missing_memory_is_always_an_out_of_memory_with_a_name(tmp_path, size):
    path = tmp_path / 'long_names.prototxt'
    path.write_text(''.join("layer { name: '%s' type: 'Input' top: 'x%d' }\n" % ('n' * (8 << 20), i)
                            for i in range(4)))
    done = subprocess.run([sys.executable, '-c', LIMITED, str(path), str(size)],
                          env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 7, done.stderr


def refusals(tmp_path, text):
    """Calls that read the net from a file or take a message, without layers in Python."""
    path, solver = tmp_path / 'net.prototxt', tmp_path / 'solver.prototxt'
    path.write_text(text)
    solver.write_text("net: '%s' base_lr: 0.1 lr_policy: 'fixed'" % path)
    missing, message, off = str(tmp_path / 'none.caffemodel'), net_of(text), dict(python_layers=False)
    settings = caffe_pb2.SolverParameter(net_param=message, base_lr=0.1, lr_policy='fixed')
    return {
        'file': lambda: caffe.Net(str(path), caffe.TEST, **off),
        'message': lambda: caffe.Net(message, caffe.TEST, **off),
        'train': lambda: caffe.Net(message, caffe.TRAIN, **off),
        'get_solver': lambda: caffe.get_solver(str(solver), **off),
        'get_solver_from_file': lambda: caffe.get_solver_from_file(str(solver), **off),
        'solver': lambda: caffe.SGDSolver(str(solver), **off),
        'solver of a message': lambda: caffe.AdamSolver(settings, **off),
        'Classifier': lambda: caffe.Classifier(str(path), missing, **off),
        'Detector': lambda: caffe.Detector(str(path), missing, **off),
        'transform': lambda: caffe.transform((str(path), missing), **off),
        'quantize': lambda: caffe.quantize((str(path), missing), [], **off),
        'quantize a message': lambda: caffe.quantize((message, missing), [], **off),
    }


MIXTURE = INPUT + """
layer { name: 'moe' type: 'MOE' bottom: 'x' top: 'z' moe_param {
  gating_net { %s layer { name: 'g' type: 'InnerProduct' bottom: 'x' top: 'g'
                          inner_product_param { num_output: 1 } } }
  expert_net { %s } } }"""


@pytest.mark.parametrize('text', [
    INPUT + OWN % '', MIXTURE % (INPUT, INPUT + OWN % ''), MIXTURE % (INPUT + OWN % '', INPUT)],
    ids=['net', 'expert', 'gate'])
def test_python_layers_are_refused_before_a_module_is_imported(tmp_path, text):
    for name, call in refusals(tmp_path, text).items():
        with pytest.raises(RuntimeError, match=REFUSED):
            call()
            pytest.fail(name)


def test_python_layers_that_the_phase_leaves_out_are_not_refused():
    net = net_of(INPUT + OWN % 'include { phase: TRAIN }')
    assert caffe.Net(net, caffe.TEST, python_layers=False).outputs == ['x']
    with pytest.raises(RuntimeError, match=REFUSED):
        caffe.Net(net, caffe.TRAIN, python_layers=False)


def test_python_layers_are_on_by_default():
    with pytest.raises(ModuleNotFoundError, match='no_module_of_this_name'):
        caffe.Net(net_of(INPUT + OWN % ''), caffe.TEST)


@pytest.mark.parametrize('first', ['', 'import caffe'])
def test_a_sub_interpreter_gets_an_import_error(first):
    pytest.importorskip('_xxsubinterpreters', exc_type=ImportError)
    script = '''
%s
import _xxsubinterpreters as interpreters
try:
    interpreters.run_string(interpreters.create(), 'import sys; sys.path[:] = %%r; import caffe' %% PATH)
except interpreters.RunFailedError as error:
    print(error)
''' % first
    path = [os.path.dirname(os.path.dirname(caffe.__file__))] + sys.path
    done = subprocess.run([sys.executable, '-c', 'PATH = %r%s' % (path, script)], timeout=60,
                          env=ENVIRONMENT, capture_output=True, text=True)
    assert 'caffe cannot be imported in a sub-interpreter' in done.stdout, done.stderr
