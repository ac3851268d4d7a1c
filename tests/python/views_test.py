"""NumPy views on every device: what is written through one is what the net uses."""
import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2
from nets import feed, settings, small_net

DEVICES = [device.name for device in caffe.devices()]


@pytest.fixture(params=DEVICES)
def device(request):
    caffe.set_device(request.param)
    caffe.set_random_seed(1)
    yield request.param
    caffe.set_device('cpu')


@pytest.fixture(params=[False, True], ids=['gone', 'held'])
def keep(request):
    """Takes views that are written to: they are kept alive, or they are gone at once."""
    held = []
    return held.append if request.param else lambda view: None


@pytest.fixture
def solver(device, tmp_path):
    made = caffe.get_solver(settings(tmp_path, momentum=0, weight_decay=0, lr_policy='fixed',
                                     base_lr=1, display=0, test_interval=0, test_iter=[]))
    feed(made)
    return made


def test_inputs_change_between_forwards(device, keep):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.ip = L.InnerProduct(spec.data, num_output=1, weight_filler=dict(type='constant', value=1))
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    for value in (1, 2, 3):
        view = net.blobs['data'].data
        view[...] = value
        keep(view)
        del view
        assert net.forward()['ip'].ravel().tolist() == [3 * value] * 2
        assert net.forward(data=np.full((2, 3), -value))['ip'].ravel().tolist() == [-3 * value] * 2


@pytest.mark.parametrize('kind', ['CAFFE_FLOAT', 'CAFFE_HALF', 'CAFFE_BFLOAT16'])
def test_a_loss_that_forward_returns_is_a_copy(device, kind):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 1]))
    spec.label = L.Input(shape=dict(dim=[2, 1]))
    spec.same = L.Power(spec.data)
    spec.loss = L.EuclideanLoss(spec.same, spec.label)
    proto = spec.to_proto()
    proto.data_type = getattr(caffe_pb2, kind)
    net = caffe.Net(proto, caffe.TEST)
    losses, views = [], []
    for value in (1, 2, 3):
        result = net.forward(data=np.full((2, 1), value), label=np.zeros((2, 1)), blobs=['same'])
        losses.append(result['loss'])
        views.append(result['same'])
    assert [float(loss) for loss in losses] == [0.5, 2, 4.5]
    assert abs(np.mean(losses) - 7 / 3) < 0.01
    assert all(loss.shape == () and loss[0] == loss and loss + 1 > loss for loss in losses)
    assert '%.1f' % losses[0] == '0.5'
    losses[0] += 1
    assert float(losses[0]) == 1.5 and float(losses[1]) == 2
    assert float(net.blobs['loss'].data) == 4.5
    if kind != 'CAFFE_BFLOAT16':  # an array is a view
        assert (views[0] == 3).all()


def test_an_array_of_a_blob_is_a_view_of_its_numbers(device):
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3]))
    spec.ip = L.InnerProduct(spec.data, num_output=2)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    blob = net.blobs['data']
    blob.data[...] = [[1, 2, 3], [4, 5, 6]]
    array = np.asarray(blob)
    assert array.dtype == np.float32 and array.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert np.mean(blob) == 3.5 and np.asarray(blob, dtype=int).sum() == 21
    array[0, 0] = 7
    assert blob.data[0, 0] == 7  # a view, as blob.data
    np.array(blob)[...] = 0
    assert blob.data[0, 0] == 7
    other = caffe.Net(spec.to_proto(), caffe.TEST)
    other.blobs['data'].data[...] = blob
    assert np.asarray(other.blobs['data']).tolist() == blob.data.tolist()


def test_weights_and_the_middle_of_a_net_change(device, keep):
    net = caffe.Net(small_net(), caffe.TRAIN)
    net.blobs['data'].data[...] = 1
    for value in (0, 1):
        net.forward()
        for view, number in ((net.blobs['conv'].data, value), (net.params['ip'][0].data, value),
                             (net.params['ip'][1].data, 5)):
            view[...] = number
            keep(view)
        del view
        ip = net.forward(start='ip')['loss'] is not None and net.blobs['ip'].data
        np.testing.assert_allclose(ip, value * 11 * 8 * 9 + 5, rtol=1e-6)
        # Data that changed after the forward counts in the backward.
        net.clear_param_diffs()
        view = net.blobs['conv'].data
        view[...] = 2
        keep(view)
        del view
        net.blobs['ip'].diff[...] = 1
        net.backward(start='ip', end='ip')
        np.testing.assert_allclose(net.params['ip'][0].diff, 10, rtol=1e-6)


def test_an_update_takes_gradients_and_weights_that_were_written(solver, keep):
    solver.net.forward()
    solver.net.backward()
    blob = solver.net.params['ip'][0]
    gradient, weights = blob.diff, blob.data
    gradient[...] = 2
    weights[...] = 7
    keep(gradient)
    keep(weights)
    del gradient, weights
    solver.apply_update()
    np.testing.assert_array_equal(blob.data, 5)


def test_callbacks_may_write(solver, keep):
    blob = solver.net.params['ip'][0]

    def write(view, value):
        view[...] = value
        keep(view)

    solver.add_callback(lambda: write(blob.data, 3), lambda: write(blob.diff, 2))
    for _ in range(2):
        solver.step(1)
        np.testing.assert_array_equal(blob.data, 1)


def test_callbacks_of_layers_may_read_and_write(device, keep):
    net = caffe.Net(small_net(), caffe.TRAIN)
    seen = []

    def after(layer):
        if net._layer_names[layer] == 'conv':
            view = net.blobs['conv'].data
            seen.append(view.copy())
            view[...] = 0
            keep(view)

    net.after_forward(after)
    for value in (0, 1):
        net.blobs['data'].data[...] = value
        net.forward()
        np.testing.assert_allclose(net.blobs['ip'].data, -3, rtol=1e-6)  # the bias alone
    assert (seen[0] == 2).all() and (seen[1] != 2).any()


def test_held_views_change_nothing_and_stay_current(solver, tmp_path):
    solver.step(3)
    expected = [blob.data.copy() for blobs in solver.net.params.values() for blob in blobs]
    again = caffe.get_solver(solver_settings(tmp_path))
    feed(again)
    blobs = [blob for blobs in again.net.params.values() for blob in blobs]
    held = [blob.data for blob in blobs]
    others = [blob.diff for blob in blobs] + [array for blob in again.net.blobs.values()
                                              for array in (blob.data, blob.diff)]
    again.step(3)
    assert len(others) == 4 + 10
    for view, values in zip(held, expected):
        np.testing.assert_array_equal(view, values)


def solver_settings(tmp_path):
    return settings(tmp_path, momentum=0, weight_decay=0, lr_policy='fixed', base_lr=1, display=0,
                    test_interval=0, test_iter=[])


def test_weights_that_were_written_are_saved_and_shared(device, keep, tmp_path):
    net = caffe.Net(small_net(), caffe.TEST)
    net.forward()
    view = net.params['ip'][0].data
    view[...] = 4
    keep(view)
    del view
    net.save(tmp_path / 'net.caffemodel')
    other = caffe.Net(small_net(), caffe.TEST, weights=tmp_path / 'net.caffemodel')
    assert (other.params['ip'][0].data == 4).all()
    other.share_with(net)
    net.params['ip'][0].data[...] = 0
    other.forward()
    np.testing.assert_array_equal(other.blobs['ip'].data, -3)
    old = net.params['ip'][0].data
    net.copy_from(str(tmp_path / 'net.caffemodel'))
    assert (old == 4).all()


def test_half_weights_follow_their_float_master(device, keep):
    half = caffe.data_type.CAFFE_HALF
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[1, 2]), top_data_type=half)
    spec.ip = L.InnerProduct(spec.data, num_output=1, bottom_data_type=half, compute_data_type=half,
                             top_data_type=half, weight_filler=dict(type='constant', value=1))
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    for value in (1, 2, 3):
        view = net.params['ip'][0].data
        view[...] = value
        keep(view)
        del view
        assert net.forward(data=np.ones((1, 2)))['ip'].item() == 2 * value


def test_a_reshape_detaches_views(device):
    net = caffe.Net(small_net(), caffe.TEST)
    view = net.blobs['data'].data
    view[...] = 1
    for name in ('data', 'label'):
        net.blobs[name].reshape(9, *net.blobs[name].shape[1:])
    net.reshape()
    assert view.shape == (5, 2, 3, 4) and (view == 1).all()
    assert net.blobs['data'].data.shape == (9, 2, 3, 4)
    view[...] = 2
    net.blobs['data'].data[...] = 3
    net.forward()
    assert (net.blobs['data'].data == 3).all() and (view == 2).all()


def test_a_move_to_another_device_keeps_views_live():
    if len(DEVICES) < 2:
        pytest.skip('there is one device')
    net = caffe.Net(small_net(), caffe.TEST)
    weights = net.params['ip'][0].data
    for name in (*DEVICES[::-1], *DEVICES):
        caffe.set_device(name)
        weights[...] = 1
        assert (net.forward(blobs=['ip'])['ip'] != -3).any()
        weights[...] = 0
        assert (net.forward(blobs=['ip'])['ip'] == -3).all()
        assert np.shares_memory(net.params['ip'][0].data, weights)
    caffe.set_device('cpu')


def test_a_move_to_another_device_keeps_a_reshaped_input():
    if len(DEVICES) < 2:
        pytest.skip('there is one device')
    spec = NetSpec()
    spec.x = L.Input(shape=dict(dim=[10, 3]))
    spec.y = L.Power(spec.x, scale=2)
    net = caffe.Net(spec.to_proto(), caffe.TEST)
    for name in (*DEVICES[::-1], *DEVICES):
        for rows in (2, 30):
            net.blobs['x'].reshape(rows, 3)
            net.reshape()
            x = np.arange(3 * rows).reshape(rows, 3) + 1
            net.blobs['x'].data[...] = x
            caffe.set_device(name)
            assert np.array_equal(net.forward()['y'], 2 * x)
            assert np.array_equal(net.blobs['x'].data, x)
    caffe.set_device('cpu')
