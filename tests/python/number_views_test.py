"""Views of bfloat16 are numbers; views of codes refuse values that are not codes."""
import pickle

import ml_dtypes
import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.codes import Codes, code_view
from nets import write

FLOATS = ['float', 'half', 'bfloat16', 'double']
DTYPES = {'float': np.float32, 'half': np.float16, 'bfloat16': ml_dtypes.bfloat16,
          'double': np.float64, 'quant8': np.uint8, 'quant16': np.uint16}
KINDS = FLOATS + ['quant8', 'quant16']


@pytest.fixture(params=[device.name for device in caffe.devices()])
def device(request):
    caffe.set_device(request.param)
    yield request.param
    caffe.set_device('cpu')


@pytest.fixture(autouse=True)
def cpu():
    caffe.set_device('cpu')


def scores_net(data_type, tmp_path, loss=False):
    """x (2, 3) -> ip (2, 3), ip = -x + 1; with ranges where it is quantized. All in one type."""
    def make(data_type):
        spec = NetSpec()
        spec.x = L.Input(shape=dict(dim=[2, 3]), data_type=data_type)
        spec.ip = L.InnerProduct(spec.x, num_output=3, data_type=data_type,
                                 weight_filler=dict(type='constant'),
                                 bias_filler=dict(type='constant', value=1))
        if loss:
            spec.label = L.Input(shape=dict(dim=[2]))
            spec.loss = L.SoftmaxWithLoss(spec.ip, spec.label, data_type=data_type)
        return caffe.Net(spec.to_proto(), caffe.TEST)

    if data_type not in ('quant8', 'quant16'):
        net = make(data_type)
        net.params['ip'][0].data[...] = -np.eye(3)
        return net
    observed = make('float')
    observed.params['ip'][0].data[...] = -np.eye(3)
    observed.quant_mode = 'observe'
    observed.forward(x=np.array([[-4, 0, 4], [1, 2, 3]]))
    observed.save(str(tmp_path / 'observed.caffemodel'))
    net = make(data_type)
    net.copy_from(str(tmp_path / 'observed.caffemodel'))
    return net


@pytest.mark.parametrize('kind', FLOATS)
def test_fractions_are_stored(kind, device, tmp_path):
    net = scores_net(kind, tmp_path)
    blob = net.blobs['x']
    assert blob.data.dtype == DTYPES[kind]
    blob.data[...] = 0.5
    assert blob.data.tolist() == [[0.5] * 3] * 2
    blob.data[0] = [-1.5, 2, 0.25]
    blob.data[1, 1:] *= 4
    assert blob.data.tolist() == [[-1.5, 2, 0.25], [0.5, 2, 2]]
    result = net.forward()['ip']
    assert result.tolist() == [[2.5, -1, 0.75], [0.5, -1, -1]]
    assert np.argmax(result, axis=1).tolist() == [0, 0]
    assert np.argmin(blob.data[0]) == 0 and float(blob.data[0, 2]) == 0.25


@pytest.mark.parametrize('kind', FLOATS)
def test_feeding_by_keyword_and_by_assignment_is_the_same(kind, tmp_path):
    net = scores_net(kind, tmp_path)
    for x in (np.full((2, 3), 0.5), np.array([[1, -2, 3], [4, 5, 6]]), np.ones((2, 3), np.float16),
              np.arange(6, dtype=np.uint16).reshape(2, 3), [[0.1, 0.2, 0.3]] * 2,
              np.full((2, 3), 1.5, ml_dtypes.bfloat16)):
        by_keyword = np.array(net.forward(x=x)['ip'], np.float64)
        kept = net.blobs['x'].data.copy()
        net.blobs['x'].data[...] = 0
        net.blobs['x'].data[...] = x
        np.testing.assert_array_equal(net.blobs['x'].data, kept)
        np.testing.assert_array_equal(np.array(net.forward()['ip'], np.float64), by_keyword)


def test_a_loss_in_bfloat16_is_a_number(tmp_path):
    net = scores_net('bfloat16', tmp_path, loss=True)
    result = net.forward(blobs=['ip'], x=np.zeros((2, 3)), label=np.zeros(2))
    expected = pytest.approx(np.log(3), rel=1e-2)
    view = net.blobs['loss'].data
    assert float(view) == float(view[0]) == expected and view[:].shape == (1,)
    assert float(result['loss']) == expected and result['loss'][0] == expected
    assert result['loss'].dtype == np.float32 and result['ip'].dtype == np.float32
    assert '%.1f' % net.blobs['loss'].data == '1.1'
    view[...] = 0.25
    assert float(net.blobs['loss'].data) == 0.25


def test_gradients_in_bfloat16_are_numbers():
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[2, 3]), data_type='bfloat16')
    spec.y = L.Power(spec.x, scale=-0.5, data_type='bfloat16')
    proto = spec.to_proto()
    proto.force_backward = True
    net = caffe.Net(proto, caffe.TRAIN)
    net.forward(x=np.ones((2, 3)))
    diffs = net.backward(y=np.full((2, 3), 3))
    assert diffs['x'].dtype == np.float32 and diffs['x'].tolist() == [[-1.5] * 3] * 2
    assert net.blobs['x'].diff.dtype == ml_dtypes.bfloat16
    assert float(net.blobs['x'].diff[0, 0]) == -1.5
    _, diffs = net.forward_backward_all(x=np.ones((4, 3)), y=np.full((4, 3), 3))
    assert diffs['x'].dtype == np.float32 and diffs['x'].shape == (4, 3)


class Halving(caffe.Layer):
    """y = x / 2."""

    def setup(self, bottom, top):
        super().setup(bottom, top)
        self.seen = []

    def reshape(self, bottom, top):
        super().reshape(bottom, top)
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        self.seen.append((bottom[0].data.dtype, float(bottom[0].data[0, 1])))
        top[0].data[...] = bottom[0].data / 2


def test_python_layers_see_numbers(device):
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[2, 3]))
    spec.y = L.Python(spec.x, module=__name__, layer='Halving')
    proto = spec.to_proto()
    proto.data_type = caffe.data_type.CAFFE_BFLOAT16
    net = caffe.Net(proto, caffe.TEST)
    assert net.forward(x=np.array([[1, -3, 5], [0, 0, 0]]))['y'].tolist() == [[0.5, -1.5, 2.5],
                                                                             [0, 0, 0]]
    assert net.layers[1].seen == [(np.dtype(ml_dtypes.bfloat16), -3.0)]


def test_codes_of_older_scripts_go_through_the_bits(tmp_path):
    from caffe import bfloat16
    net = scores_net('bfloat16', tmp_path)
    x = np.array([[1.5, -2, 3], [0, 0.25, 7]])
    net.blobs['x'].data.view(np.uint16)[...] = bfloat16.from_float(x)
    assert net.blobs['x'].data.tolist() == x.tolist()
    assert bfloat16.to_float(net.blobs['x'].data).tolist() == x.tolist()
    assert bfloat16.to_float(net.blobs['x'].data.view(np.uint16)).tolist() == x.tolist()
    assert bfloat16.to_float(net.blobs['x'].data).dtype == np.float32


@pytest.mark.parametrize('kind, most', [('quant8', 255), ('quant16', 65535)])
def test_codes_take_integers_and_refuse_the_rest(kind, most, tmp_path):
    net = scores_net(kind, tmp_path)
    view = net.blobs['x'].data
    assert isinstance(view, np.ndarray) and view.dtype == DTYPES[kind]
    writers = [lambda x: view.__setitem__(Ellipsis, x), lambda x: view[0].__setitem__(1, x),
               lambda x: view[:, 1:].__setitem__(0, x), lambda x: view.T.__setitem__((1, 0), x),
               view.fill, lambda x: view.put([1], x), lambda x: view.flat.__setitem__(1, x),
               lambda x: setattr(view, 'flat', x)]
    for assign in writers:
        for codes in (0, most, np.int64(7), True, np.uint8(3)):
            assign(codes)
            assert view[0, 1] == codes
        for wrong in (0.5, 1.0, np.float32(3), ml_dtypes.bfloat16(1), 1j, 'x'):
            with pytest.raises(TypeError, match=r'blob x \(%s\) holds codes, integers from 0 to %d'
                               % (kind, most)):
                assign(wrong)
        for wrong in (-1, most + 1, np.int64(-3)):
            with pytest.raises(ValueError, match=r'cannot be assigned %d; net\.blobs\[.x.\]\.'
                                                 r'float_data = x' % wrong):
                assign(wrong)
    view[...] = np.arange(6).reshape(2, 3)
    with pytest.raises(TypeError, match='float_data'):
        view += 0.5
    with pytest.raises(TypeError, match='float_data'):
        np.multiply(view, 0.5, out=view)
    for call in (lambda: np.copyto(view, np.full((2, 3), 0.5)), lambda: np.copyto(dst=view, src=0.5),
                 lambda: np.putmask(view, view < 9, 0.5), lambda: np.place(view, view < 9, [0.5]),
                 lambda: np.putmask(view, view < 9, values=0.5),
                 lambda: np.fill_diagonal(view, 0.5),
                 lambda: np.put_along_axis(view, np.zeros((2, 1), int), 0.5, 1)):
        with pytest.raises(TypeError, match='float_data'):
            call()
    with pytest.raises(TypeError, match='float_data'):
        np.add.at(view, ([0], [0]), 0.5)
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view += 2
    np.add.at(view, ([0], [0]), 1)
    assert view.tolist() == [[3, 3, 4], [5, 6, 7]] and isinstance(view, Codes)
    assert net.blobs['x'].data.tolist() == view.tolist()


def test_codes_read_and_compute_like_any_array(tmp_path):
    net = scores_net('quant8', tmp_path)
    view = net.blobs['x'].data
    view[...] = [[0, 200, 100], [50, 1, 255]]
    assert np.argmax(view, axis=1).tolist() == [1, 2] and view.argmax() == 5
    assert view.sum() == 606 and view.max() == 255 and float(view.mean()) == 101
    assert int(view[0, 1]) - 128 == 72 and type(view[0, 1]) is np.uint8
    assert type(view * 2.5) is np.ndarray and (view * 2.5)[0, 1] == 500
    assert type(view.astype(np.float32)) is np.ndarray
    floats = view.astype(float)
    floats[...] = 0.5
    assert floats[0, 0] == 0.5
    assert type(view[0]) is Codes and np.shares_memory(view[0], view)
    assert (view == 200).sum() == 1 and list(view.flat)[:2] == [0, 200] and len(view.flat) == 6
    assert np.concatenate([view, view]).shape == (4, 3) and np.array(view, int).dtype == int
    assert pickle.loads(pickle.dumps(view)).tolist() == view.tolist()
    assert view.view(np.int8).tolist()[1][2] == -1
    scalar = code_view(np.array(7, np.uint8), 'n', 'quant8')
    assert scalar[0] == scalar[:][0] == 7 and int(scalar) == 7
    for key in (0, slice(None), Ellipsis):
        with pytest.raises(TypeError, match='blob n'):
            scalar[key] = 0.5
    with pytest.raises(TypeError, match='blob n'):
        scalar[:][0] = 0.5
    scalar[0] = 9
    assert scalar == 9


@pytest.mark.parametrize('kind', KINDS)
def test_float_data_reads_and_writes_every_type(kind, device, tmp_path):
    net = scores_net(kind, tmp_path)
    blob = net.blobs['x']
    x = np.array([[-4, 0, 2], [1, 0.5, 3]])
    step = blob.scale or 0
    blob.float_data = x
    values = blob.float_data
    assert values.dtype == np.float32 and values.shape == (2, 3)
    np.testing.assert_allclose(values, x, atol=step / 2 + 1e-9)
    assert values[0, 1] == 0  # exact in every type
    np.testing.assert_allclose(net.forward()['ip'], 1 - x, atol=2 * step)
    for write in (lambda: values.__setitem__(0, 5), lambda: values[0].__setitem__(0, 5),
                  lambda: values.fill(5)):
        with pytest.raises(ValueError, match=r'read-only copy.*: write with blob\.float_data = x'):
            write()
    copy = values.copy()
    copy[0, 0] = 3
    blob.float_data = copy
    blob.float_data += 1
    assert abs(blob.float_data[0, 0] - 4) <= step and abs(blob.float_data[0, 1] - 1) <= step
    blob.float_data = 2
    np.testing.assert_allclose(blob.float_data, 2, atol=step / 2)
    with pytest.raises(ValueError, match=r'blob x has the shape \(2, 3\), not \(4,\)'):
        blob.float_data = np.zeros(4)
    assert type(values + 1) is np.ndarray and type(values.sum()) is np.float32


@pytest.mark.parametrize('kind', FLOATS)
def test_float_diff_reads_and_writes(kind, tmp_path):
    blob = scores_net(kind, tmp_path).blobs['ip']
    blob.float_diff = [[1, 2, 3], [0.5, -1, 0]]
    assert blob.float_diff.tolist() == blob.diff.tolist() == [[1, 2, 3], [0.5, -1, 0]]
    with pytest.raises(ValueError, match=r'write with blob\.float_diff = x'):
        blob.float_diff[0] = 1


def test_codes_have_no_gradient(tmp_path):
    blob = scores_net('quant8', tmp_path).blobs['ip']
    for use in (lambda: blob.float_diff, lambda: setattr(blob, 'float_diff', 1)):
        with pytest.raises(TypeError, match=r'blob ip \(quant8\).* no gradient'):
            use()


@pytest.mark.parametrize('kind', ['quant8', 'quant16'])
def test_numbers_become_the_codes_of_a_quantizer_layer(kind, tmp_path):
    def quantizer(out):
        spec = NetSpec()
        spec.x = L.Input(shape=dict(dim=[2000]), data_type='float')
        spec.q = L.Quantizer(spec.x, bottom_data_type='float', compute_data_type='float',
                             top_data_type=out)
        return caffe.Net(spec.to_proto(), caffe.TEST)

    observed = quantizer('half')
    observed.quant_mode = 'observe'
    x = np.random.RandomState(0).uniform(-3, 7, 2000).astype(np.float32)
    observed.forward(x=x)
    observed.save(str(tmp_path / 'w'))
    net = quantizer(kind)
    net.copy_from(str(tmp_path / 'w'))
    blob = net.blobs['q']
    scale, zero = blob.scale, blob.zero_point
    # Ties, what lies beyond the range, and NaN.
    x[:8] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0, 1e-30, -1e-30]
    ties = np.arange(-50, 50) + 0.5
    x[8:108] = (ties * scale).astype(np.float32)
    expected = net.forward(x=x, codes=True)['q'].copy()
    blob.data[...] = 0
    blob.float_data = x
    np.testing.assert_array_equal(blob.data, expected)
    assert blob.data[0] == zero and blob.data[1] == np.iinfo(DTYPES[kind]).max and blob.data[2] == 0
    numbers = (blob.data.astype(np.float64) - zero) * scale
    np.testing.assert_allclose(blob.float_data, numbers, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('kind, most', [('quant8', 255), ('quant16', 65535)])
def test_blobs_tell_their_range(kind, most, tmp_path):
    net = scores_net(kind, tmp_path)
    blob = net.blobs['x']  # before any forward; the observed range is [-4, 4]
    assert blob.scale == pytest.approx(8 / most) and blob.zero_point == (most + 1) // 2
    low, high = blob.range
    assert low == pytest.approx(-4, abs=blob.scale) and high == pytest.approx(4, abs=blob.scale)
    assert low == (0 - blob.zero_point) * blob.scale
    assert net.ranges['x'] == (-4, 4) and net.ranges['ip'] == (-3, 5)
    floats = scores_net('float', tmp_path)
    assert (floats.blobs['x'].scale, floats.blobs['x'].zero_point, floats.blobs['x'].range) == (
        None, None, None)
    assert floats.ranges == {}


def test_codes_without_a_range_say_so():
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[2]), data_type='quant8')
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    blob = net.blobs['x']
    assert (blob.scale, blob.zero_point, blob.range) == (None, None, None)
    for use in (lambda: blob.float_data, lambda: setattr(blob, 'float_data', 1), net.forward,
                lambda: net.forward(x=np.array([0.5, 1]))):
        with pytest.raises(RuntimeError, match=r'blob x \(quant8\): its range was never observed.*'
                           r'quant_mode.*forward\(codes=True\)'):
            use()
    assert net.forward(x=np.array([3, 4]), codes=True)['x'].tolist() == [3, 4]


@pytest.mark.parametrize('kind', KINDS)
def test_results_are_floats_unless_codes_are_asked_for(kind, tmp_path):
    net = scores_net(kind, tmp_path)
    x = np.array([[-4, -2, 0], [3, 2, 1]])
    step = 2 * (net.blobs['ip'].scale or 0)
    result = net.forward(x=x.astype(np.float32), blobs=['x'])
    floating = {'half': np.float16, 'double': np.float64}.get(kind, np.float32)
    for name, values in (('ip', 1 - x), ('x', x)):
        assert result[name].dtype == floating, name
        np.testing.assert_allclose(result[name], values, atol=step)
    assert result['ip'].argmax(axis=1).tolist() == [0, 2]
    everything = net.forward_all(x=np.tile(x, (3, 1))[:5].astype(np.float32), blobs='x')
    assert everything['ip'].dtype == floating and everything['ip'].shape == (5, 3)
    np.testing.assert_allclose(everything['x'][:2], x, atol=step)
    codes = net.forward(codes=True)['ip']
    all_codes = net.forward_all(x=net.blobs['x'].data.copy(), codes=True)['ip']
    if kind in ('quant8', 'quant16'):
        assert codes.dtype == all_codes.dtype == DTYPES[kind]
        np.testing.assert_array_equal(codes, all_codes)
        blob = net.blobs['ip']
        np.testing.assert_allclose((codes.astype(float) - blob.zero_point) * blob.scale,
                                   net.forward()['ip'], rtol=1e-6, atol=1e-9)
        with pytest.raises(TypeError, match=r'blob x \(%s\) holds codes' % kind):
            net.forward(x=x.astype(np.float32), codes=True)
    else:
        assert codes.dtype == all_codes.dtype == floating


@pytest.mark.parametrize('kind', ['float', 'bfloat16', 'quant8'])
def test_the_classifier_predicts_floats(kind, tmp_path):
    def make(data_type):
        spec = NetSpec()
        spec.data = L.Input(shape=dict(dim=[10, 3, 4, 4]), data_type=data_type)
        spec.ip = L.InnerProduct(spec.data, num_output=3, data_type=data_type,
                                 weight_filler=dict(type='gaussian', std=0.1))
        return write(tmp_path, spec.to_proto(), data_type + '.prototxt')

    caffe.set_random_seed(3)
    weights = str(tmp_path / 'w.caffemodel')
    images = list(np.random.RandomState(0).rand(2, 6, 6, 3).astype(np.float32))
    observed = caffe.Classifier(make('float'), None, image_dims=(6, 6))
    observed.quant_mode = 'observe'
    expected = observed.predict(images)
    observed.save(weights)
    classifier = caffe.Classifier(make(kind), weights, image_dims=(6, 6))
    for oversample in (True, False):
        found = classifier.predict(images, oversample)
        assert found.dtype == np.float32 and found.shape == (2, 3)
    np.testing.assert_allclose(classifier.predict(images), expected, atol=0.05)


def test_an_array_of_a_blob_of_codes_has_its_numbers(tmp_path):
    net = scores_net('quant8', tmp_path)
    net.forward(x=[[-4, 0, 2], [1, 0.5, 3]])
    blob = net.blobs['ip']
    array = np.asarray(blob)
    assert type(array) is np.ndarray and array.dtype == np.float32
    np.testing.assert_array_equal(array, blob.float_data)
    assert np.asarray(blob, dtype=np.float64).dtype == np.float64
    codes = caffe.Net(caffe.to_proto(L.Input(shape=dict(dim=[2]), data_type='quant8')))
    with pytest.raises(RuntimeError, match='its range was never observed'):
        np.asarray(codes.blobs[codes.inputs[0]])
