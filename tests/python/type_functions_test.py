"""Functions of users' types: caffe.register_function."""
import gzip
import os
import subprocess
import sys

import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2

DATA = os.environ.get('CAFFE_TEST_DATA', '')
# Posits of 8 bits without exponent bits, whose sigmoid is nearly a shift of the code.
FAST = 'posit_value((code ^ 128u) >> 2, 8, 0)'


def devices():
    return ['cpu'] + [device.name for device in caffe.devices() if device.name != 'cpu'][:1]


@pytest.fixture(autouse=True)
def on_the_cpu():
    caffe.set_device('cpu')
    yield
    caffe.set_device('cpu')


def posit(name):
    """A type of its own for each test, because functions stay until the process ends."""
    caffe.register_type(name, 8, 'posit_value(code, 8, 0)', 'posit_code(v, 8, 0)')
    return name


def values_of(name):
    """What every code stands for."""
    net = caffe.Net(caffe_pb2.NetParameter(data_type_name=name, layer=[caffe_pb2.LayerParameter(
        name='x', type='Input', top=['x'], input_param=dict(shape=[dict(dim=[256])]))]), caffe.TEST)
    net.blobs['x'].data[...] = np.arange(256)
    return net.blobs['x'].float_data.copy()


def net_of(name, **more):
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[2, 3, 8, 16]))
    net.conv = L.Convolution(net.x, num_output=4, kernel_size=3, weight_filler=dict(type='xavier'),
                             **more)
    net.s = L.Sigmoid(net.conv)
    net.relu = L.ReLU(net.s)
    net.ip = L.InnerProduct(net.relu, num_output=5, weight_filler=dict(type='xavier'))
    proto = net.to_proto()
    proto.data_type_name = name
    return proto


@pytest.mark.parametrize('device', devices())
@pytest.mark.parametrize('bits', [8, 10])
def test_every_code_of_a_text_and_of_a_function(device, bits):
    caffe.set_device(device)
    name = 'functions_%s_%d' % (device.replace(':', '_'), bits)
    caffe.register_type(name, bits, 'small_float_value(code, 4, %d, 1)' % (bits - 5),
                        'small_float_code(v, 4, %d, 1)' % (bits - 5))
    caffe.register_function(name, 'AbsVal', 'if (v < 0.0f) return -v; return v == v ? v : 0.0f;')
    caffe.register_function(name, 'TanH', lambda v, code: max(-1, min(1, v)) if v == v else code)
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[1 << bits]))
    net.a, net.t = L.AbsVal(net.x), L.TanH(net.x)
    proto = net.to_proto()
    proto.data_type_name = name
    net = caffe.Net(proto, caffe.TEST)
    net.blobs['x'].data[...] = np.arange(1 << bits)
    net.forward()
    v = net.blobs['x'].float_data.copy()
    assert np.isnan(v).any()
    a, t = net.blobs['a'].float_data.copy(), net.blobs['t'].float_data.copy()
    net.blobs['x'].float_data = np.where(np.isnan(v), 0, np.abs(v))
    assert np.array_equal(a, net.blobs['x'].float_data)
    net.blobs['x'].float_data = np.where(np.isnan(v), np.arange(1 << bits), np.clip(v, -1, 1))
    assert np.array_equal(t, net.blobs['x'].float_data)


@pytest.mark.parametrize('device', devices())
def test_a_function_stays_alone_in_a_net(device):
    """Neither the convolution before it nor the ReLU behind it computes it, and no edge does."""
    caffe.set_device(device)
    name = posit('functions_net_' + device.replace(':', '_'))
    values = values_of(name)
    caffe.register_function(name, 'Sigmoid', FAST)
    own = values[(np.arange(256) ^ 128) >> 2]
    for more in (dict(), dict(compute_data_type_name='float', top_data_type_name='float')):
        net = caffe.Net(net_of(name, **more), caffe.TEST)
        assert not any('conv' in step.layers and 's' in step.layers for step in net.plan)
        for blob in ('conv', 's'):
            net.keep(blob)
        net.forward(x=np.random.RandomState(3).normal(size=(2, 3, 8, 16)))
        conv, s = net.blobs['conv'].float_data.copy(), net.blobs['s'].float_data.copy()
        assert net.blobs['conv'].data.dtype == (np.float32 if more else np.uint8)
        net.blobs['s'].float_data = conv
        assert np.array_equal(s, own[np.asarray(net.blobs['s'].data, int)])
        assert 0 < np.abs(s - 1 / (1 + np.exp(-conv))).max() < 0.1


def test_the_gradient_is_that_of_the_exact_function():
    name = posit('functions_gradient')
    caffe.register_function(name, 'Sigmoid', FAST)
    proto = net_of(name)
    proto.force_backward = True
    net = caffe.Net(proto, caffe.TRAIN)
    net.forward(x=np.random.RandomState(3).normal(size=(2, 3, 8, 16)))
    net.blobs['ip'].float_diff = 1
    net.backward()
    s, ds = net.blobs['s'].float_data, net.blobs['s'].float_diff
    net.blobs['ip'].reshape(*s.shape)
    net.blobs['ip'].float_data = ds * s * (1 - s)
    assert np.abs(ds).max() > 0
    assert np.array_equal(net.blobs['conv'].float_diff, net.blobs['ip'].float_data)


def test_errors():
    name = posit('functions_errors')
    caffe.register_type('functions_wide', 24, 'small_float_value(code, 8, 15, 1)',
                        'small_float_code(v, 8, 15, 1)')

    def refuse(message, *arguments, error=RuntimeError):
        with pytest.raises(error, match=message):
            caffe.register_function(*arguments)

    refuse("unknown data type 'nothing'", 'nothing', 'Sigmoid', 'v')
    refuse("'half' is not a type of a user", 'half', 'Sigmoid', 'v')
    refuse("'functions_wide' has 24 bits.*at most 16 bits", 'functions_wide', 'Sigmoid', 'v')
    refuse('for AbsVal, BNLL, Sigmoid, TanH, not for ELU', name, 'ELU', 'v')
    refuse(r'functions_errors.Sigmoid:1:(.|\n)*w', name, 'Sigmoid', 'v + w')
    refuse('functions_errors.Sigmoid(.|\n)*return', name, 'Sigmoid', 'if (v > 0.0f) return v;')
    refuse('a text in C, or a function', name, 'Sigmoid', 3, error=TypeError)
    refuse('division by zero', name, 'Sigmoid', lambda v, code: 1 / 0, error=ZeroDivisionError)
    caffe.register_function(name, 'Sigmoid', FAST)
    caffe.register_function(name, 'Sigmoid', FAST)
    refuse("'functions_errors' has another Sigmoid; functions of types cannot be changed", name,
           'Sigmoid', 'v')


def test_without_a_compiler_a_device_computes_the_text():
    if not caffe.devices()[:-1]:
        pytest.skip('no device but the CPU')
    script = '''
import caffe
caffe.register_function('fp8_e4m3', 'Sigmoid', 'v > 0.0f ? 1.0f : 0.0f')
try:
    caffe.register_function('fp8_e4m3', 'TanH', 'if (code != 77u) return v;')
except RuntimeError as error:
    print(error)
'''
    environment = dict(os.environ, CAFFE_CACHE='off', CAFFE_CXX='no-such-compiler',
                       CAFFE_LOG='warning', PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
    result = subprocess.run([sys.executable, '-c', script], env=environment, text=True,
                            capture_output=True)
    assert result.returncode == 0, result.stderr
    assert 'fp8_e4m3.TanH does not return a value on each path: none for the code 77' in result.stdout


def mnist(kind, count):
    def read(name, skip):
        path = os.path.join(DATA, 'mnist', name)
        data = (gzip.open(path + '.gz') if os.path.exists(path + '.gz') else open(path, 'rb')).read()
        return np.frombuffer(data, np.uint8, offset=skip)
    images = read(kind + '-images-idx3-ubyte', 16)[:count * 784].reshape(count, 1, 28, 28) / 256
    return images, read(kind + '-labels-idx1-ubyte', 8)[:count]


def lenet(name, batch):
    """LeNet with sigmoids."""
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[batch, 1, 28, 28]))
    net.label = L.Input(shape=dict(dim=[batch]))
    net.conv1 = L.Convolution(net.x, num_output=8, kernel_size=5, stride=2,
                              weight_filler=dict(type='xavier'))
    net.s1 = L.Sigmoid(net.conv1)
    net.ip1 = L.InnerProduct(net.s1, num_output=60, weight_filler=dict(type='xavier'))
    net.s2 = L.Sigmoid(net.ip1)
    net.ip2 = L.InnerProduct(net.s2, num_output=10, weight_filler=dict(type='xavier'))
    net.loss = L.SoftmaxWithLoss(net.ip2, net.label)
    proto = net.to_proto()
    proto.data_type_name = name
    return proto


@pytest.mark.skipif(not DATA, reason='CAFFE_TEST_DATA is not set')
def test_digits_by_the_shift_of_posits(tmp_path):
    images, labels = mnist('train', 4000)
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=lenet('float', 100), type='Adam', base_lr=0.003, lr_policy='fixed', random_seed=1))
    for step in range(320):
        at = step % 40 * 100
        solver.net.blobs['x'].data[...] = images[at:at + 100]
        solver.net.blobs['label'].data[...] = labels[at:at + 100]
        solver.step(1)
    weights = str(tmp_path / 'digits.caffemodel')
    solver.net.save(weights)
    images, labels = mnist('t10k', 1000)

    def right(name, device):
        caffe.set_device(device)
        net = caffe.Net(lenet(name, 1000), caffe.TEST, weights=weights)
        net.forward(x=images, label=labels)
        return int((net.blobs['ip2'].float_data.argmax(axis=1) == labels).sum())

    fast, exact = posit('digits_fast'), posit('digits_exact')
    caffe.register_function(fast, 'Sigmoid', FAST)
    counts = {(name, device): right(name, device) for name in ('float', exact, fast)
              for device in devices()}
    assert counts['float', 'cpu'] > 900
    for device in devices():
        assert counts[exact, device] > counts['float', 'cpu'] - 40
        assert counts[fast, device] > counts['float', 'cpu'] - 60
        assert abs(counts[fast, device] - counts[fast, 'cpu']) <= 5
