"""Types of users with a scale for each blob, with two elements in a byte, and with sums in double."""
import importlib.util
import os

import numpy as np
import pytest

import caffe
from caffe.proto import caffe_pb2
from nets import TEST, write

DATA = os.environ.get('CAFFE_TEST_DATA', '')
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FIXED8 = ('(float)((i32)(code << 24) >> 24)',
          """const float s = v + (v < 0.0f ? -0.5f : 0.5f);
             return v != v ? 0u : s >= 128.0f ? 127u : s <= -128.0f ? 128u : (u32)(i32)s & 255u;""")
FIXED4 = ('(float)((i32)(code << 28) >> 28)',
          """const float s = v + (v < 0.0f ? -0.5f : 0.5f);
             return v != v ? 0u : s >= 8.0f ? 7u : s <= -8.0f ? 8u : (u32)(i32)s & 15u;""")


@pytest.fixture(scope='module', autouse=True)
def types():
    caffe.register_type('dynamic8', 8, *FIXED8, scaled=True)
    caffe.register_type('dynamic4', 4, *FIXED4, scaled=True, packed=True)
    caffe.register_type('packed_fp4', 4, 'small_float_value(code, 2, 1, 0)',
                        'small_float_code(v, 2, 1, 0)', packed=True)
    caffe.register_type('double_e5m2', 8, 'small_float_value(code, 5, 2, 1)',
                        'small_float_code(v, 5, 2, 1)', simulate='double')


@pytest.fixture(autouse=True)
def on_the_cpu():
    caffe.set_device('cpu')


def devices():
    return [device.name for device in caffe.devices()][-2:]


def scale_of(low, high, largest):
    """The smallest power of two with which the largest value of the type covers the range."""
    return 2.0 ** np.ceil(np.log2(max(abs(low), abs(high)) / largest))


def fixed(values, scale, bits):
    """What numbers become in fixed point: halves away from zero, clamped."""
    values = np.asarray(values, np.float32) / np.float32(scale)
    whole = np.trunc(values + np.where(values < 0, np.float32(-0.5), np.float32(0.5)))
    most = 2 ** (bits - 1)
    return np.clip(whole, -most, most - 1).astype(np.float32) * np.float32(scale)


def small_net(type_name=None, dim=(2, 3, 8, 8)):
    net = caffe.NetSpec()
    net.data = caffe.layers.Input(shape=dict(dim=list(dim)))
    net.conv = caffe.layers.Convolution(net.data, num_output=6, kernel_size=3, pad=1,
                                        weight_filler=dict(type='xavier'))
    net.relu = caffe.layers.ReLU(net.conv, in_place=True)
    net.left, net.right = caffe.layers.Slice(net.relu, ntop=2, axis=1)
    net.tanh = caffe.layers.TanH(net.left)
    net.both = caffe.layers.Concat(net.tanh, net.right, axis=1)
    net.pool = caffe.layers.Pooling(net.both, pool=caffe.params.Pooling.MAX, kernel_size=2,
                                    stride=2)
    net.flat = caffe.layers.Flatten(net.pool)
    net.ip = caffe.layers.InnerProduct(net.flat, num_output=10, weight_filler=dict(type='xavier'))
    proto = net.to_proto()
    if type_name:
        proto.data_type_name = type_name
    return proto


@pytest.fixture(scope='module')
def calibrated(tmp_path_factory):
    """Weights and ranges of the small net, and a batch."""
    caffe.set_device('cpu')
    caffe.set_random_seed(3)
    net = caffe.Net(small_net(), TEST)
    data = np.random.RandomState(1).normal(size=(2, 3, 8, 8)).astype(np.float32)
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    tops = {name: net.forward(data=data) and net.blobs[name].data.copy() for name in net.blobs}
    path = str(tmp_path_factory.mktemp('scaled') / 'calibrated.caffemodel')
    net.save(path)
    return path, data, tops, dict(net.ranges)


@pytest.mark.parametrize('device', devices())
@pytest.mark.parametrize('name, bits', [('dynamic8', 8), ('dynamic4', 4)])
def test_scales_follow_from_ranges(calibrated, device, name, bits):
    """Formulas in NumPy: the scale from the range, and the rounding of the input."""
    path, data, tops, ranges = calibrated
    caffe.set_device(device)
    net = caffe.Net(small_net(name), TEST, weights=path)
    net.forward(data=data)
    most = 2 ** (bits - 1)
    low, high = ranges['data']
    assert net.blobs['data'].scale == scale_of(low, high, most)
    np.testing.assert_array_equal(net.blobs['data'].float_data,
                                  fixed(data, net.blobs['data'].scale, bits))
    # The parts of a blob and what joins them have one scale: the elements only move.
    assert net.blobs['left'].scale == net.blobs['both'].scale == net.blobs['flat'].scale
    assert net.blobs['tanh'].scale == net.blobs['both'].scale
    for blob in ('conv', 'pool', 'ip'):
        steps = np.abs(net.blobs[blob].float_data - tops[blob]) / net.blobs[blob].scale
        assert np.median(steps) <= 2, blob


@pytest.mark.parametrize('name', ['dynamic8', 'dynamic4', 'packed_fp4', 'double_e5m2'])
def test_all_devices_give_the_same_codes(calibrated, name):
    path, data, _, _ = calibrated
    found = []
    for device in devices():
        caffe.set_device(device)
        net = caffe.Net(small_net(name), TEST, weights=path)
        net.forward(data=data)
        found.append({blob: np.array(net.blobs[blob].data) for blob in net.blobs})
    for other in found[1:]:
        for blob in other:
            np.testing.assert_array_equal(other[blob], found[0][blob], err_msg=blob)


def test_a_scale_needs_a_range(calibrated):
    net = caffe.Net(small_net('dynamic8'), TEST)
    with pytest.raises(RuntimeError, match='range was never observed'):
        net.forward(data=calibrated[1])
    with pytest.raises(RuntimeError, match="no range of blob data was ever observed, from which the "
                                           "scale of data type 'dynamic8' follows; calibrate"):
        net.forward()


@pytest.mark.parametrize('name, per_byte', [('dynamic8', 1), ('dynamic4', 2), ('packed_fp4', 2)])
def test_weights_in_files(calibrated, tmp_path, name, per_byte):
    """Of a scaled type, each output channel has an exponent of its own: block floating point."""
    path, data, _, _ = calibrated
    net_path = write(tmp_path, small_net())
    exact = caffe.Net(small_net(), TEST, weights=path).params['ip'][0].data.copy()
    caffe.transform((net_path, path), passes='round', type=name, out=str(tmp_path / 'small'))
    model = caffe_pb2.NetParameter.FromString((tmp_path / 'small.caffemodel').read_bytes())
    (blob,) = [layer.blobs[0] for layer in model.layer if layer.name == 'ip']
    assert blob.data_type_name == name and len(blob.packed_data) == exact.size // per_byte
    loaded = caffe.Net(small_net(), TEST, weights=str(tmp_path / 'small.caffemodel'))
    weights = loaded.params['ip'][0].data
    if name == 'packed_fp4':
        assert set(np.unique(np.abs(weights))) <= {0, .5, 1, 1.5, 2, 3, 4}
    else:
        bits = 8 // per_byte
        (entry,) = [entry for entry in model.quantizer if entry.name == 'ip_blobs_0_quant']
        for row, found, scale in zip(exact, weights, entry.channel_scale):
            assert scale == scale_of(row.min(), row.max(), 2 ** (bits - 1))
            np.testing.assert_array_equal(found, fixed(row, scale, bits))
    # A net saves again the weights that it loaded.
    typed = caffe.Net(small_net(), TEST, weights=str(tmp_path / 'small.caffemodel'))
    typed.save(str(tmp_path / 'again.caffemodel'))
    again = caffe.Net(small_net(), TEST, weights=str(tmp_path / 'again.caffemodel'))
    np.testing.assert_array_equal(again.params['ip'][0].data, weights)


@pytest.mark.parametrize('device', devices())
def test_two_elements_in_a_byte(device):
    caffe.set_device(device)
    net = caffe_pb2.NetParameter(data_type_name='packed_fp4')
    net.layer.add(name='data', type='Input', top=['data']).input_param.shape.add(dim=[3, 5])
    net.layer.add(name='y', type='AbsVal', bottom=['data'], top=['y'])
    net = caffe.Net(net, TEST)
    numbers = np.array([[0, .5, -1, 1.5, 2], [-3, 4, 6, 100, .2], [.8, 5.1, -.4, 7, -2]])
    expected = np.array([[0, .5, -1, 1.5, 2], [-3, 4, 4, 4, 0], [1, 4, -.5, 4, -2]])
    np.testing.assert_array_equal(net.forward(data=numbers)['y'], abs(expected))
    blob = net.blobs['data']
    np.testing.assert_array_equal(blob.float_data, expected)
    assert blob.data.shape == (8,) and blob.data.dtype == np.uint8
    codes = np.stack([blob.data & 15, blob.data >> 4], axis=-1).ravel()[:15]
    wanted = [0, 1, 10, 3, 4, 13, 6, 6, 6, 0, 2, 6, 9, 6, 12]
    np.testing.assert_array_equal(codes, wanted)


def test_the_memory_plan_is_halved():
    dim = (2, 3, 64, 64)
    sizes = {name: caffe.Net(small_net(name, dim), TEST).memory['activations']
             for name in ('fp8_e4m3', 'packed_fp4')}
    assert sizes['packed_fp4'] <= 0.51 * sizes['fp8_e4m3']


@pytest.mark.parametrize('device', devices())
def test_sums_in_double(device):
    """A sum of numbers of many sizes, which float would round, is exact; the top is rounded once."""
    caffe.set_device(device)
    net = caffe_pb2.NetParameter(data_type_name='double_e5m2')
    net.layer.add(name='data', type='Input', top=['data']).input_param.shape.add(dim=[1, 1001])
    layer = net.layer.add(name='ip', type='InnerProduct', bottom=['data'], top=['ip'])
    layer.inner_product_param.num_output = 1
    layer.inner_product_param.bias_term = False
    net = caffe.Net(net, TEST)
    random = np.random.RandomState(5)
    x, w = random.choice([1, 1.25, 1.5, 1.75], (2, 500)) * 2.0 ** random.randint(-3, 15, (2, 500))
    net.params['ip'][0].data[...] = np.concatenate([w, -w, [2.0 ** -10]])
    data = np.concatenate([x, x, [2.0 ** -4]])
    assert net.forward(data=data[np.newaxis])['ip'] == 2.0 ** -14
    assert np.float32(data) @ np.float32(net.params['ip'][0].data[0]) != 2.0 ** -14
    assert net.params['ip'][0].data.dtype == np.float64
    assert net.blobs['ip'].data.dtype == np.uint8


def test_errors(calibrated):
    for options, match in ((dict(packed=True), 'at most 4 bits each, not 8'),
                           (dict(simulate='half'), "simulate is 'float' or 'double'")):
        with pytest.raises((RuntimeError, ValueError), match=match):
            caffe.register_type('scaled_bad', 8, *FIXED8, **options)
    with pytest.raises(RuntimeError, match='at most 16 bits, not 24'):
        caffe.register_type('scaled_bad', 24, *FIXED8, scaled=True)
    with pytest.raises(RuntimeError, match="'dynamic8' exists and is another type"):
        caffe.register_type('dynamic8', 8, *FIXED8)
    with pytest.raises(RuntimeError, match='functions of a type are for types without scaled'):
        caffe.register_function('dynamic8', 'Sigmoid', 'v')
    # An image with an odd number of elements would begin in the middle of a byte.
    net = caffe.Net(small_net('packed_fp4', (2, 3, 7, 7)), TEST)
    with pytest.raises(RuntimeError, match='cannot begin at element 147 of another one'):
        net.forward(data=np.zeros((2, 3, 7, 7)))


@pytest.mark.parametrize('name', ['dynamic8', 'packed_fp4'])
def test_no_training(calibrated, name):
    net = small_net(name)
    net.force_backward = True
    net = caffe.Net(net, TEST, weights=calibrated[0])
    net.forward(data=calibrated[1])
    with pytest.raises(RuntimeError, match="'%s'" % name):
        net.backward(ip=np.ones((2, 10)))


@pytest.mark.skipif(
    not all(os.path.isdir(os.path.join(DATA, name)) for name in ('squeezenet', 'imagenet-sample')),
    reason='CAFFE_TEST_DATA names no folder with squeezenet/ and imagenet-sample/')
def test_squeezenet_in_dynamic_fixed_point(tmp_path):
    """8 bits with an exponent for each blob keep the classes, which 8 bits without one lose."""
    spec = importlib.util.spec_from_file_location(
        'evaluate', os.path.join(ROOT, 'examples', 'squeezenet', 'evaluate.py'))
    evaluate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(evaluate)
    images = np.stack([evaluate.load_image(path) for path, _ in evaluate.read_list(DATA, 30)])
    net = evaluate.make_net(DATA, 10)
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    net.forward(data=images[:10])
    net.save(str(tmp_path / 'calibrated.caffemodel'))
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_PASSIVE
    exact = [net.forward(data=images[i:i + 10])['pool_final'].reshape(10, -1).argmax(1)
             for i in (10, 20)]
    proto = caffe.io.read_net(os.path.join(DATA, 'squeezenet', 'deploy.prototxt'))
    proto.layer[0].input_param.shape[0].dim[0] = 10
    proto.layer[-1].compute_data_type = caffe_pb2.CAFFE_FLOAT  # so that scores are not equal codes
    caffe.register_type('fixed8_of_nets', 8, *FIXED8)
    same = {}
    for name in ('dynamic8', 'fixed8_of_nets'):
        proto.data_type_name = name
        typed = caffe.Net(proto, TEST, weights=str(tmp_path / 'calibrated.caffemodel'))
        classes = [typed.forward(data=images[i:i + 10])['pool_final'].reshape(10, -1).argmax(1)
                   for i in (10, 20)]
        same[name] = int((np.array(classes) == np.array(exact)).sum())
    assert same['dynamic8'] >= 15 and same['fixed8_of_nets'] <= 5, same
