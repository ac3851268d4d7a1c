import gc
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2
from nets import small_net, write


@pytest.fixture
def net():
    caffe.set_device('cpu')
    caffe.set_random_seed(1)
    made = caffe.Net(small_net(), caffe.TRAIN)
    made.blobs['data'].data[...] = np.random.RandomState(0).randn(5, 2, 3, 4)
    made.blobs['label'].data[...] = np.arange(5).reshape(5, 1, 1, 1)
    return made


def test_arrays_outlive_their_net(net):
    arrays = [blob.data for blobs in net.params.values() for blob in blobs]
    arrays += [blob.diff for blobs in net.params.values() for blob in blobs]
    arrays += [blob.data for blob in net.blobs.values()]
    arrays += [blob.diff for blob in net.blobs.values()]
    del net
    gc.collect()
    assert np.isfinite(sum(float(np.sum(array)) for array in arrays))


def test_names_layers_and_blobs(net):
    assert list(net.layer_dict) == list(net._layer_names) == ['data', 'label', 'conv', 'ip', 'loss']
    assert net.layer_dict['conv'].type == 'Convolution'
    assert [layer.type for layer in net.layers] == [
        'Input', 'Input', 'Convolution', 'InnerProduct', 'SoftmaxWithLoss']
    assert list(net.blobs) == ['data', 'label', 'conv', 'ip', 'loss']
    assert list(net.params) == ['conv', 'ip'] and len(net.params['conv']) == 2
    assert net.inputs == ['data', 'label'] and net.outputs == ['loss']
    assert net.top_names['conv'] == ['conv'] and net.bottom_names['loss'] == ['ip', 'label']
    assert net.bottom_names['data'] == []
    assert net.blob_loss_weights['loss'] == 1 and net.blob_loss_weights['ip'] == 0


def test_copies_for_two_readers_are_not_seen():
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.a = L.InnerProduct(spec.data, num_output=2)
    spec.b = L.InnerProduct(spec.data, num_output=2)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    assert list(net.blobs) == ['data', 'a', 'b']
    assert list(net._layer_names) == ['data', 'a', 'b']
    assert net.bottom_names['a'] == net.bottom_names['b'] == ['data']


def test_blobs_know_their_shape(net):
    blob = net.blobs['conv']
    assert tuple(blob.shape) == (5, 11, 8, 9)
    assert (blob.num, blob.channels, blob.height, blob.width) == (5, 11, 8, 9)
    assert blob.count == blob.data.size == 5 * 11 * 8 * 9
    assert blob.data.shape == (5, 11, 8, 9) and blob.data.dtype == np.float32


def test_forward_and_backward(net):
    loss = net.forward()['loss']
    assert loss.shape == () and loss > 0
    assert loss[0] == loss[:][0] == float(loss)
    diffs = net.backward()
    assert np.abs(net.params['conv'][0].diff).sum() > 0
    assert np.abs(diffs['data']).sum() > 0


def test_forward_of_a_part_is_the_matrix_product(net):
    net.forward()
    weight, bias = (blob.data for blob in net.params['ip'])
    conv = net.blobs['conv'].data
    conv[...] = np.random.RandomState(1).randn(*conv.shape)
    result = net.forward(start='ip', end='ip')
    assert list(result) == ['ip']
    expected = conv.reshape(5, -1) @ weight.T + bias
    np.testing.assert_allclose(result['ip'], expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(net.forward(start='ip', end='ip', blobs=['conv'])['conv'], conv)


def test_backward_of_a_part_is_the_matrix_product(net):
    net.forward()
    net.clear_param_diffs()
    net.blobs['ip'].diff[...] = np.random.RandomState(2).randn(5, 13)
    result = net.backward(start='ip', end='ip')
    top_diff, conv = net.blobs['ip'].diff, net.blobs['conv'].data.reshape(5, -1)
    np.testing.assert_allclose(net.params['ip'][0].diff, top_diff.T @ conv, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(net.params['ip'][1].diff, top_diff.sum(axis=0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(result['conv'].reshape(5, -1), top_diff @ net.params['ip'][0].data,
                               rtol=1e-3, atol=1e-3)


def saliency_net(phase, force):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[4, 5]))
    spec.ip1 = L.InnerProduct(spec.data, num_output=6, weight_filler=dict(type='xavier'))
    spec.bn = L.BatchNorm(spec.ip1, in_place=True)
    spec.prelu = L.PReLU(spec.bn, in_place=True)
    spec.ip2 = L.InnerProduct(spec.prelu, num_output=3, weight_filler=dict(type='xavier'))
    spec.relu = L.ReLU(spec.ip2, in_place=True, negative_slope=0.1)
    spec.prob = L.Softmax(spec.relu)
    proto = spec.to_proto()
    proto.force_backward = force
    proto.data_type = caffe_pb2.CAFFE_DOUBLE
    caffe.set_random_seed(1)
    net = caffe.Net(proto, phase)
    net.params['bn'][1].data[...] = 2
    net.params['bn'][2].data[...] = 1
    net.blobs['data'].data[...] = np.random.RandomState(4).randn(4, 5)
    return net


@pytest.mark.parametrize('phase', [caffe.TEST, caffe.TRAIN])
@pytest.mark.parametrize('force', [False, True])
def test_saliency(phase, force):
    caffe.set_device('cpu')
    net = saliency_net(phase, force)
    x, seed = net.blobs['data'].data.copy(), np.zeros((4, 3))
    seed[:, 1] = 1
    net.forward()
    gradient = net.backward(prob=seed)['data'].copy()
    expected = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        values = []
        for step in (1e-5, -1e-5):
            moved = x.copy()
            moved[i] += step
            values.append(net.forward(data=moved)['prob'][:, 1].sum())
        expected[i] = (values[0] - values[1]) / 2e-5
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, expected, atol=1e-7)


@pytest.fixture(params=['cpu'] + [device.name for device in caffe.devices()])
def device(request):
    caffe.set_device(request.param)
    yield request.param
    caffe.set_device('cpu')


def test_parts_of_a_backward_need_no_force(device):
    nets = [saliency_net(caffe.TEST, force) for force in (False, True)]
    seed = np.eye(4, 3)
    results = []
    for each in nets:
        each.forward()
        part = each.backward(start='prob', end='ip2', prob=seed)['ip1'].copy()
        whole = each.backward(diffs=['ip1'], prob=seed)
        results.append((part, whole['ip1'].copy(), whole['data'].copy()))
    for actual, expected in zip(*results):
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-9)


def test_labels_have_no_gradient(net):
    net.forward()
    assert list(net.backward()) == ['data']
    with pytest.raises(RuntimeError, match="no gradient for blob 'label'.*'loss'.*labels"):
        net.backward(diffs=['label'])


def test_a_net_without_a_gradient_says_why():
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.best = L.ArgMax(spec.data)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    net.forward()
    with pytest.raises(RuntimeError, match="blob 'data': layer 'best' .ArgMax. has no backward"):
        net.backward()


def test_nets_on_two_devices_share_nothing(device):
    if device == 'cpu':
        pytest.skip('one device')
    made = caffe.Net(small_net(), caffe.TEST)
    caffe.set_device('cpu')
    other = caffe.Net(small_net(), caffe.TEST)
    with pytest.raises(RuntimeError, match="layer 'conv'.*is on cpu here and on"):
        other.share_with(made)


def test_diffs_of_parameters_are_cleared(net):
    net.forward()
    net.backward()
    net.clear_param_diffs()
    for blobs in net.params.values():
        for blob in blobs:
            assert not blob.diff.any()


def test_inputs_by_keyword(net):
    data = np.random.RandomState(3).randn(5, 2, 3, 4)
    label = np.ones((5, 1, 1, 1))
    loss = float(net.forward(data=data, label=label)['loss'])
    np.testing.assert_allclose(net.blobs['data'].data, data, rtol=1e-6)
    assert float(net.forward()['loss']) == loss
    with pytest.raises(ValueError, match="the net's inputs are data, label; without a value: label"):
        net.forward(data=data)
    with pytest.raises(ValueError, match=r'data: shape \(4, 2, 3, 4\) is not one batch of 5'):
        net.forward(data=data[:4], label=label)
    with pytest.raises(ValueError, match='no layer nothing'):
        net.forward(end='nothing')


def test_a_view_stays_live(net):
    view = net.blobs['data'].data
    net.params['ip'][0].data[...] *= 0.01  # else every probability of the labels underflows
    first = float(net.forward()['loss'])
    view[...] *= 2
    second = float(net.forward()['loss'])
    assert first != second
    view[...] /= 2
    assert float(net.forward()['loss']) == first
    weights = net.params['ip'][0].data
    weights[...] = 0
    net.params['ip'][1].data[...] = 0
    assert float(net.forward()['loss']) == pytest.approx(np.log(13), rel=1e-5)


def test_views_are_not_copied(net):
    blob = net.blobs['data']
    assert np.shares_memory(blob.data, blob.data)
    blob.data[0, 0, 0, 0] = 7
    assert blob.data[0, 0, 0, 0] == 7
    with pytest.raises(AttributeError):
        blob.data = np.zeros((5, 2, 3, 4))


def test_reshape_changes_what_follows(net):
    net.blobs['data'].reshape(3, 2, 3, 4)
    net.blobs['label'].reshape(3, 1, 1, 1)
    net.reshape()
    assert tuple(net.blobs['ip'].shape) == (3, 13)
    net.forward(data=np.zeros((3, 2, 3, 4)), label=np.zeros((3, 1, 1, 1)))


def test_weights_go_through_a_file(net, tmp_path):
    path = str(tmp_path / 'weights.caffemodel')
    net.save(path)
    for again in (caffe.Net(small_net(), caffe.TEST, weights=path),
                  caffe.Net(write(tmp_path, small_net()), caffe.TEST, weights=path)):
        for name, blobs in net.params.items():
            for ours, theirs in zip(blobs, again.params[name]):
                np.testing.assert_array_equal(ours.data, theirs.data)
    other = caffe.Net(small_net(), caffe.TEST)
    assert (other.params['ip'][0].data != net.params['ip'][0].data).any()
    other.copy_from(path)
    np.testing.assert_array_equal(other.params['ip'][0].data, net.params['ip'][0].data)


def test_every_way_to_make_a_net(net, tmp_path):
    path, weights = write(tmp_path, small_net()), tmp_path / 'weights.caffemodel'
    net.save(weights)
    expected = net.params['ip'][0].data
    made = [caffe.Net(network_file=path, phase=caffe.TEST, level=0, stages=None,
                      weights=str(weights)),
            caffe.Net(path, caffe.TEST, 0, ['a'], str(weights)),
            caffe.Net(tmp_path / 'net.prototxt', caffe.TEST, stages=('a', 'b'), weights=weights)]
    with pytest.warns(DeprecationWarning, match='weights=weights'):
        made.append(caffe.Net(path, str(weights), caffe.TEST))
    for other in made:
        np.testing.assert_array_equal(other.params['ip'][0].data, expected)
    with pytest.raises(ValueError, match='phase 7'):
        caffe.Net(path, 7)
    with pytest.raises(TypeError, match='expected a NetParameter, not a SolverParameter'):
        caffe.Net(caffe_pb2.SolverParameter(), caffe.TEST)
    with pytest.raises(TypeError):
        caffe.Net(5, caffe.TEST)
    with pytest.raises(RuntimeError, match='nowhere.caffemodel'):
        caffe.Net(path, caffe.TEST, weights='nowhere.caffemodel')


def test_weights_are_shared(net):
    other = caffe.Net(small_net(), caffe.TEST)
    other.share_with(net)
    net.params['ip'][0].data[0, 0] = 123
    assert other.params['ip'][0].data[0, 0] == 123
    net.params['ip'][0].diff[0, 0] = 45
    assert other.params['ip'][0].diff[0, 0] == 0, 'gradients are not shared'


def test_several_layers_in_one_step():
    code = """import sys; sys.path[:0] = %r
import caffe
from caffe import layers as L
caffe.set_device('cpu')
net = caffe.NetSpec()
net.data, net.label = L.Input(shape=dict(dim=[2, 3])), L.Input(shape=dict(dim=[2]))
net.ip = L.InnerProduct(net.data, num_output=4)
net.relu = L.ReLU(net.ip)
if sys.argv[1] != 'no loss':
    net.loss = L.SoftmaxWithLoss(net.relu, net.label)
proto = net.to_proto()
proto.force_backward = sys.argv[1] == 'force_backward'
net = caffe.Net(proto, caffe.TEST)
net.forward()
print('backward', file=sys.stderr)
net.backward()""" % sys.path
    def log(which):
        return subprocess.run([sys.executable, '-c', code, which], check=True, capture_output=True,
                              text=True, env=dict(os.environ, CAFFE_LOG='debug')).stderr
    for which in ('no loss', 'loss'):
        before, after = log(which).split('backward\n')
        assert 'fused steps:\nip + relu\n' in before and 'fused steps' not in after, which
    forced = log('force_backward')
    assert 'Network initialization done.' in forced and 'fused steps' not in forced


def plan_net():
    net = NetSpec()
    net.data = L.Input(shape=dict(dim=[4, 32]))
    net.ip = L.InnerProduct(net.data, num_output=16, weight_filler=dict(type='xavier'))
    net.relu = L.ReLU(net.ip)
    net.prob = L.Softmax(net.relu)
    return net.to_proto()


def test_the_plan_of_a_forward():
    caffe.set_device('cpu')
    net = caffe.Net(plan_net(), caffe.TEST)
    data, fused, prob = net.plan
    assert isinstance(data, caffe.Step)
    assert data.layers == ['data'] and data.layer_types == ['Input']
    assert (data.library, data.bytes, data.operations) == (None, 0, 0)
    assert fused.layers == ['ip', 'relu'] and fused.layer_types == ['InnerProduct', 'ReLU']
    assert fused.types == 'float' and fused.library not in (None, 'host', 'kernels')
    assert fused.bytes == 4 * (4 * 32 + 16 * 32 + 16 + 4 * 16)
    assert fused.operations == 4 * 16 * (2 * 32 + 1)
    assert isinstance(fused.workspace_bytes, int)
    assert prob.library == 'kernels' and prob.operations is None
    assert prob.bytes == 2 * 4 * 4 * 16
    assert repr(fused).startswith('<caffe.Step ip + relu: %s, float, NCHW, 0.003 MiB moved, 0.004 Mop, '
                                  % fused.library)
    lines = '\n'.join(map(str, net.plan)).split('\n')
    assert [line.split('  ')[0] for line in lines] == ['data', 'ip + relu', 'prob']
    assert len({line.index(' MiB moved') for line in lines}) == 1
    with pytest.raises(AttributeError):
        fused.bytes = 0
    net.blobs['data'].reshape(8, 32)
    assert net.plan[1].operations == 2 * fused.operations
    net.keep('ip')
    assert [step.layers for step in net.plan] == [['data'], ['ip'], ['relu'], ['prob']]


def test_the_plan_in_phase_train_has_a_step_for_each_layer():
    caffe.set_device('cpu')
    net = caffe.Net(plan_net(), caffe.TRAIN)
    assert [step.layers for step in net.plan] == [['data'], ['ip'], ['relu'], ['prob']]
    assert net.plan[2].bytes == 2 * 4 * 4 * 16 and net.plan[2].operations == 4 * 16


def test_the_plan_needs_ranges_of_codes():
    caffe.set_device('cpu')
    proto = plan_net()
    for layer in proto.layer[1:3]:
        layer.compute_data_type = caffe_pb2.CAFFE_INT8_QUANTIZED
    net = caffe.Net(proto, caffe.TEST)
    with pytest.raises(RuntimeError, match='ip'):
        net.plan


def test_a_net_of_any_number_of_images(net):
    images = np.random.RandomState(4).randn(12, 2, 3, 4).astype(np.float32)
    labels = np.zeros((12, 1, 1, 1))
    result = net.forward_all(data=images, label=labels, blobs=['ip'])
    assert result['ip'].shape == (12, 13) and result['loss'].shape == (3,)
    one = net.forward(data=images[5:10], label=labels[5:10], blobs=['ip'])
    np.testing.assert_allclose(result['ip'][5:10], one['ip'], rtol=1e-5)
    with pytest.raises(ValueError, match='label has 11 items, others 12'):
        net.forward_all(data=images, label=labels[1:])
    blobs, diffs = net.forward_backward_all(data=images, label=labels, blobs=['ip'])
    assert blobs['ip'].shape == (12, 13) and diffs['data'].shape == (12, 2, 3, 4)
    assert list(diffs) == ['data'], 'labels have no gradient'


def test_levels_and_stages():
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[1, 2]))
    spec.low = L.InnerProduct(spec.data, num_output=1)
    spec.high = L.InnerProduct(spec.data, num_output=1, include=dict(min_level=1))
    spec.a = L.InnerProduct(spec.data, num_output=1, include=dict(stage='A'))
    spec.b = L.InnerProduct(spec.data, num_output=1, include=dict(stage='B'))
    spec.ab = L.InnerProduct(spec.data, num_output=1, include=dict(stage=['A', 'B']))
    proto = spec.to_proto()

    def layers(**state):
        return list(caffe.Net(proto, caffe.TEST, **state).layer_dict)[1:]

    assert layers() == ['low']
    assert layers(level=1) == ['low', 'high']
    assert layers(stages=['A']) == ['low', 'a']
    assert layers(stages='A') == ['low', 'a']
    assert layers(stages=['A', 'B']) == ['low', 'a', 'b', 'ab']


def test_memory_data_reads_arrays():
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data, spec.label = L.MemoryData(batch_size=2, channels=1, height=2, width=3, ntop=2)
    spec.flat = L.Flatten(spec.data)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    images = np.arange(24.).reshape(4, 1, 2, 3)
    for set_arrays in (lambda: net.set_input_arrays(images, np.arange(4)),
                       lambda: net.set_input_arrays(0, images, np.arange(4)),
                       lambda: net.set_layer_input_arrays(net.layers[0], images, np.arange(4))):
        set_arrays()
        for batch in (0, 2, 0):
            net.forward()
            np.testing.assert_array_equal(net.blobs['flat'].data,
                                          images[batch:batch + 2].reshape(2, 6))
            assert list(net.blobs['label'].data.ravel()) == [batch, batch + 1]
    with pytest.raises(RuntimeError, match='batch'):
        net.set_input_arrays(images[:3], np.arange(3))


@pytest.mark.parametrize('name, dtype', [('CAFFE_HALF', np.float16), ('CAFFE_DOUBLE', np.float64),
                                         ('CAFFE_BFLOAT16', ml_dtypes.bfloat16)])
def test_blobs_of_other_types(name, dtype):
    caffe.set_device('cpu')
    data_type = getattr(caffe.data_type, name)
    types = dict(bottom_data_type=data_type, compute_data_type=data_type, top_data_type=data_type)
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]), top_data_type=data_type)
    spec.ip = L.InnerProduct(spec.data, num_output=2, weight_filler=dict(type='constant', value=1),
                             **types)
    spec.out = L.Quantizer(spec.ip, bottom_data_type=data_type, compute_data_type=data_type,
                           top_data_type=caffe.data_type.CAFFE_FLOAT)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    assert net.blobs['ip'].data.dtype == dtype and net.blobs['out'].data.dtype == np.float32
    out = net.forward(data=np.array([[1, 2, 3], [0.5, 0, -1]]))['out']
    assert out.tolist() == [[6, 6], [-0.5, -0.5]]
    values = net.blobs['ip'].float_data
    assert values.dtype == np.float32 and values.tolist() == out.tolist()
    assert not np.shares_memory(values, net.blobs['ip'].data)
    assert net.blobs['ip'].float_diff.tolist() == [[0, 0], [0, 0]]


def test_ranges_are_observed_and_saved(net, tmp_path):
    net.quant_mode = caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    assert net.quant_mode == caffe.quantizer_mode.CAFFE_QUANT_OBSERVE
    net.blobs['data'].data[...] = 0
    net.blobs['data'].data[0, 0, 0, :2] = -3, 5
    net.forward()
    net.save(str(tmp_path / 'net.caffemodel'))
    saved = caffe_pb2.NetParameter.FromString((tmp_path / 'net.caffemodel').read_bytes())
    ranges = {entry.name: (entry.observed_min, entry.observed_max) for entry in saved.quantizer}
    assert ranges['data'] == (-3, 5)
    conv = net.blobs['conv'].data
    assert ranges['conv'] == (conv.min(), conv.max())


def test_errors_are_exceptions_that_name_the_layer():
    caffe.set_device('cpu')
    with pytest.raises(RuntimeError, match='nowhere.prototxt'):
        caffe.Net('nowhere.prototxt', caffe.TEST)
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[1, 6, 4, 4]))
    spec.conv1 = L.Convolution(spec.data, num_output=4, kernel_size=3, group=4)
    with pytest.raises(RuntimeError, match='conv1'):
        caffe.Net(spec.to_proto(), caffe.TEST)
    with pytest.raises(RuntimeError, match='Nonsense'):
        caffe.Net(caffe_pb2.NetParameter(layer=[dict(name='x', type='Nonsense', top=['x'])]),
                  caffe.TEST)


def test_callbacks_are_called_with_layer_indices(net):
    seen = []
    net.before_forward(lambda index: seen.append(('before', index)))
    net.after_forward(lambda index: seen.append(('after', index)))
    net.forward()
    assert seen == [(when, index) for index in range(5) for when in ('before', 'after')]
