"""A label that is not a class is an exception in every function that can report it."""
import numpy as np
import pytest

import caffe
from nets import feed, settings, small_net, write


def device_names():
    return sorted({'cpu', *(device.name for device in caffe.devices())})


@pytest.fixture(params=device_names())
def solver(tmp_path, request):
    caffe.set_device(request.param)
    made = caffe.get_solver(settings(tmp_path))
    feed(made)
    yield made
    caffe.set_device('cpu')


MESSAGE = r'loss \(SoftmaxWithLoss\): label 13 of item 2 is not one of 13 classes \(0 to 12\)'
WRONG = np.array([1, 1, 13, 1, 1]).reshape(5, 1, 1, 1)


def test_forward(solver):
    net = solver.net
    net.blobs['label'].data[...] = WRONG
    with pytest.raises(RuntimeError, match=MESSAGE):
        net.forward()
    with pytest.raises(RuntimeError, match=MESSAGE):
        net.forward(start='ip', end='loss')
    net.blobs['label'].data[...] = 1
    assert np.isfinite(float(net.forward()['loss']))


def test_step_and_solve(solver):
    labels = solver.net.blobs['label'].data
    solver.step(1)
    labels[...] = WRONG
    with pytest.raises(RuntimeError, match=MESSAGE):
        solver.step(2)
    with pytest.raises(RuntimeError, match=MESSAGE):
        solver.solve()
    labels[...] = 1
    assert np.isfinite(solver.step(2))


def test_a_test_net(solver):
    solver.test_nets[0].blobs['label'].data[...] = WRONG
    with pytest.raises(RuntimeError, match=MESSAGE):
        solver.solve()


def test_values_that_are_not_integers(tmp_path):
    caffe.set_device('cpu')
    net = caffe.Net(write(tmp_path, small_net()), caffe.TEST)
    for value, text in ((0.5, '0.5'), (np.nan, 'nan')):
        net.blobs['label'].data[...] = value
        with pytest.raises(RuntimeError, match='label %s of item 0 is not an integer' % text):
            net.forward()
