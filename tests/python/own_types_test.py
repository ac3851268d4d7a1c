"""Types of users: registration, blobs, files, and whole nets in fp8."""
import gzip
import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2
from nets import TEST, write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get('CAFFE_TEST_DATA', '')
READY = ('fp8_e4m3', 'fp8_e5m2', 'posit8', 'float10')
WIDE = 'python_float24'


@pytest.fixture(scope='module', autouse=True)
def wide_type():
    """A float without its lowest 8 bits."""
    caffe.register_type(WIDE, 24, 'small_float_value(code, 8, 15, 1)',
                        'small_float_code(v, 8, 15, 1)')


def cut(values):
    """What numbers become in it."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7f + (bits >> 8 & 1)) >> 8 << 8
    return bits.astype(np.uint32).view(np.float32)


def values_of(name):
    """What every code of a type stands for."""
    net = input_net(name, 1 << 10 if name == 'float10' else 256)
    net.blobs['data'].data[...] = np.arange(net.blobs['data'].count)
    with np.errstate(invalid='ignore'):
        return net.blobs['data'].float_data.astype(float)


def input_net(name, count=4):
    net = caffe_pb2.NetParameter(data_type_name=name)
    layer = net.layer.add(name='data', type='Input', top=['data'])
    layer.input_param.shape.add(dim=[count])
    net.layer.add(name='y', type='Sigmoid', bottom=['data'], top=['y'])
    return caffe.Net(net, TEST)


def devices():
    return ['cpu'] + [device.name for device in caffe.devices()][-1:]


@pytest.fixture(autouse=True)
def on_the_cpu():
    caffe.set_device('cpu')


@pytest.mark.parametrize('name', READY)
def test_every_value_comes_back(name):
    values = values_of(name)
    net = input_net(name, values.size)
    net.blobs['data'].float_data = values
    np.testing.assert_array_equal(net.blobs['data'].float_data, values.astype(np.float32))
    finite = np.isfinite(values)
    assert (net.blobs['data'].data[finite] == np.arange(values.size)[finite]).all()


def test_fp8_is_that_of_ml_dtypes():
    ml_dtypes = pytest.importorskip('ml_dtypes')
    for name, other in (('fp8_e4m3', ml_dtypes.float8_e4m3fn), ('fp8_e5m2', ml_dtypes.float8_e5m2)):
        codes = np.arange(256, dtype=np.uint8)
        np.testing.assert_array_equal(values_of(name), codes.view(other).astype(float))
        numbers = np.random.RandomState(0).normal(scale=30, size=5000).astype(np.float32)
        net = input_net(name, numbers.size)
        net.blobs['data'].float_data = numbers
        np.testing.assert_array_equal(np.asarray(net.blobs['data'].data),
                                      numbers.astype(other).view(np.uint8))


def test_numbers_and_codes():
    net = input_net('fp8_e4m3')
    blob = net.blobs['data']
    assert blob.data.dtype == np.uint8 and blob.data_type == caffe.data_type.CAFFE_CUSTOM
    out = net.forward(data=np.array([0, 1, -2, 1000]))  # integers are numbers
    np.testing.assert_array_equal(blob.float_data, [0, 1, -2, 448])
    np.testing.assert_array_equal(out['y'], [0.5, 0.75, 0.1171875, 1])
    assert out['y'].dtype == np.float32
    assert net.forward(codes=True)['y'].dtype == np.uint8
    blob.data[...] = 0x38
    np.testing.assert_array_equal(blob.float_data, 1)
    with pytest.raises(TypeError, match=r'convert floats'):
        blob.data[...] = 0.5


def test_wide_types_have_codes_of_four_bytes():
    numbers = np.random.RandomState(0).normal(size=1000).astype(np.float32)
    net = input_net(WIDE, numbers.size)
    blob = net.blobs['data']
    out = net.forward(data=numbers)
    assert blob.data.dtype == np.uint32
    np.testing.assert_array_equal(blob.float_data, cut(numbers))
    np.testing.assert_array_equal(np.asarray(blob.data), cut(numbers).view(np.uint32) >> 8)
    np.testing.assert_allclose(out['y'], 1 / (1 + np.exp(-cut(numbers))), rtol=2 ** -15)
    np.testing.assert_array_equal(out['y'], cut(out['y']))
    blob.data[...] = 0x3f8000
    np.testing.assert_array_equal(blob.float_data, 1)
    with pytest.raises(ValueError, match='integers from 0 to 4294967295'):
        blob.data[...] = -1


def test_fixed_point_of_32_bits():
    caffe.register_type(
        'python_fixed32', 32, '(float)(i32)code * 1.52587890625e-5f',
        'const float s = v * 65536.0f + (v < 0.0f ? -0.5f : 0.5f);'
        'return s >= 2147483648.0f ? 0x7fffffffu : s <= -2147483648.0f ? 0x80000000u'
        ' : v == v ? (u32)(i32)s : 0u;')
    net = input_net('python_fixed32')
    net.forward(data=np.array([0.1, -1.5, 1e9, -1e9]))
    np.testing.assert_array_equal(np.asarray(net.blobs['data'].data),
                                  [6554, 2 ** 32 - 98304, 2 ** 31 - 1, 2 ** 31])
    np.testing.assert_array_equal(net.blobs['data'].float_data, [6554 / 65536, -1.5, 32768, -32768])


def test_a_type_of_functions():
    def to_float(code):
        return (code - 256 if code > 127 else code) / 16
    caffe.register_type('python_fixed8', 8, to_float)
    caffe.register_type('python_fixed8', 8, to_float)  # the same again
    net = input_net('python_fixed8')
    net.forward(data=np.array([1 / 32, 3 / 32, -100, 1.3]))
    np.testing.assert_array_equal(net.blobs['data'].float_data, [0, 0.125, -8, 1.3125])
    caffe.register_type('python_floor', 4, float, lambda v: int(min(15, v)) if v > 0 else 0)
    net = input_net('python_floor')
    net.forward(data=np.array([0.9, 3.99, 20, -5]))
    np.testing.assert_array_equal(net.blobs['data'].float_data, [0, 3, 15, 0])


def test_errors():
    to, code = '(float)code', 'v > 1.0f ? 1u : 0u'
    with pytest.raises(RuntimeError, match="'fp8_e4m3' exists and is another type"):
        caffe.register_type('fp8_e4m3', 8, to, code)
    for name in ('int8', 'int16', 'quant8', 'float'):
        with pytest.raises(RuntimeError, match="'?%s'?" % name):
            caffe.register_type(name, 8, to, code)
    with pytest.raises(RuntimeError, match='2 to 32 bits, not 33'):
        caffe.register_type('python_bad', 33, to, code)
    with pytest.raises(RuntimeError, match='at most 16 bits, not 24; give to_float and from_float '
                                           'as texts in C'):
        caffe.register_type('python_bad', 24, float)
    with pytest.raises(RuntimeError, match=r'(?s)do not compile by .*python_bad.from_float:1'):
        caffe.register_type('python_bad', 8, to, 'round(v')
    with pytest.raises(RuntimeError, match='the code 200 for'):
        caffe.register_type('python_bad', 4, to, '200u')
    with pytest.raises(ZeroDivisionError):
        caffe.register_type('python_bad', 8, lambda c: 1 / c)
    with pytest.raises(TypeError, match='two texts, or two functions'):
        caffe.register_type('python_bad', 8, to, abs)
    with pytest.raises(TypeError, match="from_float's code is 0.5"):
        caffe.register_type('python_bad', 8, float, lambda v: 0.5)
    with pytest.raises(RuntimeError, match="'python_bad'.*does not return a value on each path"):
        caffe.register_type('python_bad', 8, to, 'if (v > 3.0f) return 1u;')
    with pytest.raises(RuntimeError, match="'python_bad'.*code 2 is 2, for which from_float gives the "
                                           "code 1, which is 1"):
        caffe.register_type('python_bad', 8, float, lambda v: int(v > 0))
    with pytest.raises(RuntimeError, match="unknown data type 'python_bad'.*caffe.register_type"):
        input_net('python_bad')


def test_fields_of_a_net_may_name_types():
    net = caffe_pb2.NetParameter(data_type=caffe_pb2.CAFFE_HALF, data_type_name='posit8')
    net.layer.add(name='data', type='Input', top=['data']).input_param.shape.add(dim=[2])
    with pytest.raises(RuntimeError, match="is CAFFE_HALF, but data_type_name is 'posit8'"):
        caffe.Net(net, TEST)
    net.ClearField('data_type_name')
    net.data_type = caffe_pb2.CAFFE_CUSTOM
    with pytest.raises(RuntimeError, match='CAFFE_CUSTOM needs data_type_name'):
        caffe.Net(net, TEST)
    net.data_type_name = 'half'
    with pytest.raises(RuntimeError, match='set one of them'):
        caffe.Net(net, TEST)
    net.ClearField('data_type')
    assert caffe.Net(net, TEST).blobs['data'].data.dtype == np.float16


def convolution_net(**types):
    net = caffe.NetSpec()
    net.data = caffe.layers.Input(shape=dict(dim=[2, 3, 8, 8]))
    net.conv = caffe.layers.Convolution(
        net.data, num_output=24, kernel_size=3, pad=1, bias_term=False,
        weight_filler=dict(type='xavier'), **types)
    net.pool = caffe.layers.Pooling(net.conv, pool=caffe.params.Pooling.MAX, kernel_size=2,
                                    stride=2)
    net.ip = caffe.layers.InnerProduct(net.pool, num_output=30, weight_filler=dict(type='xavier'))
    return net.to_proto()


def test_weights_in_files(tmp_path):
    proto = convolution_net()
    net = caffe.Net(proto, TEST)
    net.save(str(tmp_path / 'float.caffemodel'))
    path = write(tmp_path, proto)
    caffe.transform((path, str(tmp_path / 'float.caffemodel')), passes='round', type='fp8_e4m3',
                    out=str(tmp_path / 'small'))
    model = caffe_pb2.NetParameter.FromString((tmp_path / 'small.caffemodel').read_bytes())
    (blob,) = [layer.blobs[0] for layer in model.layer if layer.name == 'ip']
    assert blob.data_type == caffe_pb2.CAFFE_CUSTOM and blob.data_type_name == 'fp8_e4m3'
    assert len(blob.packed_data) == net.params['ip'][0].count and not blob.data
    weights = caffe.io.blobproto_to_array(blob)
    exact = net.params['ip'][0].data
    assert 0 < abs(weights - exact).max() <= abs(exact).max() / 16
    for name in ('float', 'half', 'posit8'):
        proto.data_type_name = name
        loaded = caffe.Net(proto, TEST, weights=str(tmp_path / 'small.caffemodel'))
        np.testing.assert_array_equal(loaded.params['ip'][0].data, weights)
    for layer in model.layer:
        for blob in layer.blobs:
            if blob.HasField('data_type_name'):
                blob.data_type_name = 'python_unknown'
    (tmp_path / 'unknown.caffemodel').write_bytes(model.SerializeToString())
    with pytest.raises(RuntimeError, match="'python_unknown'.*caffe.register_type"):
        caffe.Net(proto, TEST, weights=str(tmp_path / 'unknown.caffemodel'))


def test_wide_weights_in_files(tmp_path):
    """Four bytes for each weight, whatever the number of bits."""
    proto = convolution_net()
    net = caffe.Net(proto, TEST)
    exact = {name: net.params[name][0].data.copy() for name in ('conv', 'ip')}
    net.save(str(tmp_path / 'float.caffemodel'))
    path = write(tmp_path, proto)
    caffe.transform((path, str(tmp_path / 'float.caffemodel')), passes='round', type=WIDE,
                    out=str(tmp_path / 'cut'))
    model = caffe_pb2.NetParameter.FromString((tmp_path / 'cut.caffemodel').read_bytes())
    (blob,) = [layer.blobs[0] for layer in model.layer if layer.name == 'ip']
    assert blob.data_type_name == WIDE and len(blob.packed_data) == 4 * exact['ip'].size
    np.testing.assert_array_equal(caffe.io.blobproto_to_array(blob), cut(exact['ip']))
    data = np.random.RandomState(4).normal(size=(2, 3, 8, 8))
    tops = {}
    for name in ('float', WIDE):
        proto.data_type_name = name
        loaded = caffe.Net(proto, TEST, weights=str(tmp_path / 'cut.caffemodel'))
        tops[name] = loaded.forward(data=data)['ip']
        assert np.abs(tops[name]).max() > 0.1
        # The net in the type keeps the codes of the file, and saves them again.
        loaded.save(str(tmp_path / 'again.caffemodel'))
        again = caffe.Net(convolution_net(), TEST, weights=str(tmp_path / 'again.caffemodel'))
        loaded.save_hdf5(str(tmp_path / 'again.h5'))
        other = caffe.Net(convolution_net(), TEST)
        other.load_hdf5(str(tmp_path / 'again.h5'))
        for layer, weights in exact.items():
            for one in (loaded, again, other):
                np.testing.assert_array_equal(one.params[layer][0].data, cut(weights))
    np.testing.assert_allclose(tops[WIDE], tops['float'], atol=1e-3)


def log_of(script):
    run = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True,
                         env=dict(os.environ, CAFFE_LOG='info',
                                  PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__))))
    assert run.returncode == 0, run.stderr
    return run.stderr


def test_casts_are_counted(tmp_path):
    """A convolution stores float itself; the pooling would need no cast either."""
    proto = convolution_net(compute_data_type_name='fp8_e4m3', top_data_type_name='float',
                            bottom_data_type_name='fp8_e4m3')
    path = write(tmp_path, proto)
    log = log_of('import caffe; caffe.set_device("cpu"); caffe.Net(%r, caffe.TEST)' % path)
    assert re.search(r'Casts between types: 1; 1 more are loads and stores of other layers', log)


@pytest.mark.parametrize('name', ['fp8_e4m3', WIDE])
@pytest.mark.parametrize('device', devices())
def test_edges_of_layers(device, name):
    """A convolution stores float sums, and a TanH loads float and stores the type."""
    caffe.set_device(device)
    proto = convolution_net(compute_data_type_name=name, top_data_type_name='float')
    proto.layer[0].top_data_type_name = name
    proto.layer.add(name='t', type='TanH', bottom=['conv'], top=['t'], top_data_type_name=name)
    caffe.set_random_seed(5)
    net = caffe.Net(proto, TEST)
    net.forward(data=np.random.RandomState(2).normal(size=(2, 3, 8, 8)))
    data, found = net.blobs['data'].float_data, net.blobs['conv'].data
    assert found.dtype == np.float32
    weights = net.params['conv'][0].data.copy()

    wide = caffe.Net(convolution_net(), TEST)
    codes = caffe.Net(caffe_pb2.NetParameter(data_type_name=name, layer=[
        caffe_pb2.LayerParameter(name='w', type='Input', top=['w'], input_param=dict(
            shape=[dict(dim=weights.shape)]))]), TEST)
    codes.blobs['w'].float_data = weights
    wide.params['conv'][0].data[...] = codes.blobs['w'].float_data
    wide.forward(data=data)
    np.testing.assert_allclose(found, wide.blobs['conv'].data, atol=1e-5)
    expected = np.tanh(found)
    assert net.blobs['t'].data.dtype == (np.uint32 if name == WIDE else np.uint8)
    step = 2 ** -15 if name == WIDE else 1 / 16
    assert (np.abs(net.blobs['t'].float_data - expected)
            <= np.abs(expected) * step + (1e-6 if name == WIDE else 2 ** -9)).all()


class Doubling(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        assert bottom[0].data.dtype == np.float32
        top[0].data[...] = 2 * bottom[0].data


def test_layers_in_python_read_numbers():
    net = caffe_pb2.NetParameter(data_type_name='fp8_e4m3')
    net.layer.add(name='data', type='Input', top=['data']).input_param.shape.add(dim=[3])
    layer = net.layer.add(name='twice', type='Python', bottom=['data'], top=['twice'])
    layer.python_param.module, layer.python_param.layer = __name__, 'Doubling'
    net.layer.add(name='y', type='ReLU', bottom=['twice'], top=['y'])
    net = caffe.Net(net, TEST)
    np.testing.assert_array_equal(net.forward(data=np.array([-1, 1.1, 3]))['y'], [0, 2.25, 6])
    assert net.blobs['y']._type_name == 'fp8_e4m3'


@pytest.mark.parametrize('name', ['fp8_e5m2', 'float10', WIDE])
def test_training(name, tmp_path):
    """Blobs and their gradients have the type, parameters are float."""
    proto = convolution_net()
    proto.data_type_name = name
    proto.layer.add(name='label', type='Input', top=['label']).input_param.shape.add(dim=[2])
    proto.layer.add(name='loss', type='SoftmaxWithLoss', bottom=['ip', 'label'], top=['loss'])
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=proto, base_lr=0.02, lr_policy='fixed', max_iter=80, random_seed=1,
        snapshot_after_train=False, display=1000))
    net = solver.net
    net.blobs['data'].float_data = np.random.RandomState(0).normal(size=(2, 3, 8, 8))
    net.blobs['label'].data[...] = [3, 17]
    first = solver.step(1)
    assert net.params['ip'][0].data.dtype == np.float32
    words = {'fp8_e5m2': np.uint8, 'float10': np.uint16, WIDE: np.uint32}
    assert net.blobs['conv'].diff.dtype == words[name]
    # The first updates are left out, until the loss scale is low enough for finite gradients.
    last = solver.step(79)
    diff = net.blobs['conv'].float_diff
    assert np.isfinite(diff).all() and np.abs(diff).max() > 0
    assert first > 2 and last < first / 4


@pytest.mark.skipif(not os.path.isdir(os.path.join(DATA, 'squeezenet')) or
                    not os.path.isdir(os.path.join(DATA, 'imagenet-sample')),
                    reason='CAFFE_TEST_DATA names no folder with squeezenet/ and imagenet-sample/')
@pytest.mark.parametrize('name', ['fp8_e4m3', WIDE])
@pytest.mark.parametrize('device', devices())
def test_squeezenet(device, name):
    """For fp8, images and biases are scaled, which scales all activations, so that they are below
    448."""
    scale = 1 / 16 if name == 'fp8_e4m3' else 1
    spec = importlib.util.spec_from_file_location(
        'evaluate', os.path.join(ROOT, 'examples', 'squeezenet', 'evaluate.py'))
    evaluate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(evaluate)
    from google.protobuf import text_format
    with open(os.path.join(DATA, 'squeezenet', 'deploy.prototxt')) as file:
        model = text_format.Parse(file.read(), caffe_pb2.NetParameter())
    count = 10 if device == 'cpu' else 2
    model.input_dim[0] = count
    images = np.stack([evaluate.load_image(path)
                       for path, _ in evaluate.read_list(DATA)[:count]])
    weights = os.path.join(DATA, 'squeezenet', 'squeezenet_v1.0.caffemodel')

    def scores(where, name, scale):
        caffe.set_device(where)
        model.data_type_name = name
        net = caffe.Net(model, TEST, weights=weights)
        for parameters in net.params.values():
            parameters[1].data[...] *= scale
        net.forward(data=scale * images)
        found = net.blobs['pool_final'].float_data.reshape(count, -1) / scale
        assert net.blobs['pool_final']._type_name == name
        return found

    wanted = scores('cpu', 'float', 1)
    found = scores(device, name, scale)
    if name == WIDE:
        # Each of 66 layers rounds to 16 significant bits.
        assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()
        assert 0 < np.abs(found - wanted).max() < 2e-3 * np.abs(wanted).max()
        return
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).mean() >= 0.8
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.97
    if device != 'cpu':
        host = scores('cpu', name, scale)
        # Sums in another order may be rounded to the neighbouring code.
        assert np.isclose(found, host, rtol=0.13, atol=0.1).all()


def digits(part):
    """Images and labels of MNIST: of 'train' or of 't10k'."""
    def read(name):
        path = os.path.join(DATA, 'mnist', '%s-%s' % (part, name))
        with (open(path, 'rb') if os.path.exists(path) else gzip.open(path + '.gz')) as file:
            return np.frombuffer(file.read(), np.uint8)

    return (read('images-idx3-ubyte')[16:].reshape(-1, 1, 28, 28) / 256,
            read('labels-idx1-ubyte')[8:])


def lenet(batch):
    net = caffe.io.read_net(os.path.join(ROOT, 'models', 'lenet', 'lenet.prototxt'))
    net.layer[0].input_param.shape[0].dim[0] = batch
    return net


@pytest.fixture(scope='module')
def lenet_weights(tmp_path_factory):
    """The caffemodel of 300 iterations in float."""
    caffe.set_device('cpu')
    images, labels = digits('train')
    net = lenet(64)
    net.layer.add(name='label', type='Input', top=['label']).input_param.shape.add(dim=[64])
    scores = net.layer[-2].bottom[0]
    del net.layer[-2]  # the Softmax
    net.layer.add(name='loss', type='SoftmaxWithLoss', bottom=[scores, 'label'], top=['loss'])
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=net, base_lr=0.01, momentum=0.9, weight_decay=0.0005, lr_policy='fixed',
        max_iter=300, random_seed=1, snapshot_after_train=False, display=1000))
    for i in range(0, 300 * 64, 64):
        solver.net.blobs['data'].data[...] = images[i:i + 64]
        solver.net.blobs['label'].data[...] = labels[i:i + 64]
        solver.step(1)
    path = str(tmp_path_factory.mktemp('lenet') / 'lenet.caffemodel')
    solver.net.save(path)
    return path


@pytest.mark.skipif(not os.path.isdir(os.path.join(DATA, 'mnist')),
                    reason='CAFFE_TEST_DATA names no folder with mnist/')
@pytest.mark.parametrize('device', devices())
@pytest.mark.parametrize('data_type', [*READY, WIDE])
def test_lenet(data_type, device, lenet_weights):
    images, labels = digits('t10k')
    count = 1000
    right = {}
    for where, name in (('cpu', 'float'), (device, data_type)):
        caffe.set_device(where)
        model = lenet(count)
        model.data_type_name = name
        net = caffe.Net(model, TEST, weights=lenet_weights)
        (scores,) = net.forward(data=images[:count]).values()
        right[name] = (scores.argmax(axis=1) == labels[:count]).mean()
    assert right['float'] > 0.93
    assert right[data_type] >= right['float'] - (0.001 if data_type == WIDE else 0.02)
