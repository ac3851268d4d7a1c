"""Layers written in Python."""
import gc
import sys

import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from nets import write

MODULE = __name__


def python(*bottoms, layer, **more):
    return L.Python(*bottoms, module=MODULE, layer=layer, **more)


class Times(caffe.Layer):
    """y = factor x, with the factor in param_str."""

    def setup(self, bottom, top):
        self.factor = float(self.param_str or 10)

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.factor * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        assert propagate_down == [True]
        bottom[0].diff[...] = self.factor * top[0].diff


class Failing(Times):
    """Raises where its param_str says."""

    def setup(self, bottom, top):
        self.factor = 1
        self.fail('setup')

    def reshape(self, bottom, top):
        super().reshape(bottom, top)
        self.fail('reshape')

    def forward(self, bottom, top):
        self.fail('forward')

    def backward(self, top, propagate_down, bottom):
        self.fail('backward')

    def fail(self, where):
        if self.param_str == where:
            raise ValueError('it went wrong')
        if self.param_str == where + ' by key':
            raise KeyError(3, 4)
        if self.param_str == where + ' by file':
            open('/nowhere/at/all')


class Scale(caffe.Layer):
    """y = w x with a learnable number w."""

    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[0] = 2

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data[0] * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[0] += float(np.sum(top[0].diff * bottom[0].data))
        if propagate_down[0]:
            bottom[0].diff[...] = self.blobs[0].data[0] * top[0].diff


class Phase(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(1)

    def forward(self, bottom, top):
        top[0].data[0] = self.phase


class Growing(caffe.Layer):
    """A data layer whose batches are of 1, 2, 3, ... items."""

    def setup(self, bottom, top):
        self.size = 0

    def reshape(self, bottom, top):
        self.size += 1
        top[0].reshape(self.size, 2)

    def forward(self, bottom, top):
        top[0].data[...] = self.size


class Keeping(caffe.Layer):
    """Writes through a view that it made once."""

    def setup(self, bottom, top):
        top[0].reshape(3)
        self.blob = top[0]
        self.view = top[0].data
        self.count = 0

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        self.count += 1
        self.view[:] = self.count


class Pairs(caffe.Layer):
    """A data layer: scores and labels."""

    def setup(self, bottom, top):
        top[0].reshape(1, 3000)
        top[1].reshape(1)

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        top[0].data[...] = 0
        top[0].data[0, 2401] = 32
        top[1].data[0] = 2400.5


class Both(caffe.Layer):
    """Reads scores and labels; the labels are changed in place."""

    def setup(self, bottom, top):
        self.types = [blob.data.dtype for blob in bottom]

    def reshape(self, bottom, top):
        pass

    def forward(self, bottom, top):
        bottom[1].data[...] += 0.5


class NoLayer:
    pass


def three_layers(layer='Times', **more):
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[9, 8]))
    net.one = python(net.data, layer=layer, **more)
    net.two = python(net.one, layer=layer, **more)
    net.three = python(net.two, layer=layer, **more)
    proto = net.to_proto()
    proto.force_backward = True
    return proto


def devices():
    return [device.name for device in caffe.devices()]


@pytest.fixture(params=devices())
def device(request):
    caffe.set_device(request.param)
    yield request.param
    caffe.set_device('cpu')


class Counting(caffe.Layer):
    """What setup made and how many forwards there were."""

    def setup(self, bottom, top):
        self.setups = getattr(self, 'setups', 0) + 1
        self.forwards = 0
        self.blobs.add_blob(1)

    def reshape(self, bottom, top):
        top[0].reshape(3)

    def forward(self, bottom, top):
        self.forwards += 1
        self.blobs[0].data[...] += 2
        top[0].data[...] = self.setups, self.forwards, self.blobs[0].data[0]


def test_a_move_to_another_device_keeps_what_a_layer_holds():
    if len(devices()) < 2:
        pytest.skip('there is one device')
    spec = NetSpec()
    spec.count = python(layer='Counting', ntop=1)
    net = caffe.Net(spec.to_proto(), caffe.TRAIN)
    for step, name in enumerate((*devices()[::-1], *devices()), 1):
        caffe.set_device(name)
        assert net.forward()['count'].tolist() == [1, step, 2 * step]
    caffe.set_device('cpu')


def test_forward_and_backward(device):
    net = caffe.Net(three_layers(), caffe.TEST)
    x = np.arange(72, dtype=np.float32).reshape(9, 8)
    net.blobs['data'].data[...] = x
    assert np.array_equal(net.forward()['three'], 1000 * x)
    net.blobs['three'].diff[...] = 7
    net.backward()
    assert (net.blobs['data'].diff == 7000).all()


def test_between_layers_of_the_device(device):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[4, 6]))
    spec.ip = L.InnerProduct(spec.data, num_output=5, weight_filler=dict(type='gaussian'))
    spec.times = python(spec.ip, layer='Times')
    spec.relu = L.ReLU(spec.times, in_place=True)
    spec.out = L.InnerProduct(spec.relu, num_output=3, weight_filler=dict(type='gaussian'))
    proto = spec.to_proto()
    proto.force_backward = True
    net = caffe.Net(proto, caffe.TRAIN)
    x = np.random.RandomState(0).randn(4, 6).astype(np.float32)
    w, v = net.params['ip'][0].data.copy(), net.params['out'][0].data.copy()
    for _ in range(3):
        net.blobs['data'].data[...] = x
        out = net.forward()['out'].copy()
        middle = 10 * x @ w.T
        assert np.allclose(out, np.maximum(middle, 0) @ v.T, rtol=1e-4, atol=1e-4)
        net.clear_param_diffs()
        net.blobs['out'].diff[...] = 1
        net.backward()
        d = 10 * (np.ones((4, 3), np.float32) @ v) * (middle > 0)
        assert np.allclose(net.params['ip'][0].diff, d.T @ x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize('data_type, tolerance', [('CAFFE_HALF', 1e-3), ('CAFFE_DOUBLE', 1e-15)])
def test_other_types(data_type, tolerance):
    proto = three_layers(param_str='0.3')
    proto.data_type = proto.DESCRIPTOR.fields_by_name['data_type'].enum_type.values_by_name[
        data_type].number
    net = caffe.Net(proto, caffe.TEST)
    x = np.random.RandomState(0).rand(9, 8)
    net.blobs['data'].data[...] = x
    out = net.forward()['three']
    assert out.dtype == (np.float16 if data_type == 'CAFFE_HALF' else np.float64)
    assert np.allclose(out, 0.027 * x, rtol=4 * tolerance, atol=tolerance * 0.01)


def test_labels_stay_float():
    spec = NetSpec()
    spec.x, spec.y = python(layer='Pairs', ntop=2)
    proto = spec.to_proto()
    both = python(spec.x, spec.y, layer='Both', ntop=2)
    layer = NetSpec()
    layer.a, layer.b = both
    proto.layer.add().CopyFrom(layer.to_proto().layer[-1])
    proto.layer[-1].top[:] = proto.layer[-1].bottom[:] = ['x', 'y']
    proto.layer.add(name='hits', type='Accuracy', bottom=['x', 'y'], top=['hits'])
    proto.data_type = caffe.data_type.CAFFE_HALF
    net = caffe.Net(proto, caffe.TEST)
    assert net.layers[1].types == [np.float16, np.float32]
    assert net.forward()['hits'] == 1
    assert net.blobs['y'].data.dtype == np.float32 and net.blobs['y'].data[0] == 2401


def test_types_that_are_asked_for_are_read():
    spec = NetSpec()
    spec.x, spec.y = python(layer='Pairs', ntop=2)
    spec.a, spec.b = python(spec.x, spec.y, layer='Both', ntop=2,
                            compute_data_type=caffe.data_type.CAFFE_HALF)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    assert net.layers[1].types == [np.float16, np.float16]


def test_reshape():
    net = caffe.Net(three_layers(), caffe.TEST)
    net.blobs['data'].reshape(4, 2)
    net.blobs['data'].data[...] = 3
    net.reshape()
    assert net.blobs['three'].data.shape == (4, 2)
    net.blobs['data'].reshape(1, 5)
    net.blobs['data'].data[...] = 1
    assert np.array_equal(net.forward()['three'], np.full((1, 5), 1000))


def test_reshape_comes_before_each_forward():
    spec = NetSpec()
    spec.data = python(layer='Growing')
    spec.sum = L.InnerProduct(spec.data, num_output=1,
                              weight_filler=dict(type='constant', value=1))
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    for size in (2, 3, 4):
        assert np.array_equal(net.forward()['sum'], np.full((size, 1), 2 * size))


def test_param_str_and_phase():
    net = caffe.Net(three_layers(param_str='0.5'), caffe.TEST)
    net.blobs['data'].data[...] = 8
    assert (net.forward()['three'] == 1).all()
    assert net.layer_dict['two'].param_str == '0.5'
    spec = NetSpec()
    spec.phase = python(layer='Phase')
    for phase in (caffe.TRAIN, caffe.TEST):
        assert caffe.Net(spec.to_proto(), phase).forward()['phase'][0] == phase


def test_the_net_gives_the_object_back():
    net = caffe.Net(three_layers(), caffe.TEST)
    layer = net.layers[1]
    assert type(layer) is Times and layer.factor == 10 and layer.type == 'Python'
    del net
    gc.collect()
    assert layer.factor == 10 and layer.name == 'one'


def test_blobs_that_a_layer_kept_outlive_the_net():
    spec = NetSpec()
    spec.data = python(layer='Keeping')
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    layer = net.layers[0]
    assert layer.blob is net.blobs['data']
    net.forward()
    del net
    gc.collect()
    np.ones(1000)  # memory that was freed would be taken
    assert (layer.blob.data == 1).all() and (layer.view == 1).all()


def test_kept_views_are_seen(device):
    spec = NetSpec()
    spec.data = python(layer='Keeping')
    spec.twice = L.Power(spec.data, scale=2) if 'Power' in caffe.layer_type_list() else python(
        spec.data, layer='Times', param_str='2')
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    for count in (1, 2, 3):
        assert (net.forward()['twice'] == 2 * count).all()


def test_parameters(tmp_path):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.out = python(spec.data, layer='Scale', param=dict(lr_mult=3))
    proto = spec.to_proto()
    proto.force_backward = True
    net = caffe.Net(proto, caffe.TRAIN)
    assert len(net.params['out']) == 1 and net.params['out'][-1].data[0] == 2
    assert [blob.count for blob in net.params['out']] == [1]
    with pytest.raises(IndexError):
        net.params['out'][1]
    net.blobs['data'].data[...] = 5
    assert (net.forward()['out'] == 10).all()
    net.blobs['out'].diff[...] = 1
    net.backward()
    assert net.params['out'][0].diff[0] == 30 and (net.blobs['data'].diff == 2).all()
    net.params['out'][0].data[0] = 4
    net.save(str(tmp_path / 'w'))
    other = caffe.Net(proto, caffe.TRAIN)
    other.copy_from(str(tmp_path / 'w'))
    assert other.params['out'][0].data[0] == 4
    third = caffe.Net(proto, caffe.TRAIN)
    third.share_with(net)
    net.params['out'][0].data[0] = 9
    assert third.params['out'][0].data[0] == 9
    with pytest.raises(RuntimeError, match='add_blob can be called only in the setup'):
        net.layers[0].blobs.add_blob(1)


def test_a_solver_trains_it(tmp_path, device):
    spec = NetSpec()
    spec.data = L.DummyData(shape=dict(dim=[2, 3]), data_filler=dict(type='constant', value=1))
    spec.target = L.DummyData(shape=dict(dim=[2, 3]), data_filler=dict(type='constant', value=6))
    spec.out = python(spec.data, layer='Scale')
    spec.loss = L.EuclideanLoss(spec.out, spec.target)
    path = tmp_path / 'solver.prototxt'
    path.write_text('net: "%s" base_lr: 0.1 lr_policy: "fixed" snapshot_after_train: false '
                    'max_iter: 40' % write(tmp_path, spec.to_proto()))
    solver = caffe.SGDSolver(str(path))
    solver.step(40)
    # w' = w - 0.1 * 3 (w - 6): each step takes 0.7 of the distance.
    assert abs(solver.net.params['out'][0].data[0] - (6 - 4 * 0.7 ** 40)) < 1e-4


@pytest.mark.parametrize('where', ['setup', 'reshape', 'forward', 'backward'])
def test_exceptions_keep_their_type_and_name_the_layer(where):
    def run(how):
        net = caffe.Net(three_layers('Failing', param_str=where + how), caffe.TEST)
        net.forward()
        net.backward()

    layer = 'three' if where == 'backward' else 'one'
    with pytest.raises(ValueError, match=r'%s \(Python\)\.%s: it went wrong' % (layer, where)):
        run('')
    with pytest.raises(KeyError) as error:
        run(' by key')
    assert error.value.args == (3, 4)
    with pytest.raises(FileNotFoundError) as error:
        run(' by file')
    assert error.value.filename == '/nowhere/at/all'
    if sys.version_info >= (3, 11):
        assert error.value.__notes__ == ['in %s (Python).%s' % (layer, where)]


def test_classes_that_are_not_there():
    def make(**python_param):
        spec = NetSpec()
        spec.out = L.Python(**python_param)
        return caffe.Net(spec.to_proto(), caffe.TEST)

    with pytest.raises(ImportError, match=r'out \(Python\): No module named .no_such_module.'):
        make(module='no_such_module', layer='X')
    with pytest.raises(AttributeError, match=r'out \(Python\): .*Nothing'):
        make(module=MODULE, layer='Nothing')
    with pytest.raises(RuntimeError, match=r'NoLayer is not a subclass of caffe\.Layer'):
        make(module=MODULE, layer='NoLayer')
    with pytest.raises(RuntimeError, match='python_param needs module and layer'):
        make(module=MODULE)
    with pytest.raises(AttributeError, match=r"no attribute .backward."):
        spec = NetSpec()
        spec.data = L.Input(shape=dict(dim=[1]))
        spec.out = python(spec.data, layer='Phase')
        proto = spec.to_proto()
        proto.force_backward = True
        net = caffe.Net(proto, caffe.TEST)
        net.forward()
        net.backward()
    with pytest.raises((RuntimeError, TypeError)):
        Times()
